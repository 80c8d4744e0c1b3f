"""Sphinx configuration of the site: ``python -m sphinx -W docs build/site``, with ``bke[docs]``.

Every build generates the pages of the commands' help and of the recorded benchmarks. ``-t fast``
shows the gallery's code without running it.
"""

from __future__ import annotations

import builtins
import os
import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from sphinx_gallery.sorting import ExplicitOrder

os.environ.setdefault("JAX_PLATFORMS", "cpu")

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "bke"
author = "the authors of bke"
project_copyright = "the authors of bke"
version = release = version_of("bke")
language = "en"
smartquotes = False  # would turn --options into dashes

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["build", "gallery/**/*.zip", "sg_execution_times.rst"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_default_options = {
    "members": True,
    "inherited-members": False,
    # Methods of scikit-learn's estimators, which scikit-learn documents.
    "exclude-members": "set_fit_request, set_predict_request, set_score_request, "
    "set_decision_function_request, set_score_samples_request",
}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "pydata_sphinx_theme"
html_title = "bke"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True


def _file_of_a_script(gallery: dict[str, Any], name: str) -> None:
    """Set ``__file__`` of a gallery script, as when Python runs it."""
    (found,) = (ROOT / "examples" / "gallery").rglob(Path(name).name)
    builtins.__file__ = str(found)  # type: ignore[attr-defined]


PURPOSES = (
    "posterior_of_the_lengthscale",
    "check_a_model",
    "see_a_difference",
    "compare_tables",
    "learn_a_kernel",
    "find_causes",
    "filter",
    "simulate",
    "reproduce_the_papers",
)
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "capture_repr": (),
    "min_reported_time": 5,
    "subsection_order": ExplicitOrder([f"../examples/gallery/{one}" for one in PURPOSES]),
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", _file_of_a_script),
    "matplotlib_animations": False,
    "plot_gallery": not tags.has("fast"),  # noqa: F821  Sphinx gives it
    "write_computation_times": False,
}


def _commands() -> None:
    """Write one page with the help of all commands."""
    import typer
    from bke.inference.cli.program import app
    from typer.cli import get_docs_for_click

    command = typer.main.get_command(app)
    context = command.make_context("bke", [], resilient_parsing=True)
    text = get_docs_for_click(obj=command, ctx=context, name="bke", title="Command line")
    (HERE / "reference" / "command_line.md").write_text(text, encoding="utf-8")


def _benchmarks() -> None:
    """Write a page for each recorded benchmark, and their list."""
    folder = HERE / "benchmarks"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    lines = []
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = re.match(r"# (.*)", text)
        heading = title.group(1) if title else path.stem
        lines.append(f"| [{heading}]({path.name}) | `{path.stem}` |")
        (folder / path.name).write_text(text, encoding="utf-8")
    index = (
        "# Benchmarks\n\nThese pages are the source of all numbers on this site and in the README. "
        "The scripts in `benchmarks/` wrote them, with the machine, the versions and the date.\n\n"
        f"## Comparison with other packages\n\n{_comparison_table()}\n\n## All benchmarks\n\n"
        "| benchmark | `benchmarks/results/` |\n| --- | --- |\n" + "\n".join(lines) + "\n\n"
        "```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    )
    (folder / "index.md").write_text(index, encoding="utf-8")


def _comparison_table() -> str:
    """Return the README's comparison with other packages, with links for this site."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"## What makes it different\n\n(.*?)\n\nRead before", readme, re.DOTALL)
    assert found is not None
    return found.group(1).replace("benchmarks/results/", "")


def _bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape ``|x - y|`` in a docstring, which is not a substitution."""
    for i, line in enumerate(lines):
        parts = line.split("``")
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[i] = "``".join(parts)


def setup(app: Any) -> None:
    """Generate pages before any page is read."""
    app.connect("builder-inited", lambda app: (_commands(), _benchmarks()))
    app.connect("autodoc-process-docstring", _bars)
