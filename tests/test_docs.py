"""The site's pages: their code, as a reader would paste it, and that every name is in them."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

DOCS = Path(__file__).parents[1] / "docs"
#: Pages with code, less those that other files are made into.
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if "```python" in path.read_text(encoding="utf-8")
    and not {"gallery", "generated", "benchmarks"} & set(path.relative_to(DOCS).parts)
)
#: Code that is run, in its order: blocks of ``sh`` are commands for data or machines not here.
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
NEEDS = {"causes.md": "causallearn", "cluster.md": "distributed"}


@pytest.mark.slow
@pytest.mark.usefixtures("_settings_are_put_back")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    if page.name == "cluster.md":
        pytest.skip("its code is run by tests/inference/testing, with workers")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    bin_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names: dict[str, object] = {"__name__": "page"}
    text = page.read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text):
        if language == "python":
            exec(compile(block, page.name, "exec"), names)
        else:
            subprocess.run(
                ["bash", "-c", block], check=True, env={**os.environ, "PATH": bin_path}, timeout=300
            )
        for picture in re.findall(r'savefig\("(.*?)"\)', block):
            assert (tmp_path / picture).stat().st_size > 5000
    assert names.keys() > {"__name__"}


@pytest.mark.parametrize("package", ["inference", "models"])
def test_every_public_name_is_on_a_page_of_the_reference(package):
    stub = (DOCS.parent / package / "__init__.pyi").read_text(encoding="utf-8")
    public = set(re.findall(r"\bas (\w+)", stub))
    page = (DOCS / "reference" / f"{package}.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", page, flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == public


ROOT = DOCS.parent
#: Pages that are written by hand, with those of the repository.
TEXTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / ".github" / "SECURITY.md"]
    + [ROOT / "benchmarks" / "README.md"]
    + [
        path
        for path in DOCS.rglob("*.md")
        if not {"gallery", "generated", "benchmarks", "command_line.md"}
        & set(path.relative_to(DOCS).parts)
    ]
)
FENCED = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)


def texts():
    """Return the path and the text of each page."""
    return [(page, page.read_text(encoding="utf-8")) for page in TEXTS]


def anchors(text):
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_link_to_files_and_headings_that_exist():
    count = 0
    for page, text in texts():
        for link in re.findall(r"\]\(((?!https?:|mailto:)[^)\s]+)", FENCED.sub("", text)):
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if target == DOCS / "reference" / "command_line.md":
                continue  # generated, as are the gallery and the pages of the results:
            if target.is_relative_to(DOCS / "gallery"):
                target = ROOT / "examples" / target.relative_to(DOCS)
                target = target.with_name(re.sub(r"^index.rst$", "GALLERY_HEADER.rst", target.name))
                target = target if target.suffix != ".rst" or target.exists() else target.parent
            elif target.is_relative_to(DOCS / "benchmarks") and target.name != "index.md":
                target = ROOT / "benchmarks" / "results" / target.name
            elif target.is_relative_to(DOCS / "benchmarks"):
                continue
            assert target.exists(), f"{page.name}: {link}"
            if anchor:
                assert anchor in anchors(target.read_text(encoding="utf-8")), f"{page.name}: {link}"
            count += 1
    assert count > 100


def test_every_command_line_on_a_page_is_parsed():
    """Lines of code by the parser of the command, spans of text by the names of its options."""
    import click
    import typer
    from bke.inference.cli.program import app

    program = typer.main.get_command(app)
    lines, spans = [], []
    for page, text in texts():
        blocks = "".join(FENCED.findall(text)).replace("\\\n", " ")
        lines += re.findall(r"(?:^|\| |&& |run: )bke ([^|#\n&]+)", blocks, flags=re.MULTILINE)
        if page.parent.name != "benchmarks":  # where `bke auto` is the name of a method
            spans += re.findall(r"`bke ([^`]+)`", FENCED.sub("", text))
    assert len(lines) > 10
    assert len(spans) > 20
    for line in lines:
        name, *words = shlex.split(line)
        command = program.commands[name]
        with click.Context(command) as context:
            command.make_parser(context).parse_args(words)
    for span in spans:
        name, *words = span.split()
        command = program if name.startswith("-") else program.commands[name]
        names = {name for option in command.params for name in option.opts + option.secondary_opts}
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= names | {"--help"}


def script_options(script):
    """Return the options of a script, with those of the scripts that it imports."""
    text = script.read_text(encoding="utf-8")
    others = re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE)
    files = [script.with_name(f"{name}.py") for name in others]
    text += "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
    return {"--help", *re.findall(r'add_argument\(\s*"(--[a-z-]+)"', text)}


def test_scripts_on_a_page_exist_and_have_the_named_options():
    named = []
    for _, text in texts():
        named += re.findall(r"python ((?:benchmarks|examples)/[\w/]+\.py)([^`\n]*)", text)
    assert len(named) > 50
    for name, rest in named:
        options = set(re.findall(r"(?<![\w-])--[a-z-]+", rest))
        assert options <= script_options(ROOT / name), f"{name}{rest}"
    # A section on a benchmark names options of it and of other benchmarks that it names.
    sections = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").split("\n## ")
    wrong = []
    for section in sections[1:]:
        scripts = set(re.findall(r"(\w+)\.py", section))
        paths = [ROOT / "benchmarks" / f"{script}.py" for script in scripts]
        options = set().union(*(script_options(path) for path in paths if path.exists()))
        code = " ".join(re.findall(r"`([^`]*)`", FENCED.sub("", section)))
        used = set(re.findall(r"(?<![\w-])--[a-z-]+", code))
        wrong += [f"{section.splitlines()[0]}: {option}" for option in sorted(used - options)]
    assert not wrong


def test_commands_of_results_and_pictures_have_the_recorded_options():
    records = json.loads((DOCS / "pictures.json").read_text(encoding="utf-8"))
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        records[path.name] = json.loads(path.read_text(encoding="utf-8"))
    for name, record in records.items():
        script, *words = shlex.split(record["command"])
        options = {word for word in words if word.startswith("--")}
        assert options <= script_options(ROOT / script), name


#: Classes that functions return, base classes, exceptions and annotations: users do not call them,
#: and the functions that return them are documented.
RETURNED_NAMES = """
AdditiveNoiseModel BayesRule BayesianTestResult CausalDirection CausalGraph ChainComparison
Change ChangePoint ClusterMass ColumnComparison Comparison ConditionalEmbedding
ConditionalPosterior Contribution
Convergence Covariance CredibleBand Diagnosis Edge Embedding EmbeddingPosterior GroupsComparison
InputError Integral JointEmbedding Kernel KernelBayesFilter KernelComparison KernelScore
KernelStudentT LearnedFilter LearnedKernel LearnedStudentT Likelihood LowRankError MMDEstimate
MatchedWeights Measure Mode Modes Moment MonitorState NormalMixture Normalizer OpenRun
PairComparison Peak PreImage PredictiveCheck Product Radial Region RegressionSummary Rows Sample
SamplingError Scaled Score SmoothingError StateEstimates Stationary SteinResult Sum
TableComparison TestComponent TestResult Thinned TwoDensityResult
"""
RETURNED = frozenset(RETURNED_NAMES.split())


def test_every_name_that_users_call_is_in_code_that_runs():
    root = DOCS.parent
    texts = [page.read_text(encoding="utf-8") for page in [*PAGES, root / "README.md"]]
    code = "".join(block for text in texts for _, block in BLOCK.findall(text))
    code += "".join(path.read_text(encoding="utf-8") for path in root.glob("examples/**/*.py"))
    public = {
        name
        for package in ("inference", "models")
        for name in re.findall(
            r"\bas (\w+)", (root / package / "__init__.pyi").read_text(encoding="utf-8")
        )
    }
    assert public >= RETURNED
    used = set(re.findall(r"\w+", code))
    assert not sorted(public - RETURNED - used)
