"""The common style of all pictures."""

import io

from bke.inference.plots.style import panels


def drawn(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def test_a_dollar_sign_begins_no_formula():
    """Names that are no formula would raise; powers on an axis are ours."""
    figure, (ax,) = panels(1, 1, None, width=3.0, height=2.0)
    ax.set_title(r"cost $\frac$")
    ax.barh([1.0, 2.0], [1.0, 1000.0])
    ax.set_yticks([1.0, 2.0], ["in $x$", r"$\x$"])
    ax.set_xscale("log")
    for _ in range(2):
        first = drawn(figure)
    maths = {label.get_text(): label.get_parse_math() for label in ax.get_xticklabels()}
    assert maths["$\\mathdefault{10^{3}}$"]
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())
    ax.set_title(r"cost $\\frac$")  # is another name
    assert drawn(figure) != first
