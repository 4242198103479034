"""A notebook in a real Jupyter kernel, whose loop always runs: declared cell by cell, cells run again."""

import importlib
from pathlib import Path
from typing import Any

import pytest

OPEN = "import asyncio, holdfast as hf\napp = hf.App('sqlite:///holdfast.db')"
DECLARE = "@app.workflow\nasync def answer(more: int) -> int:\n    return {number} + more"
START = "handle = await asyncio.to_thread(answer.start, 1)\nprint(await handle)"


def outputs(folder: Path, *cells: str) -> list[str]:
    """What each cell printed, or the error that it ended with."""
    v4: Any = importlib.import_module("nbformat").v4
    nbclient: Any = importlib.import_module("nbclient")
    notebook: Any = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    kernel = {"kernel_name": "python3", "resources": {"metadata": {"path": str(folder)}}}
    nbclient.NotebookClient(notebook, timeout=60, allow_errors=True, **kernel).execute()
    return ["".join(_said(output) for output in cell.outputs).strip() for cell in notebook.cells]


def _said(output: Any) -> str:
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return str(output.text) if output.output_type == "stream" and output.name == "stdout" else ""


@pytest.mark.filterwarnings("ignore")
def test_a_cell_that_declares_a_workflow_may_be_run_again(tmp_path: Path) -> None:
    found = outputs(
        tmp_path, OPEN, DECLARE.format(number=40), START, DECLARE.format(number=41), START, "print('end')"
    )
    assert found == ["", "", "41", "", "42", "end"]


@pytest.mark.filterwarnings("ignore")
def test_a_call_that_would_stop_the_kernel_is_refused_with_a_way_out(tmp_path: Path) -> None:
    *_, refused, waited = outputs(tmp_path, OPEN, DECLARE.format(number=1), "answer.start(1)", START)
    assert refused.startswith("WouldBlock: ")
    assert "await asyncio.to_thread(...)" in refused
    assert waited == "2"


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_may_open_the_app_on_its_own_loop_for_all_cells(tmp_path: Path) -> None:
    cells = [OPEN, DECLARE.format(number=1), "_ = await app.__aenter__()", "print(await answer.start(2))"]
    again = [
        DECLARE.format(number=2),
        "print(await answer.start(2))",
        "await app.__aexit__(None, None, None)",
    ]
    assert outputs(tmp_path, *cells, *again) == ["", "", "", "3", "", "4", ""]
