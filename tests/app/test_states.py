"""The two tables in the docstring of bridge.py, cell by cell.

`@cell(by, state, says)` names the cell that a test is about and repeats what the table says there. The last
test compares them with the docstring.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

import holdfast as hf
from holdfast.app import bridge_of
from holdfast.host import bridge
from tests.app.held import IN_ASYNC_WITH, IN_WITH, OPENED_BY_ITSELF, HeldApp
from tests.app.test_life import LONG_S, double, in_thread, until
from tests.processes import environment

T = TypeVar("T")
Test = TypeVar("Test", bound=Callable[..., Any])

TOLD: dict[tuple[str, str], str] = {}


def cell(by: str, state: str, says: str) -> Callable[[Test], Test]:
    def note(test: Test) -> Test:
        TOLD[by, state] = says
        return test

    return note


@pytest.fixture
def held(tmp_path: Path) -> HeldApp:
    return HeldApp(tmp_path)


def after(held: HeldApp, work: Callable[[], T]) -> T:
    """What the work gives if it begins now, and the app goes on."""
    thread, found = in_thread(work)
    held.go_on()
    thread.join(LONG_S)
    [given] = found
    if isinstance(given, BaseException):
        raise given
    result: T = given
    return result


# --- asked by a script or a thread -------------------------------------------------------------------------


@cell("script, thread", "closed", "opens in a thread")
def test_a_script_opens_a_closed_app_in_a_thread(held: HeldApp) -> None:
    with held.at("closed"):
        assert held.ask() == "hello"
        assert held.lives_in_a_thread


@cell("script, thread", "opening", "waits")
def test_a_thread_waits_for_whoever_opens_the_app(held: HeldApp) -> None:
    with held.at("opening"):
        assert after(held, held.ask) == "hello"
        assert held.opened == 1


@cell("script, thread", "open", "asks")
def test_a_thread_asks_an_open_app(held: HeldApp) -> None:
    with held.at("open"):
        assert after(held, held.ask) == "hello"
        assert held.opened == 1


@cell("script, thread", "closing", "asks while steps may finish, then [1]")
def test_a_thread_asks_while_steps_may_finish_and_is_refused_then(held: HeldApp) -> None:
    """`test_what_runs_while_the_app_is_closed_may_still_send` is the first half."""
    with held.at("closing"), pytest.raises(hf.errors.ClosedTooSoon):
        held.app.start("greet", id="late")


# --- asked on its own loop ---------------------------------------------------------------------------------


async def ask_here(held: HeldApp) -> None:
    handle = held.app.start("greet", id="here")  # at once
    with pytest.raises(hf.errors.WouldBlock):
        handle.result()
    assert (await handle.started()).id == "here"


@cell("its own loop", "closed", "-")
def test_a_closed_app_has_no_loop(held: HeldApp) -> None:
    assert bridge_of(held.app)._loop is None  # pyright: ignore[reportPrivateUsage]


@cell("its own loop", "opening", "asks")
@cell("its own loop", "closing", "asks [2]")
@pytest.mark.parametrize("state", ["opening", "closing"])
def test_code_on_the_loop_of_the_app_asks_while_it_opens_or_closes(held: HeldApp, state: str) -> None:
    asked: list[str] = []

    async def ask() -> None:
        await ask_here(held)
        asked.append(held.state)

    held.inside = ask
    with held.at(state):
        assert asked == [state]


@cell("its own loop", "open", "asks [2]")
async def test_code_on_the_loop_of_an_open_app_asks(held: HeldApp) -> None:
    async with held.app:
        await ask_here(held)


# --- asked on another loop ---------------------------------------------------------------------------------


def ask_elsewhere(held: HeldApp) -> str:
    """On a loop of its own; and a call that blocks is refused there."""

    async def ask() -> str:
        with pytest.raises(hf.errors.WouldBlock):
            held.app.start("greet")
        sent = await double(held.app).send_async(21)
        return str((await sent).ok_value)

    return asyncio.run(ask())


@cell("another loop", "closed", "opens [2]")
@cell("another loop", "opening", "awaits [2]")
@cell("another loop", "open", "awaits [2]")
@pytest.mark.parametrize("state", ["closed", "opening", "open"])
def test_on_another_loop_the_app_is_awaited(held: HeldApp, state: str) -> None:
    with held.at(state):
        assert after(held, lambda: ask_elsewhere(held)) == "42"
        assert held.opened == 1


@cell("another loop", "closing", "as a thread")
def test_another_loop_is_refused_when_the_steps_have_finished(held: HeldApp) -> None:
    async def ask() -> Any:
        return await held.app.handle("any").info_async()

    with held.at("closing"), pytest.raises(hf.errors.ClosedTooSoon):
        asyncio.run(ask())


# --- asked by a workflow, in a child, at the end of the interpreter ----------------------------------------


@cell("a workflow", "closed", "NoAsyncioHere")
@cell("a workflow", "opening", "the same")
@cell("a workflow", "open", "the same")
@cell("a workflow", "closing", "the same")
@pytest.mark.parametrize("state", ["closed", "opening", "open", "closing"])
def test_a_workflow_cannot_ask_an_app_in_any_state(held: HeldApp, state: str) -> None:
    other = hf.App("memory:")

    @other.workflow
    async def nosy() -> str:
        try:
            held.app.start("greet")
        except hf.errors.NoAsyncioHere:
            return "refused"
        return "started"

    with held.at(state), other:
        assert other.start(nosy).result(LONG_S) == "refused"


PROGRAM = """
import os, signal, sys, threading
import holdfast as hf
from holdfast.app import bridge_of
signal.alarm(50)  # whoever hangs is ended
forks = sys.argv[1] == "forks"
goes_on, apps = threading.Event(), {}

def bring_to(state):
    app = apps[state] = hf.App(f"sqlite:///{state}.db")
    reached = threading.Event()

    def come_to(where):
        if where == state:
            reached.set()
            goes_on.wait(40 if forks else 0.5)  # nothing runs that could say when the end has come

    @app.provide("gate")
    def gate():
        come_to("opening")
        yield 1
        come_to("closing")
        print("closed", state, flush=True)

    @app.workflow
    async def greet():
        return "hello"

    def work():
        app.start("greet").result(40)
        if state == "closing":
            app.close()

    if state == "open":
        work()
    elif state != "closed":
        threading.Thread(target=work, daemon=True).start()
        reached.wait(40)
    assert bridge_of(app)._state == state

for state in ("closed", "open", "opening", "closing"):
    bring_to(state)
if forks:
    if os.fork() == 0:
        for state, app in apps.items():
            try:
                print(state, bridge_of(app)._state, app.start("greet").result(40), flush=True)
            except hf.errors.OpenedBeforeFork:
                print(state, bridge_of(app)._state, "OpenedBeforeFork", flush=True)
        os._exit(0)
    os.wait()
    goes_on.set()
"""


def run_program(folder: Path, mode: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, mode],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@cell("a child of fork", "closed", "opens")
@cell("a child of fork", "opening", "its app is closed: it opens its own, or [3]")
@cell("a child of fork", "open", "")
@cell("a child of fork", "closing", "")
def test_in_a_child_the_app_is_closed_whatever_it_was(tmp_path: Path) -> None:
    """Over HTTP it opens its own: tests/app/test_fork.py."""
    assert run_program(tmp_path, "forks")[:4] == [
        "closed closed hello",
        "open closed OpenedBeforeFork",
        "opening closed OpenedBeforeFork",
        "closing closed OpenedBeforeFork",
    ]


@cell("interpreter's end", "closed", "-")
@cell("interpreter's end", "opening", "waits")
@cell("interpreter's end", "open", "closes [4]")
@cell("interpreter's end", "closing", "waits")
def test_at_the_end_of_the_interpreter_nothing_is_left_open(tmp_path: Path) -> None:
    assert {*run_program(tmp_path, "ends")} == {"closed opening", "closed open", "closed closing"}


# --- opened and closed -------------------------------------------------------------------------------------


def enter(held: HeldApp) -> tuple[int, int, bool]:
    with held.app:
        return held.opened, held.closed, held.lives_in_a_thread


def enter_async(held: HeldApp) -> tuple[int, int, bool]:
    async def opened() -> tuple[int, int, bool]:
        async with held.app:
            return held.opened, held.closed, held.lives_in_a_thread

    return asyncio.run(opened())


ENTERED = {  # how often it was opened and closed inside the block, and whether it lives in a thread there
    "closed": (1, 0, True),
    "opening": (1, 0, True),
    "closing": (2, 1, True),
    OPENED_BY_ITSELF: (1, 0, True),
    IN_WITH: (1, 0, True),
    IN_ASYNC_WITH: (1, 0, False),
}


@cell("`with app`", "closed", "opens")
@cell("`with app`", "opening, closing", "waits")
@cell("`with app`", OPENED_BY_ITSELF, "takes it over")
@cell("`with app`", IN_WITH, "counts")
@cell("`with app`", IN_ASYNC_WITH, "uses it")
@pytest.mark.parametrize("state", ENTERED)
def test_a_block_opens_the_app_or_uses_what_is_open(held: HeldApp, state: str) -> None:
    with held.at(state):
        is_kept = state in (IN_WITH, IN_ASYNC_WITH)
        found = enter(held) if is_kept else after(held, lambda: enter(held))
        assert found == ENTERED[state]
        if is_kept:
            assert held.closed == 0, "whoever opened it closes it"
        elif state != "opening":  # there somebody else uses it as well, and may be the one who opens it again
            assert held.state == "closed"


@cell("`async with app`", "closed", "opens here")
@cell("`async with app`", "opening, closing", "waits")
@cell("`async with app`", OPENED_BY_ITSELF, "closes it, and opens")
@pytest.mark.parametrize(
    ("state", "found"),
    [("closed", (1, 0)), ("opening", (2, 1)), ("closing", (2, 1)), (OPENED_BY_ITSELF, (2, 1))],
)
def test_a_block_of_asyncio_opens_the_app_on_its_loop(
    held: HeldApp, state: str, found: tuple[int, int]
) -> None:
    with held.at(state):
        assert after(held, lambda: enter_async(held)) == (*found, False)


@cell("`async with app`", IN_WITH, "AlreadyOpen")
@cell("`async with app`", IN_ASYNC_WITH, "AlreadyOpen")
@pytest.mark.parametrize("state", [IN_WITH, IN_ASYNC_WITH])
def test_an_app_that_somebody_has_open_is_not_opened_on_another_loop(held: HeldApp, state: str) -> None:
    with held.at(state), pytest.raises(hf.errors.AlreadyOpen):
        enter_async(held)


@cell("`close()`", "closed", "nothing")
@cell("`close()`", "opening, closing", "waits")
@cell("`close()`", OPENED_BY_ITSELF, "closes")
@cell("`close()`", IN_WITH, "closes")
@pytest.mark.parametrize("state", ["closed", "closing", OPENED_BY_ITSELF, IN_WITH])
def test_close_leaves_the_app_closed(held: HeldApp, state: str) -> None:
    with held.at(state):
        closer, _ = in_thread(held.app.close)
        if state == "closing":
            held.go_on()
        closer.join(LONG_S)
        assert held.state == "closed"
        assert held.closed == held.opened == (0 if state == "closed" else 1)


def test_close_waits_for_whoever_opens_the_app(held: HeldApp) -> None:
    with held.at("opening"):
        closer, _ = in_thread(held.app.close)
        held.go_on()
        until(lambda: not closer.is_alive())
        assert held.closed == 1


@cell("`close()`", IN_ASYNC_WITH, "AlreadyOpen")
def test_what_a_loop_has_open_is_not_closed_from_elsewhere(held: HeldApp) -> None:
    with held.at(IN_ASYNC_WITH):
        with pytest.raises(hf.errors.AlreadyOpen):
            held.app.close()
        assert held.state == "open"
        held.go_on()
        until(lambda: held.state == "closed")


# --- the tables --------------------------------------------------------------------------------------------


def told_by_the_docstring() -> dict[tuple[str, str], str]:
    """Cells begin below the first letters of their heading. One that spans several stands in the first."""
    lines = (bridge.__doc__ or "").splitlines()
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(lines):
        if re.match(r"    (asked by|by) ", line):
            starts = [each.start() for each in re.finditer(r"(?<=  )\S|^\S", line)]
            ends = [*starts[1:], 200]
            heads = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
            for row in lines[number + 1 :]:
                if not row.strip():
                    break
                cells = re.split(r"\s{2,}", row.strip())
                spans = [row[a:b].strip() for a, b in zip(starts, ends, strict=True)]
                if len(cells) < len(starts):  # the last one runs over the columns behind it
                    spans = [*cells, *[""] * (len(starts) - len(cells))]
                found |= {(spans[0], head): each for head, each in zip(heads[1:], spans[1:], strict=True)}
    return found


def test_every_cell_of_the_tables_is_a_test_here() -> None:
    assert told_by_the_docstring() == TOLD
