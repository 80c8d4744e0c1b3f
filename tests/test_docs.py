"""The site's pages: their code, as a reader would paste it, and that every name is in them."""

import os
import re
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


def test_pages_link_to_files_that_exist():
    generated = {"gallery", "benchmarks", "generated"}
    for page in [*DOCS.glob("*.md"), *DOCS.glob("*/*.md")]:
        if generated & set(page.relative_to(DOCS).parts):
            continue
        for link in re.findall(r"\]\(((?!https?:)[^)#\s]+)", page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if "benchmarks" in link:
                target = DOCS.parent / "benchmarks" / "results" / target.name
            if "gallery" not in link and target.name != "command_line.md":
                assert target.exists(), f"{page.name}: {link}"


#: Classes that functions return, base classes, exceptions and annotations: users do not call them,
#: and the functions that return them are documented.
RETURNED_NAMES = """
BayesRule CausalGraph ChainComparison Change ChangePoint ClusterMass ColumnComparison Comparison
ConditionalEmbedding Contribution Convergence Covariance CredibleBand Diagnosis Edge
Embedding EmbeddingPosterior
GroupsComparison InputError Integral JointEmbedding Kernel KernelBayesFilter
KernelComparison KernelScore KernelStudentT LearnedFilter LearnedKernel LearnedStudentT
Likelihood LowRankError MMDEstimate MatchedWeights Measure Mode Modes Moment MonitorState
Normalizer OpenRun PairComparison Peak PreImage PredictiveCheck Product Radial Region
RegressionSummary Rows Sample SamplingError Scaled Score SmoothingError
StateEstimates Stationary SteinResult Sum TableComparison TestComponent TestResult Thinned
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
