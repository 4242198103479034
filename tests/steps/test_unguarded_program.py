"""A program without `if __name__ == "__main__":` that has steps or tasks in child processes.

The child imports the program to find the function. If the import started work there, each child would start
what starts the next child, and all of them would wait for one another.
"""

import subprocess
import sys
from pathlib import Path

import pytest

limit_s = 60  # only a hang exceeds it

WORKFLOW = """
import holdfast as hf

app = hf.App()


@hf.step(mode="process")
def alone() -> int:
    return 1


@app.workflow
async def flow() -> int:
    return await alone()


def work() -> None:
    try:
        print("gave", app.start(flow).result())
    except RuntimeError as error:
        print(error)
    print("started", len(list(app.find(flow))))
"""

TASK = """
import holdfast as hf

app = hf.App()


@app.task(mode="process")
def alone() -> int:
    return 1


def work() -> None:
    result = alone.send().get()
    print("gave", result.ok if result.is_ok else result.err_value.message)
    print("started", len(list(app.find(alone))))
"""


def run(folder: Path, program: str) -> str:
    (folder / "program.py").write_text(program)
    ended = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=True,
    )
    return ended.stdout


@pytest.mark.parametrize("program", [WORKFLOW, TASK], ids=["step", "task"])
def test_an_unguarded_program_starts_nothing_in_its_child_and_says_what_to_write(
    program: str, tmp_path: Path
) -> None:
    printed = run(tmp_path, program + "\n\nwork()\n")
    assert "program.py uses its app while a child process imports it" in printed
    assert 'if __name__ == "__main__":' in printed
    assert "started 1" in printed


@pytest.mark.parametrize("program", [WORKFLOW, TASK], ids=["step", "task"])
def test_a_guarded_program_works(program: str, tmp_path: Path) -> None:
    printed = run(tmp_path, program + '\n\nif __name__ == "__main__":\n    work()\n')
    assert printed.splitlines() == ["gave 1", "started 1"]
