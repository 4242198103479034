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


def at_the_prompt(cells: str, folder: Path) -> tuple[list[str], str]:
    """What is said there, and the errors."""
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=cells,
        cwd=folder,
        env=environment({"PYTHON_BASIC_REPL": "1"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if not line.startswith("<")], done.stderr


def test_a_cell_may_be_run_again_while_the_app_is_open(tmp_path: Path) -> None:
    said, errors = at_the_prompt(CELLS, tmp_path)
    assert said == ["first 41 a", "then 42 A", "still open True"], errors
    assert "Error" not in errors


def test_a_program_that_declares_a_name_twice_is_told() -> None:
    app = hf.App("memory:")

    def declare() -> None:
        @app.workflow
        async def answer() -> int:  # pyright: ignore[reportUnusedFunction]
            return 42

    declare()
    with pytest.raises(hf.errors.DuplicateWorkflow, match="HF5105"):
        declare()


EXTENSIONS = """
import holdfast as hf
from holdfast.steps.observer import Observer
app = hf.App("memory:")
said = []
@app.workflow
async def answer() -> int:
    return 41

@app.middleware("workflow")
def loud(invocation):
    said.append("loud")
    yield

def repeated(number):
    def around(invocation):
        said.append(f"repeated {number}")
        yield
    return around

_ = app.middleware("workflow")(repeated(1))
_ = app.middleware("workflow")(repeated(2))
class Tracing(Observer):
    def install(self, app):
        app.hooks.middlewares.add(self.around, ("workflow",))
    def around(self, invocation):
        said.append("traced")
        yield
    def execution_ended(self, ended):
        said.append("ended")

app.use(Tracing())
@app.middleware("workflow")
def loud(invocation):
    said.append("louder")
    yield

app.use(Tracing())
print(answer.start().result(60))
app.close()
print(sorted(said))
"""


def test_a_middleware_or_extension_that_is_added_again_replaces_the_one_before(tmp_path: Path) -> None:
    said, errors = at_the_prompt(EXTENSIONS, tmp_path)
    assert said == ["41", "['ended', 'louder', 'repeated 1', 'repeated 2', 'traced']"], errors
    assert "Error" not in errors
