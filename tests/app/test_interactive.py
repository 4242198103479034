"""At a prompt, and in a notebook, what is declared again replaces what was declared before."""

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from tests.processes import environment

CELLS = """
import holdfast as hf
app = hf.App("memory:")
@app.workflow
async def answer() -> int:
    return 41

@app.task
def shout(text: str) -> str:
    return text

app.provide("punctuation", "!")
limits = app.queue("loud", concurrency=1)
print("first", answer.start().result(60), shout.send("a").get(60).ok_value)
@app.workflow
async def answer() -> int:
    return 42

@app.schedule(cron="0 0 * * *", id="midnight")
@app.task
def shout(text: str = "") -> str:
    return text.upper()

@app.schedule(cron="0 1 * * *", id="midnight")
@app.task
def shout(text: str = "") -> str:
    return text.upper()

app.provide("punctuation", "?")
limits = app.queue("loud", concurrency=2)
print("then", answer.start().result(60), shout.send("a").get(60).ok_value)
print("still open", app.session.is_open)
"""


def test_a_cell_may_be_run_again_while_the_app_is_open(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=CELLS,
        cwd=tmp_path,
        env=environment({"PYTHON_BASIC_REPL": "1"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if not line.startswith("<")]
    assert said == ["first 41 a", "then 42 A", "still open True"], done.stdout + done.stderr
    assert "Error" not in done.stderr


def test_a_program_that_declares_a_name_twice_is_told() -> None:
    app = hf.App("memory:")

    def declare() -> None:
        @app.workflow
        async def answer() -> int:  # pyright: ignore[reportUnusedFunction]
            return 42

    declare()
    with pytest.raises(hf.errors.DuplicateWorkflow, match="HF5105"):
        declare()
