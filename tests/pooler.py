"""A transaction pooler in front of PostgreSQL, as strict as PgBouncer: few server connections, many clients.

A client has a server connection from its first message until its transaction is over; the next transaction
gets the one that has been idle longest, so whatever a client leaves in a session is soon somebody else's.
Start-up parameters that would need a session are refused. It speaks version 3 of the wire protocol, without
passwords.

`pooler_of` starts this one, or PgBouncer itself where it is installed.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

from tests.postgres import PORT, as_nobody, execute, shared_server

CANCEL, SSL, GSS, VERSION_3 = 80877102, 80877103, 80877104, 196608
# What PgBouncer can restore in every server connection; anything else would need a session.
TRACKED = {"user", "database", "client_encoding", "datestyle", "timezone", "application_name"}
ENDS_WITH_READY = b"QSF"  # Query, Sync, FunctionCall
_roles = count()


class Server:
    """One connection to PostgreSQL."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.greeting = b""  # the parameters, as every client is told them

    @classmethod
    async def open(cls, folder: str, user: bytes, database: bytes) -> Server:
        server = cls(*await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{PORT}"))
        text = b"user\0" + user + b"\0database\0" + database + b"\0\0"
        server.writer.write(struct.pack("!ii", len(text) + 8, VERSION_3) + text)
        while True:
            kind, message = await read_message(server.reader)
            if kind == b"E":
                raise ConnectionError(message[5:].decode(errors="replace"))
            if kind == b"S":
                server.greeting += message
            if kind == b"Z":
                return server

    def close(self) -> None:
        self.writer.close()


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Its kind, and the whole of it."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


class Pool:
    """The server connections of one user, taken in turns."""

    def __init__(self, folder: str, user: bytes, database: bytes, size: int) -> None:
        self._origin = (folder, user, database)
        self._idle: deque[Server] = deque()
        self._free = asyncio.Semaphore(size)
        self._size = size
        self._opened = 0
        self.handed_out = 0

    async def take(self) -> Server:
        await self._free.acquire()
        self.handed_out += 1
        try:
            if self._opened < self._size:  # all of them before any twice
                self._opened += 1
                return await Server.open(*self._origin)
            return self._idle.popleft()
        except BaseException:
            self._opened -= 1
            self._free.release()
            raise

    def give_back(self, server: Server, *, usable: bool) -> None:
        if usable:
            self._idle.append(server)
        else:
            self._opened -= 1
            server.close()
        self._free.release()

    def close(self) -> None:
        while self._idle:
            self._idle.popleft().close()


class Client:
    """One client, and the server connection that it has while a transaction lasts."""

    def __init__(self, pool: Pool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._pool = pool
        self._reader = reader
        self._writer = writer
        self._server: Server | None = None
        self._awaited = 0  # how often the server has still to say that it is ready
        self._relay: asyncio.Task[None] | None = None

    async def greet(self) -> None:
        server = await self._pool.take()
        self._pool.give_back(server, usable=True)
        ok = b"R" + struct.pack("!ii", 8, 0)
        key = b"K" + struct.pack("!iii", 12, 1, 1)
        self._writer.write(ok + server.greeting + key + b"Z" + struct.pack("!i", 5) + b"I")

    async def run(self) -> None:
        try:
            while True:
                kind, message = await read_message(self._reader)
                if kind == b"X":
                    return
                if self._server is None:
                    self._server = await self._pool.take()
                    self._relay = asyncio.create_task(self._answer(self._server))
                self._awaited += kind in ENDS_WITH_READY
                self._server.writer.write(message)
        finally:
            if self._relay is not None:
                self._relay.cancel()
            if self._server is not None:  # in the middle of a transaction: nobody may go on with it
                self._pool.give_back(self._server, usable=False)
            self._writer.close()

    async def _answer(self, server: Server) -> None:
        """Hand over what the server says, until its transaction is over."""
        try:
            while True:
                kind, message = await read_message(server.reader)
                self._writer.write(message)
                if kind == b"Z":
                    self._awaited -= 1
                    if not self._awaited and message[5:] == b"I":
                        self._server = None
                        self._pool.give_back(server, usable=True)
                        return
        except (OSError, asyncio.IncompleteReadError):
            self._writer.close()


class Pooler:
    def __init__(self, folder: str, size: int) -> None:
        self._folder = folder
        self._size = size
        self._clients: set[asyncio.Task[None]] = set()
        self.pools: dict[tuple[bytes, bytes], Pool] = {}
        self.greeted = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            text = await reader.readexactly(length - 8)
            if code == VERSION_3:
                break
            if code == CANCEL:
                return  # whoever asks gave up waiting; the statement ends by itself
            writer.write(b"N")
        words = text.rstrip(b"\0").split(b"\0")
        given = dict(zip(words[::2], words[1::2], strict=True))
        for name in given:
            if name.decode().lower() not in TRACKED:
                writer.write(refusal(f"unsupported startup parameter: {name.decode()}"))
                return
        key = (given[b"user"], given.get(b"database", given[b"user"]))
        if key not in self.pools:
            self.pools[key] = Pool(self._folder, *key, self._size)
        client = Client(self.pools[key], reader, writer)
        await client.greet()
        self.greeted += 1
        await client.run()

    async def stop(self) -> None:
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for pool in self.pools.values():
            pool.close()


def refusal(sentence: str) -> bytes:
    fields = b"SFATAL\0VFATAL\0C08P01\0M" + sentence.encode() + b"\0\0"
    return b"E" + struct.pack("!i", len(fields) + 4) + fields


def kinds_of_pooler() -> list[str]:
    return ["ours", *(["pgbouncer"] if shutil.which("pgbouncer") else [])]


@contextmanager
def pooler_of(kind: str, role: str, size: int) -> Generator[str]:
    """A pooler in front of the shared server; the URL of its database for this role."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pool-", dir="/tmp"))
    folder.chmod(0o777)
    where = {"host": str(folder), "port": str(PORT)}
    try:
        with _ours(folder, size) if kind == "ours" else _pgbouncer(folder, role, size):
            yield f"postgresql://{role}@/postgres?{urlencode(where)}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ours(folder: Path, size: int) -> Generator[None]:
    """On a thread of its own: a client may be one that blocks."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="pooler")
    thread.start()
    pooler = Pooler(str(shared_server().folder), size)

    async def start() -> asyncio.Server:
        return await asyncio.start_unix_server(pooler.accept, folder / f".s.PGSQL.{PORT}")

    listener = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(listener.close)
        asyncio.run_coroutine_threadsafe(pooler.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def _pgbouncer(folder: Path, role: str, size: int) -> Generator[None]:
    settings, users = folder / "pgbouncer.ini", folder / "users"
    users.write_text(f'"{role}" ""\n')
    settings.write_text(
        f"[databases]\npostgres = host={shared_server().folder} port={PORT}\n"
        f"[pgbouncer]\nunix_socket_dir = {folder}\nlisten_port = {PORT}\nauth_type = trust\n"
        f"auth_file = {users}\npool_mode = transaction\ndefault_pool_size = {size}\nmax_client_conn = 200\n"
        "server_round_robin = 1\n"
    )
    process = subprocess.Popen(
        ["pgbouncer", "-q", str(settings)], user=as_nobody(), stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 60
        while not (folder / f".s.PGSQL.{PORT}").exists():
            assert process.poll() is None, "pgbouncer did not start"
            assert time.monotonic() < until, "pgbouncer does not listen"
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


def new_role() -> str:
    """A role with a schema of its own, which is its search path: a pooler takes no such parameter."""
    role = f"pooled{next(_roles)}"
    execute(
        shared_server().url(),
        f"DROP SCHEMA IF EXISTS {role} CASCADE; DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN; "
        f"CREATE SCHEMA {role} AUTHORIZATION {role}; ALTER ROLE {role} SET search_path = {role}",
    )
    return role
