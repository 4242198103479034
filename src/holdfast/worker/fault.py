"""Errors as data: how a failure crosses the durable boundary and becomes an exception again.

The form is the official SDKs' `{"__type": "error", "message"}` with more beside it: `name` and `type` of the
class, `args` and `state` (its attributes) where JSON carries them without loss, `traceback` as text, the
`code` of Holdfast's own errors, and `errors` for the members of a group.

1. A class is known when it is built in, registered with `register_error`, or already loaded here under the
   name the payload gives. Nothing is imported because a payload says so: code that can say `except Declined`
   has loaded `Declined`, and no other code can tell the difference.
2. A class written in Python is rebuilt without calling its `__init__`: its `args` and attributes are put back
   as they were. A payload can thus run no code of its choosing.
3. The traceback there is the `__cause__` here.
"""

from __future__ import annotations

import builtins
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import FunctionType
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast.worker.errors import RemoteError

TRACEBACK_CHARS_MAX: Final = 16_000
GROUP_MEMBERS_MAX: Final = 100
DEPTH_MAX: Final = 8

E = TypeVar("E", bound=type[Exception])

_registered: dict[str, type[Exception]] = {}


class RemoteTraceback(Exception):
    """The traceback of another process, as text. Only ever a `__cause__`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


class KnownErrors(Mapping[str, type[Exception]]):
    """Error classes by `module:qualname`, of modules already imported. Nothing is imported by name."""

    def __getitem__(self, name: str) -> type[Exception]:
        module, _, path = name.partition(":")
        found: Any = sys.modules.get(module)
        for part in path.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def register_error(cls: E) -> E:
    """Make an exception class known by name, also under a name it no longer has: see `register_error_as`."""
    _registered[type_name(cls)] = cls
    return cls


def register_error_as(name: str, cls: type[Exception]) -> None:
    """Let errors stored under `name` ("module:Class") come back as `cls`, after a move or a renaming."""
    _registered[name] = cls


def type_name(cls: type[BaseException]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def describe(error: BaseException, depth: int = 0) -> dict[str, Any]:
    """JSON-able data. Never raises: an error that cannot be described well is described less well."""
    cls = type(error)
    described: dict[str, Any] = {
        "__type": "error",
        "message": text_of(error),
        "name": cls.__name__,
        "type": type_name(cls),
    }
    try:
        return _described(error, described, depth)
    except Exception:  # a property of the class raised
        return described


def _described(error: BaseException, plain: dict[str, Any], depth: int) -> dict[str, Any]:
    cls, described = type(error), {**plain}
    if isinstance(error, RemoteError) and error.type_name:
        # Passed on by somebody who does not know the class: the next one may.
        described |= {"message": error.message, "type": error.type_name}
        described["name"] = error.type_name.rpartition(":")[2].rpartition(".")[2]
        described["traceback"] = error.remote_traceback
        return described
    if (group := _group(error)) is not None:
        described["message"] = _storable(group.message)
        if depth < DEPTH_MAX:
            described["errors"] = [describe(each, depth + 1) for each in group.exceptions[:GROUP_MEMBERS_MAX]]
    elif (args := _plain(_arguments(error))) is not None:
        described["args"] = args
    if state := _state(error):
        described["state"] = state
    if isinstance(code := getattr(cls, "code", None), str):
        described["code"] = code
    if depth == 0:
        described["traceback"] = _traceback(error)
    return described


def restore(described: Any, known: Mapping[str, type[Exception]]) -> Exception:
    """An exception, whatever the data: people and other languages reject promises too."""
    if not isinstance(described, dict):
        text = described if isinstance(described, str) else msgspec.json.encode(described).decode()
        return RemoteError("" if described is None else text)
    fields = cast(dict[str, Any], described)
    message, text = _string(fields, "message"), _string(fields, "traceback") or _string(fields, "stack")
    name = _string(fields, "type") or _string(fields, "name")
    error = _rebuild(fields, message, known) if "type" in fields else None
    if error is None:
        if not message and "message" not in fields:
            message = msgspec.json.encode(fields).decode()
        error = RemoteError(message, name, text)
    if text:
        error.__cause__ = RemoteTraceback(text)
    return error


def remote_traceback(error: BaseException) -> str | None:
    """The traceback text of the process the error comes from, if it comes from one."""
    return error.__cause__.text if isinstance(error.__cause__, RemoteTraceback) else None


def _rebuild(fields: dict[str, Any], message: str, known: Mapping[str, type[Exception]]) -> Exception | None:
    cls = _find_class(_string(fields, "type"), known)
    if cls is None:
        return None
    with suppress(Exception):
        if issubclass(cls, ExceptionGroup):
            members = [restore(member, known) for member in fields["errors"]]
            return ExceptionGroup(message, members) if cls is ExceptionGroup else None
        return _instance(cls, fields, message)
    return None


def _instance(cls: type[Exception], fields: dict[str, Any], message: str) -> Exception | None:
    args: list[Any] = fields.get("args", [message])
    if isinstance(cls.__new__, FunctionType):
        return None
    if isinstance(cls.__init__, FunctionType):
        error = cls.__new__(cls, *args)
        error.args = tuple(args)
    else:
        error = cls(*args)
    state = fields.get("state", {})
    vars(error).update({name: value for name, value in state.items() if not name.startswith("__")})
    return error


def _find_class(name: str, known: Mapping[str, type[Exception]]) -> type[Exception] | None:
    found: Any = known.get(name) or _registered.get(name)
    if found is None:
        module, _, path = name.partition(":")
        found = builtins if module == "builtins" else sys.modules.get(module)
        for part in path.split("."):
            # Only what is there already: a module's __getattr__ could import.
            found = cast(Any, getattr(found, "__dict__", {})).get(part)
    if isinstance(found, type) and issubclass(found, Exception) and _named(found, name, known):
        return found
    return None


def _named(cls: type[Exception], name: str, known: Mapping[str, type[Exception]]) -> bool:
    return name in known or name in _registered or type_name(cls) == name


def _group(error: BaseException) -> BaseExceptionGroup[BaseException] | None:
    return cast(Any, error) if isinstance(error, BaseExceptionGroup) else None


def _arguments(error: BaseException) -> list[Any]:
    if isinstance(error, OSError) and error.filename is not None:
        # It takes its file names out of `args`.
        second = [] if error.filename2 is None else [None, error.filename2]
        return [*error.args, error.filename, *second]
    return list(error.args)


def _state(error: BaseException) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, value in getattr(error, "__dict__", {}).items():
        if not name.startswith("__") and (plain := _plain(value)) is not None:
            state[name] = plain
    return state


def _plain(value: Any) -> Any:
    """The value itself when JSON carries it without loss, else None."""
    try:
        raw = msgspec.json.encode(value)
        return value if msgspec.json.decode(raw) == value else None
    except Exception:
        return None


def text_of(error: BaseException) -> str:
    """What it says, whatever its `__str__` does."""
    try:
        return _storable(str(error))
    except Exception as failure:
        return f"<its __str__ raised {type(failure).__name__}>"


def repr_of(error: BaseException) -> str:
    try:
        return _storable(repr(error))
    except Exception as failure:
        return f"{type(error).__name__}(<its __repr__ raised {type(failure).__name__}>)"


def _storable(text: str) -> str:
    """Names of files may hold half a character, which JSON cannot carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def _traceback(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except Exception as failure:
        return f"<the traceback could not be formatted: {type(failure).__name__}>"
    text = _storable(text)
    return text if len(text) <= TRACEBACK_CHARS_MAX else f"...\n{text[-TRACEBACK_CHARS_MAX:]}"


def _string(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""
