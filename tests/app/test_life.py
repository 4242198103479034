"""Who may open, use and close an app, in which state, from where. The tables of it: test_states.py."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.app import bridge_of
from holdfast.host.session import Session
from tests.processes import environment, eventually

LONG_S = 60.0


def make_app(folder: Path, **options: Any) -> hf.App:
    app = hf.App(f"sqlite:///{folder}/holdfast.db", **options)
    app.settings = replace(app.settings, grace_s=0.2)

    @app.workflow
    async def greet() -> str:
        return "hello"

    @app.workflow
    async def waits() -> str:
        return await hf.promise(str)

    @app.task
    def double(number: int) -> int:
        return 2 * number

    return app


def double(app: hf.App) -> Any:
    return app.tasks.find("double")


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Those that are open."""
    alive: list[Session] = []
    opening, closing = Session.open, Session.close

    async def opened(self: Session) -> None:
        alive.append(self)
        await opening(self)

    async def closed(self: Session) -> None:
        await closing(self)
        alive.remove(self)

    monkeypatch.setattr(Session, "open", opened)
    monkeypatch.setattr(Session, "close", closed)
    return alive


def in_thread(work: Callable[[], Any]) -> "tuple[threading.Thread, list[Any]]":
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.005)


# --- closed ------------------------------------------------------------------------------------------------


def test_a_script_opens_the_app_with_its_first_call_and_closes_it_at_the_end(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    assert app.start("greet", id="g").result(LONG_S) == "hello"
    app.close()
    assert app.start("greet", id="g").result(LONG_S) == "hello", "it opens again"
    app.close()
    app.close()


async def test_a_call_that_blocks_is_refused_on_an_event_loop(
    tmp_path: Path, sessions: list[Session]
) -> None:
    app = make_app(tmp_path)
    with pytest.raises(hf.errors.WouldBlock, match="HF5207"):
        app.start("greet", id="g")
    with pytest.raises(hf.errors.WouldBlock):
        double(app).send(1)
    with pytest.raises(hf.errors.WouldBlock):
        app.handle("g").result()
    with pytest.raises(hf.errors.WouldBlock):
        app.task_handle("g").get()
    with pytest.raises(hf.errors.WouldBlock), app:
        pass
    app.close()  # nothing to close
    assert not sessions, "and it has opened nothing"


async def test_a_call_that_blocks_is_refused_on_the_loop_of_the_app_too(tmp_path: Path) -> None:
    async with make_app(tmp_path) as app:
        handle = app.start("greet", id="g")  # a handle at once; what it stands for is on its way
        with pytest.raises(hf.errors.WouldBlock):
            handle.result()
        with pytest.raises(hf.errors.WouldBlock):
            double(app).send(1)
        with pytest.raises(hf.errors.WouldBlock):
            app.close()
        assert await handle == "hello"


async def test_from_another_loop_awaiting_opens_the_app_and_the_loop_goes_on(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    sent = await double(app).send_async(21)
    assert turns > 10, "the loop stood still while the app was opened"
    assert (await sent).ok_value == 42
    counting.cancel()
    await asyncio.to_thread(app.close)


async def test_code_of_a_workflow_asks_nothing_of_an_app(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    @app.workflow
    async def nosy() -> str:
        try:
            app.start("greet")
        except RuntimeError as error:
            return str(error)
        return "started"

    async with app:
        assert "HF5112" in await app.start(nosy)


# --- opening -----------------------------------------------------------------------------------------------


def test_threads_that_come_while_it_opens_wait_and_there_is_one_session(
    tmp_path: Path, sessions: list[Session]
) -> None:
    app = make_app(tmp_path)
    threads = [in_thread(lambda: app.start("greet", id="g").result(LONG_S)) for _ in range(8)]
    for thread, found in threads:
        thread.join(LONG_S)
        assert found == ["hello"]
    assert len(sessions) == 1
    app.close()


async def test_while_it_opens_its_own_loop_may_ask_already(tmp_path: Path) -> None:
    """A provider is opened on the loop of the app, before the app is open: it may start what is to run."""
    app = make_app(tmp_path)
    seen: list[Any] = []

    @app.provide("first")
    async def first() -> str:
        handle = app.start("greet", id="g")
        seen.append(bridge_of(app)._state)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(hf.errors.WouldBlock):
            handle.result()
        seen.append((await handle.started()).id)
        return "ready"

    async with app:
        assert seen == ["opening", "g"]
        assert await app.handle("g") == "hello"


def test_an_app_that_could_not_be_opened_is_closed_and_may_be_opened_again(tmp_path: Path) -> None:
    app = make_app(tmp_path / "nowhere")
    for _ in range(2):
        with pytest.raises(hf.HoldfastError):
            app.start("greet")
    (tmp_path / "nowhere").mkdir()
    assert app.start("greet").result(LONG_S) == "hello"
    app.close()


# --- open --------------------------------------------------------------------------------------------------


async def test_an_app_that_a_send_opened_is_closed_before_it_is_opened_on_a_loop(
    tmp_path: Path, sessions: list[Session]
) -> None:
    app = make_app(tmp_path)
    handle = await asyncio.to_thread(double(app).send, 21)
    [first] = sessions
    async with app:
        [second] = sessions
        assert second is not first, "one node and one worker, those of this loop"
        assert (await handle).ok_value == 42
        assert await app.start("greet") == "hello"
    assert not sessions


async def test_an_app_that_is_open_is_not_opened_once_more(tmp_path: Path, sessions: list[Session]) -> None:
    app = make_app(tmp_path)
    async with app:
        with pytest.raises(hf.errors.AlreadyOpen, match="HF5208"):
            await app.__aenter__()
        assert len(sessions) == 1
        assert await app.start("greet") == "hello"
    await asyncio.to_thread(app.__enter__)
    with pytest.raises(hf.errors.AlreadyOpen):
        await app.__aenter__()
    assert len(sessions) == 1
    await asyncio.to_thread(app.close)


def test_of_blocks_within_each_other_the_outer_one_closes(tmp_path: Path, sessions: list[Session]) -> None:
    app = make_app(tmp_path)
    with app:
        with app:
            pass
        assert len(sessions) == 1
    assert not sessions


async def test_a_thread_may_use_what_is_open_on_a_loop_and_not_close_it(tmp_path: Path) -> None:
    app = make_app(tmp_path)

    def use() -> str:
        with app:
            return str(app.start("greet").result(LONG_S))

    async with app:
        assert await asyncio.to_thread(use) == "hello"
        with pytest.raises(hf.errors.AlreadyOpen):
            await asyncio.to_thread(app.close)
        assert await app.start("greet") == "hello"


# --- closing -----------------------------------------------------------------------------------------------


def test_a_thread_that_waits_for_a_result_is_told_when_the_app_is_closed(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    handle = app.start("waits", id="w")
    thread, found = in_thread(handle.result)
    task_thread, task_found = in_thread(lambda: app.task_handle("w").get())
    until(lambda: len(app.session.executions.waiting) == 2)  # pyright: ignore[reportPrivateUsage]
    app.close()
    thread.join(LONG_S)
    task_thread.join(LONG_S)
    assert isinstance(found[0], hf.errors.ClosedTooSoon)
    assert task_found[0].err_value.error_code == hf.codes.RetrievalCode.RESULT_NOT_AVAILABLE


def test_who_stops_waiting_at_once_leaves_nothing_behind(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    handle = app.start("waits", id="w")
    for _ in range(20):
        with pytest.raises(TimeoutError):
            handle.result(timeout=0)
    app.close()


async def test_a_task_and_a_thread_that_wait_are_told_when_the_block_is_left(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with app:
        handle = app.start("waits", id="w")
        waiting = asyncio.ensure_future(handle)
        in_a_thread = asyncio.ensure_future(asyncio.to_thread(app.handle("w").result))
        while len(app.session.executions.waiting) < 2:  # pyright: ignore[reportPrivateUsage]  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    for each in (waiting, in_a_thread):
        with pytest.raises(hf.errors.ClosedTooSoon, match="HF5202"):
            await asyncio.wait_for(each, LONG_S)


def test_what_runs_while_the_app_is_closed_may_still_send(tmp_path: Path, sessions: list[Session]) -> None:
    app = make_app(tmp_path)
    app.settings = replace(app.settings, grace_s=LONG_S)
    is_running, may_send = threading.Event(), threading.Event()
    sent: list[Any] = []

    def step() -> None:
        is_running.set()
        may_send.wait(LONG_S)
        sent.append(double(app).with_options(id="late").send(4))
        sent.append(len(sessions))

    @app.workflow
    async def works() -> None:
        await hf.run(step)

    app.start(works)
    is_running.wait(LONG_S)
    thread, _ = in_thread(app.close)
    until(lambda: bridge_of(app)._state == "closing")  # pyright: ignore[reportPrivateUsage]
    may_send.set()
    thread.join(LONG_S)
    assert sent[0].id == "late"
    assert sent[1] == 1, "no second session was opened for it"
    with app:
        assert app.task_handle("late").get(LONG_S).ok_value == 8


def test_who_closes_while_somebody_closes_waits(tmp_path: Path, sessions: list[Session]) -> None:
    app = make_app(tmp_path)
    app.start("greet")
    threads = [in_thread(app.close) for _ in range(4)]
    for thread, found in threads:
        thread.join(LONG_S)
        assert found == [None]
    assert not sessions


async def test_a_part_that_cannot_be_closed_does_not_keep_the_rest_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(tmp_path)
    await app.__aenter__()
    session = app.session
    node, runner = session._node, session._runner  # pyright: ignore[reportPrivateUsage]
    assert node is not None

    async def fail() -> None:
        raise OSError("a disk is gone")

    async def fail_too() -> None:
        raise ValueError("a thread is stuck")

    really_close = runner.close
    session._host.stop = fail  # type: ignore[method-assign, assignment]  # pyright: ignore
    runner.close = fail_too  # type: ignore[method-assign]
    with pytest.raises(OSError, match="a disk is gone"):
        await app.__aexit__(None, None, None)
    assert "a thread is stuck" in caplog.text
    await really_close()
    await session._host.abandon()  # pyright: ignore[reportPrivateUsage]
    async with app:  # the node let go of the file, and the app is closed
        assert await app.start("greet") == "hello"


# --- the end -----------------------------------------------------------------------------------------------


def test_an_app_that_was_closed_is_not_kept_alive(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    app.start("greet").result(LONG_S)
    app.close()
    gone = weakref.ref(app)
    del app
    gc.collect()
    assert gone() is None


PROGRAM = """
import atexit, logging, sys, threading
import holdfast as hf
logging.basicConfig(stream=sys.stdout, format="%(message)s")
first, second = hf.App("sqlite:///first.db"), hf.App("sqlite:///second.db")
for app in (first, second):
    @app.provide("what")
    def what(app=app):
        yield 1
        print("closed", flush=True)
    @app.workflow
    async def greet():
        return "hello"
    assert app.start(greet).result() == "hello"
close = first.session.close
async def fails():
    await close()
    raise OSError("cannot close")
first.session.close = fails
"""


def run_program(folder: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_at_the_end_of_the_interpreter_every_app_is_closed_though_one_fails(tmp_path: Path) -> None:
    said = run_program(tmp_path, PROGRAM)
    assert said.count("closed\n") == 2
    assert "cannot close" in said


def test_the_internals_of_an_app_are_private() -> None:
    app = hf.App("memory:")
    for name in ("block", "bridge", "lend", "desk", "do", "fresh", "now", "send_inside", "unawaited"):
        assert not hasattr(app, name), name


def test_the_version_is_known() -> None:
    import importlib.metadata

    assert hf.__version__ == importlib.metadata.version("holdfast")


def test_a_workflow_that_raises_keyboard_interrupt_leaves_its_app_at_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No signal comes to the thread of an app, so its event loop must not end by one."""
    app = make_app(tmp_path)

    @app.workflow
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with app:
        app.start(interrupted)
        eventually(lambda: "KeyboardInterrupt() was raised on the event loop of an app" in caplog.text)
        assert app.start("greet").result(LONG_S) == "hello"
