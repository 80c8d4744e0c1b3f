"""The notebook in ``examples/``, run from top to bottom as a reader would."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first_look.ipynb"


@pytest.mark.slow
def test_it_runs_and_displays_every_result_once():
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(NOTEBOOK.parent)}}
    client.NotebookClient(notebook, timeout=300, resources=resources).execute()
    code_cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    displayed = [
        output["data"]
        for cell in code_cells
        for output in cell.outputs
        if output.output_type in ("execute_result", "display_data")
    ]
    assert all("image/png" not in data for data in displayed)  # a picture is within its result
    pages = [data["text/html"] for data in displayed if "text/html" in data]
    assert len(pages) == 5
    assert sum("<svg" in page or "data:image" in page for page in pages) >= 2
    assert not [
        output for cell in code_cells for output in cell.outputs if output.output_type == "error"
    ]


def test_it_is_stored_without_outputs():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert '"outputs": []' in text
    assert "execute_result" not in text
