"""The bridge between an app and its session: who may open, use and close it, from where.

The session lives on one event loop: the caller's own inside `async with app`, otherwise that of a background
thread. An app is closed, opening, open or closing. What happens to whoever asks for something:

    asked by            closed              opening       open         closing
    script, thread      opens in a thread   waits         asks         asks while steps may finish, then [1]
    its own loop        -                   asks          asks [2]     asks [2]
    another loop        opens [2]           awaits [2]    awaits [2]   as a thread
    a workflow          NoAsyncioHere       the same      the same     the same
    a child of fork     opens               its app is closed: it opens its own, or [3]
    interpreter's end   -                   waits         closes [4]   waits

    [1] ClosedTooSoon, as for whoever waits for a result until then.
    [2] With await. A call that blocks raises WouldBlock; only `start` on its own loop is a handle at once.
    [3] OpenedBeforeFork, when the parent's SQLite file or memory would be needed.
    [4] If it lives in a thread. A block of `async with` closes its own.

And what becomes of an app that is opened or closed:

    by                  closed       opening, closing   open [5]              open in `with`   in `async with`
    `with app`          opens        waits              takes it over         counts           uses it
    `async with app`    opens here   waits              closes it, and opens  AlreadyOpen      AlreadyOpen
    `close()`           nothing      waits              closes                closes           AlreadyOpen

    [5] In a thread, by itself: because a script sent or started something.

1. There is never more than one session of an app in a process.
2. Whoever waits for something when the app is closed is told: nobody waits forever.
3. After os.fork() nothing of the parent's is touched or closed in the child: neither its loop nor its files.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar

from holdfast.host import process_end
from holdfast.host.errors import AlreadyOpen, AppError, CannotPickle, ClosedTooSoon, WouldBlock
from holdfast.host.execution_client import Start
from holdfast.host.own_transactions import OwnTransactions
from holdfast.host.process_end import check_not_inherited
from holdfast.host.session import Session
from holdfast.host.settings import SessionSettings, settings_here
from holdfast.host.tracked_calls import Crossing, Done, TrackedCall, TrackedCalls, has_running_loop
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.send_request import ClockReading, SendRequest, fresh_end
from holdfast.jobs.stream_reader import StreamClient
from holdfast.jobs.task_client import Sent, TaskClient
from holdfast.node.clock import ticks, wall_clock
from holdfast.node.end_tasks import close_all
from holdfast.payloads.payloads import Payloads
from holdfast.steps.providers import Providers
from holdfast.store.callers_database import must_be_awaited
from holdfast.workflow.errors import NoAsyncioHere
from holdfast.workflow.no_loop import is_in_workflow

T = TypeVar("T")
State = Literal["closed", "opening", "open", "closing"]


class AppBridge:
    """What tasks (jobs/task_client.py) and handles need of their app."""

    def __init__(
        self,
        payloads: Payloads,
        tasks: TaskRegistry,
        providers: Providers,
        settings: Callable[[], SessionSettings],
        make_session: Callable[[SessionSettings], Session],
    ) -> None:
        self.payloads = payloads
        self.tasks = tasks
        self.providers = providers
        self._settings = settings
        self._make_session = make_session
        self._reset()
        process_end.watch(self)

    def _reset(self) -> None:
        self.tracked_calls = TrackedCalls()
        self._changed = threading.Condition()
        self._state: State = "closed"
        self._accepts = False  # work from other threads
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._entered = 0  # `with app` blocks that are not left yet
        self._drive: Callable[..., Any] | None = None  # holdfast.testing drives the loop
        self._crossing = Crossing()
        self._own_transactions: OwnTransactions | None = None  # of callers, if there were any

    # --- what the session offers -----------------------------------------------------------------------

    @property
    def session(self) -> Session:
        if self._session is None:
            raise AppError("The app is not open; open it with `with app:` or `async with app:`")
        return self._session

    @property
    def task_client(self) -> TaskClient:
        return self.session.task_client

    @property
    def group(self) -> str:
        return self._settings().group

    @property
    def streams(self) -> StreamClient:
        return self.session.streams

    def read_clock(self) -> ClockReading:
        """The node's clock; where that is not known yet, a guess that says so."""
        session = self._session
        if session is None or not session.is_open:
            return ClockReading(wall_clock(), ticks())
        return ClockReading(session.now(), None if session.knows_clock else ticks())

    def fresh(self) -> str:
        session = self._session
        return fresh_end() if session is None or not session.is_open else session.fresh()

    def send_inside(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]:
        self._prepare_inside(orders[0].creation.id if orders else None)
        sent = self.session.send_inside(connection, orders)
        if orders:
            self._note_inside(connection, orders[-1].creation.id)
        return sent

    async def send_inside_async(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]:
        await self._prepare_inside_async(orders[0].creation.id if orders else None)
        sent = await self.session.send_inside_async(connection, orders)
        if orders:
            self._note_inside(connection, orders[-1].creation.id)
        return sent

    def start_inside(self, connection: Any, asked: Start) -> TrackedCall | None:
        """Start it in the caller's transaction: at once, or where the connection must be awaited, soon."""
        if has_running_loop() and must_be_awaited(connection):
            self._check_workflow()
            work = self._start_inside_async(connection, asked)
            begin = self.tracked_calls.begin if self.is_own_loop() else TrackedCall
            return begin(f"the start of {asked.id[:80]}", work)
        self._prepare_inside(asked.id)
        self.session.start_inside(connection, asked)
        self._note_inside(connection, asked.id)
        return None

    async def _start_inside_async(self, connection: Any, asked: Start) -> None:
        await self._prepare_inside_async(asked.id)
        await self.session.start_inside_async(connection, asked)

    def _note_inside(self, connection: Any, promise_id: str) -> None:
        if self._own_transactions is None:
            self._own_transactions = OwnTransactions()
            self.tracked_calls.check = self._own_transactions.check
        if self._loop is not None:
            self._own_transactions.note(connection, promise_id, self._loop)

    def _prepare_inside(self, promise_id: str | None) -> None:
        """Have a session, whose node's clock is known."""
        self._check_workflow()
        if has_running_loop() and self._session is None:
            raise WouldBlock("The app is not open, and opening it here would block the event loop")
        self._open_in_thread()
        if promise_id is not None and not self.session.knows_clock and not has_running_loop():
            self.block(self.session.learn_clock(promise_id))

    async def _prepare_inside_async(self, promise_id: str | None) -> None:
        if self._session is None:
            await asyncio.to_thread(self._open_in_thread)
        if promise_id is not None and not self.session.knows_clock:
            await self.bridge(self.session.learn_clock(promise_id))

    # --- asking ----------------------------------------------------------------------------------------

    def block(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Wait for work of the session from a thread that runs no event loop."""
        self._check_workflow(work)
        if has_running_loop() and (self._drive is None or self.is_own_loop()):
            work.close()
            raise WouldBlock("This call waits, and it was made on an event loop, which it would block")
        if self._drive is not None:  # a world of tests, which has a hint of its own for those on another loop
            result: T = self._drive(work, timeout_s)
            return result
        if self._own_transactions is not None:
            self._own_transactions.check(work)
        future = self._submit(work)
        concurrent.futures.wait([future], timeout_s)
        if not future.done():  # not an except clause: the work itself may have ended with a TimeoutError
            future.cancel()
            raise TimeoutError(f"No result after {timeout_s} s. The execution continues.")
        return future.result()

    def do(self, what: str, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Do it: at once from a script; from asyncio when this is awaited, or soon."""
        if self.is_here(work):
            return self.tracked_calls.begin(what, work)
        if not has_running_loop():
            self.block(work)
            return Done()
        return self.bridge(work)

    def may_send_now(self) -> bool:
        """May something be handed to the node before it is awaited? Not ahead of what was asked for before,
        and not while the caller keeps the node from answering: that is found out when it is awaited."""
        own = self._own_transactions
        is_free = self.is_own_loop() and not self.tracked_calls.has_unsent and not is_in_workflow()
        return is_free and (own is None or not own.is_open_here())

    def result_of(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What the work gives, in a script; in asyncio what gives it when it is awaited."""
        return self.bridge(work) if has_running_loop() else self.block(work)

    def bridge(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Await work of the session from any event loop."""
        if self._own_transactions is not None:
            self._own_transactions.check(work)
        if self.is_here(work):
            return work
        if self._state in ("closed", "opening"):
            return asyncio.ensure_future(self._open_and_do(work))
        return asyncio.wrap_future(self._submit(work))

    async def _open_and_do(self, work: Coroutine[Any, Any, T]) -> T:
        """Opening takes a while: this loop goes on meanwhile."""
        return await asyncio.wrap_future(await asyncio.to_thread(self._submit, work))

    def is_here(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Is this the loop that has to do the work? Code of a workflow may not ask for any."""
        self._check_workflow(work)
        return self.is_own_loop()

    def is_own_loop(self) -> bool:
        """Does the session live on the event loop that runs here?"""
        try:
            return self._loop is not None and asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _check_workflow(self, work: Coroutine[Any, Any, Any] | None = None) -> None:
        if is_in_workflow():
            if work is not None:
                work.close()
            raise NoAsyncioHere(
                "The app cannot be used inside a workflow: use hf.start, hf.call, hf.tell or hf.ask"
            )

    def _submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Hand work to the session's loop, from another thread; open first if need be."""
        try:
            while True:
                self._open_in_thread()
                with self._changed:
                    if self._accepts and self._loop is not None:
                        return self._crossing.hand_over(work, self._loop)
                    if self._state == "closing":
                        raise ClosedTooSoon("The app is closing and takes no more calls")
        except BaseException:
            work.close()
            raise

    def ask_if_open(
        self, work: Callable[[Session], Coroutine[Any, Any, T]]
    ) -> "concurrent.futures.Future[T] | None":
        """From any thread, for those who must not open an app by asking. A world of tests is not asked: its
        loop runs only while somebody waits for it."""
        with self._changed:
            if self._state != "open" or self._drive is not None or self._session is None or not self._loop:
                return None
            return self._crossing.hand_over(work(self._session), self._loop)

    # --- opening ---------------------------------------------------------------------------------------

    async def open_here(self) -> None:
        """On the event loop of whoever asks. One that a thread has open by itself is closed before."""
        self._check_workflow()
        while not self._may_open_here():
            await asyncio.to_thread(self._make_way)
        await self._open()

    def _may_open_here(self) -> bool:
        with self._changed:
            if self._state == "closed":
                self._become("opening")
                return True
            if self._state == "open" and (self._thread is None or self._entered):
                raise AlreadyOpen(f"The app is already open, {self._place()}")
            return False

    def _make_way(self) -> None:
        """Wait until nobody opens or closes it; close it if it was opened in a thread by itself."""
        with self._changed:
            self._await_change()
            is_ours = self._state == "open" and self._thread is not None and not self._entered
        if is_ours:
            self.close()

    def enter(self) -> None:
        self._check_workflow()
        if has_running_loop():
            raise WouldBlock("`with app` was used on an event loop, which it would block")
        while True:
            self._open_in_thread()
            with self._changed:
                if self._state == "open":
                    self._entered += 1
                    return
                self._await_change()

    def leave(self) -> None:
        with self._changed:
            self._entered -= 1
            is_last = self._entered <= 0 and self._thread is not None
        if is_last:
            self.close()

    async def _open(self) -> None:
        """The state is "opening", and whoever made it so calls this, on the loop of the session to be."""
        try:
            settings = settings_here(self._settings())
            check_not_inherited(settings.url)
            self._session, self._loop = self._make_session(settings), asyncio.get_running_loop()
            await self._session.open()
        except BaseException:
            self._session = self._loop = None
            with self._changed:
                self._become("closed")
            raise
        with self._changed:
            self._accepts = True
            self._crossing = Crossing()
            self._become("open")

    def _open_in_thread(self) -> None:
        with self._changed:
            self._await_change(closing=False)
            if self._state != "closed":
                return
            self._become("opening")
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=process_end.run_loop, args=(loop,), name="holdfast-app", daemon=True)
        try:
            thread.start()
        except BaseException:
            loop.close()
            with self._changed:
                self._become("closed")
            raise
        process_end.add(self)  # from here on, the end of the interpreter waits for it
        try:
            asyncio.run_coroutine_threadsafe(self._open_as(thread), loop).result()
        except BaseException:
            process_end.discard(self)
            process_end.end_thread(thread, loop)
            raise

    async def _open_as(self, thread: threading.Thread) -> None:
        self._thread = thread
        try:
            await self._open()
        except BaseException:
            self._thread = None
            raise

    # --- closing ---------------------------------------------------------------------------------------

    def close(self) -> None:
        with self._changed:
            is_in_loop = has_running_loop()
            if not is_in_loop:
                self._await_change()
            if self._state == "closed" or self._drive is not None:
                return
            if is_in_loop:
                raise WouldBlock("close() was called on an event loop, which it would block")
            thread, loop = self._thread, self._loop
            if thread is None or loop is None:
                raise AlreadyOpen(f"The app cannot be closed from here: it is open {self._place()}")
            self._become("closing")
        try:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result()
        finally:
            process_end.end_thread(thread, loop)
            process_end.discard(self)
            with self._changed:
                self._thread = None
                self._become("closed")

    async def close_here(self) -> None:
        """By whoever opened it here."""
        with self._changed:
            if self._state != "open":
                return
            self._become("closing")
        try:
            await self._close()
        finally:
            with self._changed:
                self._become("closed")

    async def _close(self) -> None:
        """What was accepted is finished, what runs may finish, and whoever still waits is told."""
        session = self._session
        assert session is not None
        grace_s = self._settings().grace_s
        begun = partial(self.tracked_calls.finish, grace_s)
        crossing = partial(self._finish_crossing, session, grace_s)
        try:
            await close_all(begun, session.stop_workers, crossing, begun, session.close)
        finally:
            self._session = self._loop = None

    async def _finish_crossing(self, session: Session, within_s: float) -> None:
        """Take nothing more from other threads, and wait for what was taken; not for results."""
        with self._changed:
            self._accepts = False
        session.executions.stop_waiting()
        await self._crossing.finish(within_s)

    # --- life ------------------------------------------------------------------------------------------

    def use_session(
        self, session: Session | None, loop: asyncio.AbstractEventLoop | None, run: Callable[..., Any] | None
    ) -> None:
        """For holdfast.testing: work with this session, on a loop that `run` drives; None gives it back."""
        with self._changed:
            if session is not None and self._state != "closed":
                raise RuntimeError("The app is already open. A test world opens it itself: close it first.")
            self._session, self._loop, self._drive = session, loop, run
            self._accepts = session is not None
            self._become("closed" if session is None else "open")

    def after_fork(self) -> None:
        """In the child: what the parent had open stays as it is, forever, and the app is closed."""
        if self._state != "closed":
            parts = (self._session, self._loop, self._thread, self.tracked_calls, self._crossing)
            process_end.leave_alone(parts, self._settings().url)
        self._reset()

    def __reduce__(self) -> NoReturn:
        """Also of handles, which keep it."""
        raise CannotPickle("An app cannot be pickled: it holds threads, locks and connections")

    def _become(self, state: State) -> None:
        self._state = state
        self._changed.notify_all()

    def _await_change(self, *, closing: bool = True) -> None:
        """Wait while somebody opens it (or, with `closing`, closes it)."""
        busy = ("opening", "closing") if closing else ("opening",)
        while self._state in busy:
            self._changed.wait()

    def _place(self) -> str:
        return "in a `with app` block" if self._thread is not None else "in an `async with app` block"
