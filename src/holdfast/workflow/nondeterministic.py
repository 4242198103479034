"""Functions that come out differently on every run, and what a workflow uses instead."""

import datetime
import io
import os
import pathlib
import random
import secrets
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

_now: Final = "await hf.now()"
_random: Final = "await hf.random(), or a random.Random(seed) of your own"
_uuid: Final = "await hf.uuid()"
_step: Final = "a step: await hf.run(function)"


class Instead(NamedTuple):
    """What was called, and what to use."""

    name: str
    advice: str


def _listed() -> Iterator[tuple[Any, str, str]]:
    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"):
        yield getattr(time, name), f"time.{name}", _now
    yield time.sleep, "time.sleep", "await hf.sleep(seconds)"
    for name in ("now", "utcnow", "today"):
        yield getattr(datetime.datetime, name), f"datetime.{name}", _now
    yield datetime.date.today, "date.today", _now
    for name in random.__all__:
        function = getattr(random, name)
        if isinstance(function, BuiltinFunctionType | MethodType) and name != "seed":
            yield function, f"random.{name}", _random
    for name in ("uuid1", "uuid4", "uuid6", "uuid7"):  # the last two since 3.14
        if hasattr(uuid, name):
            yield getattr(uuid, name), f"uuid.{name}", _uuid
    yield os.urandom, "os.urandom", _uuid
    if hasattr(os, "getrandom"):  # on Linux
        yield os.getrandom, "os.getrandom", _uuid
    for name in ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits"):
        yield getattr(secrets, name), f"secrets.{name}", _step
    for file_function in (open, io.open, os.open):
        yield file_function, "open", _step
    for name in ("open", "read_text", "read_bytes", "write_text", "write_bytes"):
        yield getattr(pathlib.Path, name), f"Path.{name}", _step
    yield input, "input", _step
    yield socket.socket, "socket.socket", _step
    yield socket.getaddrinfo, "socket.getaddrinfo", _step
    yield socket.create_connection, "socket.create_connection", _step
    yield threading.Thread.start, "Thread.start", _step
    yield ThreadPoolExecutor.submit, "ThreadPoolExecutor.submit", _step
    yield Executor.map, "Executor.map", _step
    for name in ("run", "call", "check_call", "check_output", "Popen"):
        yield getattr(subprocess, name), f"subprocess.{name}", _step
    yield getattr(os, "system"), "os.system", _step  # noqa: B009


def by_callable() -> dict[Any, Instead]:
    """Bound methods too: two of the same object compare equal."""
    return {function: Instead(name, advice) for function, name, advice in _listed()}


def by_code(table: dict[Any, Instead]) -> dict[CodeType, list[tuple[Instead, object]]]:
    """The code of those that are written in Python, classes by their `__init__`; and of which object it is a
    method, if only that one's is meant."""
    codes: dict[CodeType, list[tuple[Instead, object]]] = {}
    for listed, instead in table.items():
        function: Any = getattr(listed, "__init__") if isinstance(listed, type) else listed  # noqa: B009
        own = getattr(function, "__self__", None)
        function = getattr(function, "__func__", function)
        if isinstance(function, FunctionType):
            codes.setdefault(function.__code__, []).append((instead, own))
    return codes
