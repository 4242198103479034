"""Programs that find themselves on another system, as far as that can be had on this one.

The standard library has made its choices before the program is told: sockets, processes and files go on
working. What our own code, and what it imports, asks for afterwards is what the other system has.
"""

import subprocess
import sys
from pathlib import Path

from tests.processes import Outcome, environment

BEFORE = """
import sys
import asyncio, asyncio.subprocess, concurrent.futures, contextlib, email, logging, multiprocessing, os
import pathlib, random, shutil, signal, socket, sqlite3, ssl, subprocess, tempfile, threading, types
import urllib.request, uuid, zoneinfo
import cronsim, msgspec, pytest
import uvicorn, uvicorn.config, uvicorn.protocols.http.httptools_impl

class Absent:
    names = set()

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def take_away(module, *names):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

sys.meta_path.insert(0, Absent())
asyncio.new_event_loop().close()  # from Python 3.14 on the first one chooses by the platform what it imports
"""

WINDOWS = """
import fcntl
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK = 2

def locking(file, mode, count, lock=fcntl.flock, how=fcntl.LOCK_EX | fcntl.LOCK_NB):
    try:
        lock(file, how)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied")

msvcrt.locking = locking
sys.modules["msvcrt"] = msvcrt
shutil._winapi = types.SimpleNamespace(NeedCurrentDirectoryForExePath=lambda _: False)  # from Python 3.12 on
Absent.names = {"fcntl", "resource", "uvloop", "pwd", "grp", "termios"}
for name in Absent.names:
    sys.modules.pop(name, None)

def no_handlers_here(*_):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = no_handlers_here
asyncio.SelectorEventLoop.remove_signal_handler = no_handlers_here
subprocess.Popen.kill = lambda self, number=signal.SIGKILL: self.send_signal(number)
subprocess.CREATE_NEW_PROCESS_GROUP = 0  # which this system's Popen lets pass
signal.SIGBREAK = signal.SIGUSR2
socket.SO_EXCLUSIVEADDRUSE = socket.SO_REUSEADDR
take_away(os, "fork", "forkpty", "register_at_fork", "pread", "pwrite", "preadv", "pwritev", "killpg")
take_away(os, "getpgid", "getuid", "geteuid", "fchmod", "setsid", "sync", "fdatasync", "posix_fallocate")
take_away(os, "sched_getaffinity")
take_away(signal, "SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "pthread_kill", "alarm")
take_away(socket, "TCP_USER_TIMEOUT", "SO_REUSEPORT")
sys.platform = "win32"
"""

MACOS = """
import resource

def no_more_than_this(*_):
    raise ValueError("current limit exceeds maximum limit")

resource.setrlimit = no_more_than_this
resource.getrlimit = lambda _: (256, resource.RLIM_INFINITY)
take_away(os, "sched_getaffinity", "fdatasync", "posix_fallocate", "pidfd_open")
take_away(socket, "TCP_USER_TIMEOUT")
sys.platform = "darwin"
"""

CONSOLE = "from holdfast.cli import main\nsys.exit(main())"
SYSTEMS = {"windows": BEFORE + WINDOWS, "macos": BEFORE + MACOS}


def command(system: str, program: str, *words: str) -> list[str]:
    return [sys.executable, "-c", SYSTEMS[system] + program, *words]


def run(system: str, program: str, *words: str, cwd: Path, encoding: str = "utf-8") -> Outcome:
    done = subprocess.run(
        command(system, program, *words),
        capture_output=True,
        encoding=encoding,
        timeout=120,
        env=environment({"PYTHONIOENCODING": encoding}),
        cwd=cwd,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
