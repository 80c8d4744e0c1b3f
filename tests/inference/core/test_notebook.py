"""Display in notebooks, and conversion to data frames, of every class of results."""

import functools
import html
import io
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from bke import inference
from bke.inference import (
    Monitor,
    Monitors,
    Nuts,
    RegressionSummary,
    compare,
    compare_chains,
    compare_groups,
    compare_kernels,
    compare_tables,
    diagnose,
    fit,
    independence_test,
    learn_filter,
    learn_kernel,
    learn_student_t,
    match_weights,
    posterior_predictive_check,
    reweight,
    stein_test,
    thin,
    two_density_test,
    two_sample_test,
)
from bke.inference.core import notebook
from bke.inference.core.notebook import LINES, ReprMixin
from bke.models import Laplace, SquaredExponential

#: Names that must be escaped on a web page.
ODD, ESCAPED = "<script>alert('&')</script>", "&lt;script&gt;"
QUIET = {"progress": False}


def rng():
    return np.random.default_rng(3)


def normal(rows, columns=1, shift=0.0):
    return rng().normal(size=(rows, columns)) + shift


@functools.cache
def run():
    method = Nuts(num_chains=2, num_warmup=20, num_samples=20)
    return fit(normal(24), columns=[ODD], method=method, **QUIET)


def tables():
    first = pd.DataFrame({ODD: normal(80)[:, 0], "plan": ["a", "b"] * 40})
    second = first.assign(**{ODD: first[ODD] + 2.0})
    return first, second


def make_monitor():
    monitor = Monitor(normal(60, 2), columns=[ODD, "b"])
    monitor.update(normal(80, 2, 4.0))
    return monitor


def make_monitors():
    frame = pd.DataFrame(normal(300, 2), columns=[ODD, "b"]).assign(site=["<b>", "y", "z"] * 100)
    monitors = Monitors(frame, "site")
    monitors.update(frame.assign(**{ODD: frame[ODD] + 9.0 * (frame["site"] == "<b>")}))
    return monitors


def chains():
    draws = rng().normal(size=(3, 60, 2))
    draws[2] += 3.0
    return draws


def predictive():
    import arviz_base

    tree = {
        "posterior_predictive": {"<script>": rng().normal(size=(2, 60, 12))},
        "observed_data": {"<script>": normal(12)[:, 0] + 2.0},
    }
    return posterior_predictive_check(arviz_base.from_dict(tree), replicates=39, **QUIET)


def graph():
    pytest.importorskip("causallearn")
    X = normal(40, 3)
    X[:, 1] += 2.0 * X[:, 0]
    options = {"kernel": "median", "n_resamples": 39, **QUIET}
    return inference.causal_graph(X, columns=(ODD, "b", "c"), **options)


def regression():
    y = np.arange(6.0)
    return RegressionSummary(
        y, y + 0.5, np.ones(6), np.full(6, 9), (ODD, *"abcde"), y, (1.0, 2.0, 3.0), 4, True
    )


def bayesian():
    rng = np.random.default_rng(0)
    return inference.bayesian_two_sample_test(rng.normal(size=40), rng.normal(size=40))


def test_of_samples():
    result = two_sample_test(normal(20), normal(20, shift=2.0), n_resamples=99, **QUIET)
    return result.with_sample_names((ODD, "b"))


test_of_samples.__test__ = False

#: A function that makes the result, flags of its picture and of ODD in its text, rows of its frame.
RESULTS = {
    "Comparison": (
        lambda: compare(normal(40), normal(40, shift=3.0), columns=[ODD], **QUIET),
        *(True, True, 5),
    ),
    "TestResult": (test_of_samples, True, True, None),
    "TestResult alone": (
        lambda: independence_test(
            normal(20), normal(20, 2), kernel="median", n_resamples=19, **QUIET
        ),
        *(True, False, 1),
    ),
    "BayesianTestResult": (bayesian, False, False, None),
    "SteinResult": (
        lambda: stein_test(normal(60, 2, 1.0), -normal(60, 2, 1.0), columns=[ODD, "b"], **QUIET),
        *(True, True, 2),
    ),
    "ChainComparison": (lambda: compare_chains(chains(), columns=[ODD, "b"]), True, True, 3),
    "Thinned": (lambda: thin(normal(50, 2), 5, columns=[ODD, "b"]), False, False, 5),
    "MatchedWeights": (
        lambda: match_weights(normal(60, 2), normal(40, 2, 0.3), columns=[ODD, "b"]),
        *(True, True, None),
    ),
    "TableComparison": (lambda: compare_tables(*tables(), **QUIET), True, True, 2),
    "ColumnComparison": (lambda: compare_tables(*tables(), **QUIET)[ODD], False, True, None),
    "GroupsComparison": (
        lambda: compare_groups(
            pd.concat(tables(), keys=["x", "y"], names=["when"]).reset_index("when"),
            *("when",),
            **QUIET,
        ),
        *(False, True, 2),
    ),
    "Diagnosis": (lambda: diagnose(run()), False, False, None),
    "LearnedFilter": (
        lambda: learn_filter(
            normal(40, 1), normal(40, 2), kernel_x="median", kernel_y="median", **QUIET
        ),
        *(False, False, None),
    ),
    "LearnedKernel": (lambda: learn_kernel(normal(30), starts=2, **QUIET), False, False, None),
    "KernelComparison": (
        lambda: compare_kernels(
            normal(24), {ODD: SquaredExponential, "b": Laplace}, folds=2, **QUIET
        ),
        *(False, True, 2),
    ),
    "Monitor": (make_monitor, True, True, None),
    "MonitorState": (lambda: make_monitor().state, False, True, None),
    "Monitors": (make_monitors, True, True, 3),
    "CausalGraph": (graph, True, True, None),
    "CausalDirection": (
        lambda: inference.causal_direction(normal(60), np.exp(normal(60, 2)[:, 1]), **QUIET),
        *(True, False, 2),
    ),
    "PredictiveCheck": (predictive, True, True, 12),
    "RegressionSummary": (regression, False, False, 6),
    "LearnedStudentT": (
        lambda: learn_student_t(normal(30), factors=(0.5, 1.0), noise_variance=1.0, **QUIET),
        *(False, False, 2),
    ),
    "TwoDensityResult": (
        lambda: two_density_test(
            *(normal(9), normal(8, shift=2.0)),
            factors=(1.0,),
            noise_variance=1.0,
            n_resamples=19,
            **QUIET,
        ),
        *(True, False, 1),
    ),
}
SLOW = {
    *("KernelComparison", "LearnedStudentT", "Diagnosis", "LearnedFilter"),
    "PredictiveCheck",
}
for_all_results = pytest.mark.parametrize(
    "name",
    [
        pytest.param(result_name, marks=pytest.mark.slow if result_name in SLOW else ())
        for result_name in RESULTS
    ],
)


@functools.cache
def make_result(name):
    return RESULTS[name][0]()


@for_all_results
def test_a_result_displays_its_text_and_its_picture(name):
    from matplotlib import pyplot as plt

    matplotlib.use("Agg")
    _, drawn, odd, _ = RESULTS[name]
    result, open_before = make_result(name), plt.get_fignums()
    page = result._repr_html_()
    assert ESCAPED in page or not odd
    assert "<script" not in page
    assert page.count("<img ") == int(drawn)
    pictures = re.findall(r'src="data:image/png;base64,[^"]{4000,}"', page)
    assert len(pictures) == int(drawn)
    assert plt.get_fignums() == open_before
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    printed = str(result).splitlines()
    assert all(line.strip() in text for line in printed)
    visible = html.unescape(re.sub(r"<[^>]*>", "", page.partition("<details")[0]))
    answer = (result._answer() or printed[0]).strip()
    assert visible.strip().startswith(answer)
    assert "background: transparent" in page
    assert "background: #" not in page


@for_all_results
def test_a_result_is_a_data_frame(name, tmp_path):
    result = make_result(name)
    if not hasattr(result, "to_dataframe"):
        assert name == "ColumnComparison"
        return
    frame, rows = result.to_dataframe(), RESULTS[name][3]
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == rows or (rows is None and len(frame) > 0)
    assert frame.columns.is_unique
    assert list(frame.index) == [*range(len(frame))]
    again = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    assert list(again) == list(frame)
    documented = " ".join((type(result).to_dataframe.__doc__ or "").split())
    plain = [column for column in frame if re.fullmatch("[a-z_]{2,}", column)]
    if name != "Monitor":  # a frame of its state, whose docstring describes the columns
        described = documented + inference.TableComparison.to_dataframe.__doc__ * (
            name[:6] == "Groups"
        )
        assert not [column for column in plain if f"``{column}``" not in described], documented


def test_every_public_result_with_a_report_has_a_display():
    """A new class of results needs the mixin, and a line above."""
    with_report = {
        name
        for name in inference.__all__
        if isinstance(result_type := getattr(inference, name, None), type)
        and "__str__" in vars(result_type)
        and not hasattr(result_type, "_fields")
    }
    plain = {"Edge", "Change", "DistributionRegressor"}  # a few words, or scikit-learn's own
    assert with_report - plain == {name for name in RESULTS if " " not in name}
    assert all(issubclass(getattr(inference, name), ReprMixin) for name in with_report - plain)


class Odd(ReprMixin):
    """A report of many lines, with a plot and a data frame that fail."""

    def __init__(self, lines=30):
        self.lines = lines

    def __str__(self):
        return "\n".join(f"line {k} & more" for k in range(self.lines))

    def plot(self):
        raise RuntimeError("no picture")

    def to_dataframe(self):
        raise RuntimeError("no rows")


def test_long_reports_are_folded_and_errors_are_suppressed():
    page = Odd()._repr_html_()
    before, after = page.split("<details")
    assert f"line {LINES - 1} &amp; more" in before
    assert f"line {LINES} &amp; more" not in before
    assert f"line {LINES} &amp; more" in after
    assert "line 29 &amp; more" in after
    assert "<img" not in page
    assert "<table" not in page
    assert "<details" not in Odd(3)._repr_html_()
    assert "line 2 &amp; more" in Odd(3)._repr_html_()


def test_where_the_words_fail_repr_is_left(monkeypatch):
    monkeypatch.setattr(Odd, "__str__", lambda self: 1 / 0)
    assert Odd()._repr_html_() is None


def test_long_data_frames_are_truncated_with_a_count(monkeypatch):
    frame = pd.DataFrame({ODD: np.arange(40), "fraction": np.linspace(0.0, 1.0, 40)})
    frame.loc[0, "fraction"] = np.nan
    monkeypatch.setattr(Odd, "to_dataframe", lambda self: frame)
    page = Odd(1)._repr_html_()
    assert page.count("<tr>") == notebook.ROWS + 1
    assert "and 10 more rows" in page
    assert re.search(f"<th [^>]*>{ESCAPED}", page)
    assert "0.02564" in page
    assert "nan" not in page


def test_a_figure_of_pyplot_is_closed(monkeypatch):
    from matplotlib import pyplot as plt

    before = plt.get_fignums()
    monkeypatch.setattr(Odd, "plot", lambda self: plt.subplots()[0])
    assert "<img " in Odd()._repr_html_()
    assert plt.get_fignums() == before


def test_numbers_of_frames():
    """Compare with attributes of the results."""
    comparison = make_result("Comparison")
    region, row = comparison.regions[0], comparison.to_dataframe().iloc[0]
    assert row[f"{ODD}.center"] == region.center[0]
    assert row["higher_in"] == comparison.names[0 if region.sign > 0 else 1]
    assert row["estimate"] == region.ratio
    assert (row["low"], row["high"]) == region.ratio_interval
    assert row["intervals"] == region.intervals
    frame, plain = comparison.to_dataframe().set_index("quantity"), comparison.to_dict()
    for quantity, name in (
        ("mean difference", "mean_difference"),
        ("Hodges-Lehmann shift", "median_difference"),
        ("AUC", "auc"),
    ):
        row = frame.loc[quantity]
        assert row["estimate"] == np.squeeze(plain[name])
        assert [row["low"], row["high"]] == np.squeeze(plain[f"{name}_interval"]).tolist()
        assert np.isnan(row["pvalue"])
    assert frame.loc["mean difference", "column"] == ODD
    frame = make_result("TableComparison").to_dataframe().set_index("name")
    assert frame.loc[ODD, "shift"] == pytest.approx(2.0)
    assert frame.loc[ODD, "reject"]
    assert np.isnan(frame.loc["plan", "median_before"])
    compared = make_result("TableComparison")
    pairs = compared.pairs_to_dataframe()
    assert (pairs["first"][0], pairs["second"][0]) == compared.pairs[0].columns
    groups = make_result("GroupsComparison").to_dataframe()
    assert {*groups["reference"]} == {"when x"} or {*groups["reference"]} == {"x"}
    thinned = make_result("Thinned")
    frame = thinned.to_dataframe()
    np.testing.assert_array_equal(frame[[ODD, "b"]], thinned.points)
    np.testing.assert_array_equal(frame["index"], thinned.indices)
    learned = make_result("LearnedKernel")
    assert learned.to_dataframe()["lengthscale"][0] == pytest.approx(
        float(learned.kernel.lengthscale)
    )


@pytest.mark.slow
def test_modes_with_their_masses():
    with_masses = diagnose(reweight(run(), **QUIET))
    frame = with_masses.to_dataframe()
    assert frame["mass"].sum() == pytest.approx(1.0)
    assert list(frame["mode"]) == [k + 1 for k in range(len(with_masses.modes.modes))]
