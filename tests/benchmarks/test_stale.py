"""Which results and pictures are older than their code: on a small tree, and in this one."""

import json
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TREE = {
    "benchmarks/power.py": "import report\nimport settings\nfrom bke.inference import compare\n",
    "benchmarks/settings.py": "N = 500\n",
    "benchmarks/report.py": "DIGITS = 3\n",
    "examples/figure.py": "from bke.inference.testing.test import run\nENTRY = 'entry.py'\n",
    "examples/gallery/entry.py": "X = 1\n",
    "inference/__init__.pyi": "from .testing.compare import compare as compare\n",
    "inference/testing/__init__.py": "",
    "inference/testing/compare.py": "from .test import run\ndef compare(): return run\n",
    "inference/testing/test.py": (
        "from ...models import kernel\n"
        "def run():\n    from ..plots.test import plot\n    return kernel, 0\n"
    ),
    "inference/testing/unused.py": "",
    "inference/plots/test.py": "import json\n",
    "inference/plots/json.py": "",
    "models/__init__.pyi": "from .kernels import kernel as kernel\n",
    "models/kernels.py": "def kernel(): return 1.0\n",
}


@pytest.fixture
def stale(load, monkeypatch):
    module = load("stale")
    # The module is the same in all tests, the trees differ.
    for name in ("tree", "imported", "public_modules"):
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
    return module


@pytest.fixture
def root(tmp_path):
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_sources_are_those_that_are_imported(stale, root):
    assert stale.imported(root / "benchmarks/power.py", root) == {
        root / "benchmarks/report.py",
        root / "benchmarks/settings.py",
        root / "inference/testing/compare.py",
    }
    assert stale.imported(root / "inference/testing/test.py", root) == {
        root / "inference/plots/test.py",
        root / "models/kernels.py",
    }
    assert stale.imported(root / "inference/plots/test.py", root) == set()
    assert root / "examples/gallery/entry.py" in stale.imported(root / "examples/figure.py", root)


@pytest.mark.parametrize(
    ("name", "text", "result", "picture"),
    [
        ("models/kernels.py", "def kernel(): return 2.0\n", True, True),
        ("models/kernels.py", "# why\ndef kernel():\n  'Doc.'\n  return (1.0)\n", False, False),
        (
            "inference/testing/test.py",
            TREE["inference/testing/test.py"].replace(", 0", ", False"),
            True,
            True,
        ),
        ("inference/testing/unused.py", "X = 1\n", False, False),
        ("inference/plots/test.py", "X = 1\n", False, True),
        ("benchmarks/settings.py", "N = 400\n", True, False),
        ("benchmarks/report.py", "DIGITS = 4\n", False, False),
        ("examples/gallery/entry.py", "X = 2\n", False, True),
    ],
)
def test_a_change_of_code_makes_dependent_results_stale(stale, root, name, text, result, picture):
    before = [
        stale.hash_today("power.json", "benchmarks/power.py --n 5", root),
        stale.hash_today("figure.png", "examples/figure.py --out OUT", root),
    ]
    (root / name).write_text(text)
    after = [
        stale.hash_today("power.json", "benchmarks/power.py", root),
        stale.hash_today("figure.png", "examples/figure.py", root),
    ]
    assert [a != b for a, b in zip(after, before, strict=True)] == [result, picture]


def test_states(stale, root):
    results = root / "benchmarks" / "results"
    results.mkdir()
    command = "benchmarks/power.py"
    today = stale.hash_today("power.json", command, root)
    for name, sources in (("a", today), ("b", "0" * 16), ("c", None)):
        record = {"command": command, "sources": sources, "machine": {}, "rows": [1]}
        (results / f"{name}.json").write_text(json.dumps(record))
    summary = stale.hash_today("docs/a.png", f"{command} --summary", root)
    record = {"docs/a.png": {"command": f"{command} --summary", "sources": summary}}
    (root / "docs").mkdir()
    (root / "docs" / "pictures.json").write_text(json.dumps(record))
    states = [state for _, _, state in stale.states(root)]
    assert states == ["current", "stale", "recorded without a hash", "current"]
    # A picture of a result depends on the script and the rows, not on the package or the machine.
    (root / "models" / "kernels.py").write_text("def kernel(): return 2.0\n")
    (results / "a.json").write_text(json.dumps({"machine": {"cores": 2}, "rows": [1]}))
    assert stale.hash_today("docs/a.png", f"{command} --summary", root) == summary
    (results / "a.json").write_text(json.dumps({"machine": {}, "rows": [2]}))
    assert stale.hash_today("docs/a.png", f"{command} --summary", root) != summary


def test_a_picture_that_is_drawn_again_is_current(stale, root):
    (root / "examples" / "figure.py").write_text(
        "import pathlib, sys\npathlib.Path(sys.argv[2], 'figure.png').write_text('drawn')\n"
    )
    (root / "benchmarks" / "results").mkdir()
    (root / "docs").mkdir()
    record = {"command": "examples/figure.py --out OUT", "sources": "0" * 16}
    (root / "docs" / "pictures.json").write_text(json.dumps({"docs/figure.png": record}))
    assert [state for *_, state in stale.states(root)] == ["stale"]
    stale.run(record["command"], root)
    assert (root / "docs" / "figure.png").read_text() == "drawn"
    assert [state for *_, state in stale.states(root)] == ["current"]


def test_a_record_has_its_command_and_its_oldest_hash(load, monkeypatch, tmp_path):
    report, stale = load("report"), load("stale")
    script = ROOT / "benchmarks" / "large.py"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    arguments = ["--scripts", "a b", "--resume", "--results", "here", "--work", "/tmp"]
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    path = tmp_path / "large.json"
    origin = report.origin(path)
    assert origin == {
        "command": "benchmarks/large.py --scripts 'a b' --work OUT",
        "sources": stale.hash_today("large.json", "benchmarks/large.py"),
    }
    path.write_text(json.dumps({"command": "before", "rows": []}))
    assert report.origin(path) == {"command": "before", "sources": None}
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert report.origin(path)["command"] == "benchmarks/large.py"


def test_every_result_and_picture_names_its_script():
    results = ROOT / "benchmarks" / "results"
    pictures = json.loads((ROOT / "docs" / "pictures.json").read_text(encoding="utf-8"))
    drawn = [*ROOT.glob("docs/**/*.png"), *results.glob("*.png")]
    generated = {"gallery", "_build", "build"}
    names = {path.relative_to(ROOT) for path in drawn if not generated & {*path.parts}}
    assert {Path(name) for name in pictures} == names
    for path in results.glob("*.json"):
        pictures[path.name] = json.loads(path.read_text(encoding="utf-8"))
        assert path.stat().st_size <= 200_000, f"{path.name}: record summary rows only"
        assert path.with_suffix(".md").exists()
    for name, record in pictures.items():
        assert "command" in record, f"{name}: record it with benchmarks/report.py"
        assert (ROOT / record["command"].split()[0]).is_file(), name


def test_stale_pictures_are_reported(load):
    stale = load("stale")
    pictures = json.loads((ROOT / "docs" / "pictures.json").read_text(encoding="utf-8"))
    old = [
        name
        for name, record in pictures.items()
        if record["sources"] not in (None, stale.hash_today(name, record["command"]))
    ]
    if old:
        warnings.warn(
            f"older than their scripts: {', '.join(old)}; run python benchmarks/stale.py --run",
            stacklevel=1,
        )
