"""`holdfast serve --processes N`: one port, N node processes on one PostgreSQL, one supervisor.

1. The supervisor accepts every connection and passes it to the process that has the fewest, and that has
   taken over what it was passed before. It reads nothing of them: TLS, tokens and limits are the process's.
2. A process that ends without having been asked is started again, with a line in the log. Nothing that was
   answered is lost by its death: the others are nodes of the same cluster. One that ends soon again and again
   is started ever later. While none is ready, connections wait.
3. SIGTERM and SIGINT stop the processes one after the other. Each finishes what it has accepted, and
   meanwhile the others serve. Told a second time, all stop at once. SIGHUP replaces them, one by one.
4. If the supervisor dies, the processes finish and end (passing.py).
"""

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.node.process_loop import on_stop_signals
from holdfast.server.errors import NeedsPostgres, NodeProcessFailed, SettingsError
from holdfast.server.node_process import NodeOrders
from holdfast.server.passing import REPORT, leaving
from holdfast.server.serving import check, listen, url_of
from holdfast.server.settings import Settings

log = logging.getLogger("holdfast.server")

healthy_s: Final = 10.0  # whoever lived as long is started again at once
rest_s_min: Final = 0.5
rest_s_max: Final = 30.0
accept_rest_s: Final = 0.1
kill_after_s: Final = 5.0  # beyond what a process allows itself for stopping, twice: requests, then the store


class NodeProcess:
    """One process, from its start to its end."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self.number = number
        self.pid = process.pid
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()
        self.is_open = True  # connections may be passed, once it is ready
        self.is_asked = False  # to end
        self._process = process
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._unread = b""
        self._given = 0
        self._taken = 0
        self._open_count = 0
        self._loop.add_reader(channel, self._hear)

    @property
    def can_take(self) -> bool:
        return self.is_open and self.ready.is_set()

    @property
    def load(self) -> tuple[int, int, int]:
        """Less is better: passed and not taken over, open, passed ever."""
        return self._given - self._taken, self._open_count, self._given

    def give(self, connection: socket.socket) -> bool:
        try:
            socket.send_fds(self._channel, [b"c"], [connection.fileno()])
        except OSError:  # it is dead, or its channel is full
            return False
        self._given += 1
        return True

    def finish(self) -> None:
        """Ask it to end: it serves what it was passed, and gets nothing more."""
        self.is_open = False
        self.is_asked = True
        self._end_channel()

    async def ended(self) -> str:
        """Wait until it has ended. Answers how: a signal, or its exit status."""
        code = await self._process.wait()
        self.is_open = False
        self._loop.remove_reader(self._channel)
        self._channel.close()
        self.gone.set()
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def _end_channel(self) -> None:
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)

    def _hear(self) -> None:
        try:
            data = self._channel.recv(4_096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # it is about to end, or has
            self.is_open = False
            self._loop.remove_reader(self._channel)
            return
        self._unread += data
        whole = len(self._unread) // REPORT.size * REPORT.size
        for taken, open_count in REPORT.iter_unpack(self._unread[:whole]):
            self._taken = taken
            if open_count == leaving:
                self.is_open = False
                self._end_channel()
            else:
                self._open_count = open_count
                self.ready.set()
        self._unread = self._unread[whole:]


class Supervisor:
    def __init__(self, settings: Settings, listener: socket.socket, url: str) -> None:
        self._settings = settings
        self._listener = listener
        self._url = url
        self._processes: dict[int, NodeProcess] = {}
        self._changed = asyncio.Event()  # one has become ready, or was started, or has ended
        self._stopping = asyncio.Event()
        self._replacing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until stop requested, and all have ended."""
        on_stop_signals(self._told_to_stop)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._told_to_replace)
        numbers = range(1, self._settings.processes + 1)
        try:
            for number in numbers:
                self._processes[number] = await self._start(number)
            keepers = [asyncio.create_task(self._keep(number)) for number in numbers]
            accepting = asyncio.create_task(self._accept())
            tasks = [accepting, *keepers]
            while not self._stopping.is_set() and not self._is_ready:
                await self._change_of(tasks)
            if self._is_ready:
                sys.stdout.write(f"Holdfast is ready at {self._url}\n")
                sys.stdout.flush()
                log.info("ready", extra={"url": self._url, "processes": len(numbers)})
            while not self._stopping.is_set():
                await self._change_of(tasks)
            await self._stop_in_turn(accepting)
        finally:
            self._listener.close()
            for node in self._processes.values():
                node.finish()
        await asyncio.gather(*keepers)
        log.info("stopped")

    @property
    def _is_ready(self) -> bool:
        return all(node.ready.is_set() for node in self._processes.values())

    async def _change_of(self, tasks: "list[asyncio.Task[None]]") -> None:
        """Wait for the next change. None of these tasks ends before we stop, unless it fails."""
        waiting = asyncio.create_task(self._change())
        await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for task in tasks:
            if task.done() and not self._stopping.is_set():
                task.result()

    # --- processes -----------------------------------------------------------------------------------

    async def _start(self, number: int) -> NodeProcess:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        orders = NodeOrders(self._settings, self._url, number)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast.server.node_process",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(orders))
        process.stdin.close()
        return NodeProcess(number, process, ours)

    async def _keep(self, number: int) -> None:
        """Have this process running until we stop.

        At the first start a process that fails ends them all: what is wrong is wrong for each of them.
        """
        rest_s, was_ready = 0.0, False
        while True:
            node, began = self._processes[number], time.monotonic()
            becoming = asyncio.create_task(self._note_ready(node))
            how = await node.ended()
            becoming.cancel()
            was_ready = was_ready or node.ready.is_set()
            self._note_change()
            if self._stopping.is_set():
                return
            if not was_ready:
                raise NodeProcessFailed(f"A node process could not start ({how}). The lines above say why.")
            if not node.is_asked:
                fields = {"node_process": number, "pid": node.pid, "reason": how}
                log.error("a node process has ended and is started again", extra=fields)
                rest_s = 0.0 if time.monotonic() - began > healthy_s else rest_s
                await self._rest(rest_s)
                rest_s = min(max(rest_s * 2, rest_s_min), rest_s_max)
            await self._start_again(number)

    async def _start_again(self, number: int) -> None:
        while not self._stopping.is_set():
            try:
                self._processes[number] = await self._start(number)
                self._note_change()
                return
            except OSError as error:  # the system has no more processes, or no memory
                log.error("a node process could not be started", extra={"reason": error.strerror})
                await self._rest(rest_s_max)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _note_ready(self, node: NodeProcess) -> None:
        await node.ready.wait()
        self._note_change()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> None:
        await self._changed.wait()

    # --- connections ---------------------------------------------------------------------------------

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not any(node.can_take for node in self._processes.values()):
                await self._change()
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                log.warning("a connection could not be accepted", extra={"reason": error.strerror})
                await asyncio.sleep(accept_rest_s)
                continue
            with connection:
                await self._pass(connection)

    async def _pass(self, connection: socket.socket) -> None:
        while not self._stopping.is_set():
            takers = [node for node in self._processes.values() if node.can_take]
            if any(node.give(connection) for node in sorted(takers, key=lambda node: node.load)):
                return
            await asyncio.sleep(accept_rest_s)

    # --- the end -------------------------------------------------------------------------------------

    def _told_to_stop(self, number: signal.Signals) -> None:
        log.info("stop requested", extra={"signal": number.name})
        if self._stopping.is_set():
            for node in self._processes.values():
                node.finish()
        self._stopping.set()
        self._note_change()

    async def _stop_in_turn(self, accepting: "asyncio.Task[None]") -> None:
        if self._replacing is not None:
            self._replacing.cancel()
        *others, last = self._processes.values()
        for node in others:
            await self._drain(node)
        accepting.cancel()
        with suppress(asyncio.CancelledError):
            await accepting
        self._listener.close()
        await self._drain(last)

    async def _drain(self, node: NodeProcess) -> None:
        log.info("stopping a node process", extra={"node_process": node.number, "pid": node.pid})
        node.finish()
        try:
            async with asyncio.timeout(2 * self._settings.stop_timeout_s + kill_after_s):
                await node.gone.wait()
        except TimeoutError:
            log.error(
                "a node process did not stop in time and is killed", extra={"node_process": node.number}
            )
            node.kill()
            await node.gone.wait()

    def _told_to_replace(self) -> None:
        if self._replacing is None or self._replacing.done():
            self._replacing = asyncio.create_task(self._replace_in_turn())

    async def _replace_in_turn(self) -> None:
        log.info("replacing the node processes one after the other")
        for number in list(self._processes):
            node = self._processes[number]
            await self._drain(node)
            while not ((new := self._processes[number]) is not node and new.ready.is_set()):
                await self._change()
        log.info("all node processes were replaced")


def supervise(settings: Settings) -> None:
    """Serve with several node processes until SIGTERM or SIGINT."""
    count = settings.processes or _count_cores()
    _refuse(settings, count)
    check(settings)
    if not settings.ticket_key:  # a ticket that one process gave is shown to another
        settings = msgspec.structs.replace(settings, ticket_key=secrets.token_urlsafe(32))
    listener = listen(settings)
    url = settings.public_url or url_of(settings, listener)
    asyncio.run(Supervisor(msgspec.structs.replace(settings, processes=count), listener, url).run())


def _refuse(settings: Settings, count: int) -> None:
    if not settings.store.startswith(("postgresql://", "postgres://")):
        raise NeedsPostgres(
            f"{count} node processes need a PostgreSQL to share. SQLite and memory have one node, which is "
            "one process. Leave processes out, and run more workers (`holdfast worker`) to use other cores; "
            "or set store to postgresql://..."
        )
    if not hasattr(socket, "send_fds"):
        raise SettingsError(
            "processes: this system cannot pass connections to other processes. Leave it out."
        )


def _count_cores() -> int:
    """Those that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
