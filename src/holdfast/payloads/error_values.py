"""Errors as data: how an exception is stored and becomes an exception again.

The form is the official SDKs' `{"__type": "error", "message"}` with more beside it: `name` and `type` of the
class, `args` and `state` (its attributes) where JSON carries them without loss, `traceback` as text, the
`code` of Holdfast's own errors, and `errors` for the members of a group.

1. A class is known when it is built in, registered with `register_error`, or already loaded here under the
   name the payload gives. Nothing is imported because a payload says so: code that can say `except Declined`
   has loaded `Declined`, and no other code can tell the difference.
2. A class written in Python is rebuilt without calling its `__init__`: its `args` and attributes are put back
   as they were. A payload can thus run no code of its choosing.
3. The traceback there is the `__cause__` here.
4. A class is looked for in the modules that are loaded, in what they and their classes hold themselves: no
   attribute is asked for, because a module's `__getattr__` may import and a property runs code.
5. What could be said of an error there can be said of it here: a class whose `__str__` needs what the payload
   does not carry gives way to `RemoteError`.
6. Nothing is assigned to an exception of somebody else by name: its class may forbid that (a frozen
   dataclass), or run code. What Python itself keeps of it is set as Python sets it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast.payloads.errors import RemoteError

TRACEBACK_CHARS_MAX: Final = 16_000
_our_folder: Final = str(Path(__file__).parent.parent)
GROUP_MEMBERS_MAX: Final = 100
DEPTH_MAX: Final = 8
failure_code_chars_max: Final = 64

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
        found = _loaded(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _loaded(name: str) -> type[Exception] | None:
    """The exception class of that name, if it is there already (rule 4)."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = _held_by(found).get(part)
    # Not isinstance: that asks an object for its __class__.
    return found if issubclass(type(found), type) and issubclass(found, Exception) else None


def _held_by(found: Any) -> Mapping[str, Any]:
    """What a module or a class holds itself, without a word to either."""
    for kind in (ModuleType, type):
        if issubclass(type(found), kind):
            return cast("Mapping[str, Any]", vars(kind)["__dict__"].__get__(found))
    return {}


def register_error(cls: E) -> E:
    """Make an exception class known by name, also under a name it no longer has: see `register_error_as`."""
    _registered[type_name(cls)] = cls
    return cls


def register_error_as(name: str, cls: type[Exception]) -> None:
    """Let errors stored under `name` ("module:Class") come back as `cls`, after a move or a renaming."""
    _registered[name] = cls


def type_name(cls: type[BaseException]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def failure_code(error: BaseException) -> str:
    """What failures of this kind are found by: the code of the error, or the name of its class."""
    found = code_of(error)
    if found is None and isinstance(error, RemoteError) and error.type_name:
        found = error.type_name.rpartition(":")[2].rpartition(".")[2]
    return _storable(found or type(error).__name__)[:failure_code_chars_max]


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
    described = {**plain}
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
    if (code := code_of(error)) is not None:
        described["code"] = code
    if depth == 0:
        described["traceback"] = traceback_text(error)
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
        set_cause(error, RemoteTraceback(text))
    return error


_cause: Final[Any] = vars(BaseException)["__cause__"]
_context: Final[Any] = vars(BaseException)["__context__"]
_trace: Final[Any] = vars(BaseException)["__traceback__"]
_args: Final[Any] = vars(BaseException)["args"]


def set_cause(error: BaseException, cause: BaseException | None) -> None:
    """What `raise error from cause` does."""
    _cause.__set__(error, cause)


def set_context(error: BaseException, context: BaseException | None) -> None:
    """What raising it while `context` is handled does."""
    _context.__set__(error, context)


def causes_of(error: BaseException) -> list[BaseException]:
    """Its cause, and what was handled when it was raised, whatever the class of the error says of these."""
    return [each for each in (_cause.__get__(error), _context.__get__(error)) if each is not None]


def traceback_of(error: BaseException) -> TracebackType | None:
    return cast("TracebackType | None", _trace.__get__(error))


def set_traceback(error: BaseException, trace: TracebackType | None) -> None:
    _trace.__set__(error, trace)


def remote_traceback(error: BaseException) -> str | None:
    """The traceback text of the process the error comes from, if it comes from one."""
    cause = _cause.__get__(error)
    return cause.text if isinstance(cause, RemoteTraceback) else None


def _rebuild(fields: dict[str, Any], message: str, known: Mapping[str, type[Exception]]) -> Exception | None:
    cls = _find_class(_string(fields, "type"), known)
    if cls is None:
        return None
    with suppress(Exception):
        if issubclass(cls, ExceptionGroup):
            members = [restore(member, known) for member in fields["errors"]]
            return ExceptionGroup(message, members) if cls is ExceptionGroup else None
        error = _instance(cls, fields, message)
        if error is not None and not message.startswith(_unsaid):
            _ = f"{error}{error!r}"  # what raises now would raise in the code that it is for
        return error
    return None


def _instance(cls: type[Exception], fields: dict[str, Any], message: str) -> Exception | None:
    args: list[Any] = fields.get("args", [message])
    if isinstance(cls.__new__, FunctionType):
        return None
    if isinstance(cls.__init__, FunctionType):
        error = cls.__new__(cls, *args)
        _args.__set__(error, tuple(args))
    else:
        error = cls(*args)
    state = fields.get("state", {})
    # Nor what every exception has: an attribute of that name would hide it.
    kept = {name: value for name, value in state.items() if not hasattr(BaseException, name)}
    vars(error).update({name: value for name, value in kept.items() if not name.startswith("__")})
    return error


def _find_class(name: str, known: Mapping[str, type[Exception]]) -> type[Exception] | None:
    found = known.get(name) or _registered.get(name)
    if found is None:
        found = _loaded(name)
        if found is not None and type_name(found) != name:
            return None
    return found


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


_unsaid: Final = "<its __str__ raised"


def text_of(error: BaseException) -> str:
    """What it says, whatever its `__str__` does."""
    try:
        return _storable(str(error))
    except Exception as failure:
        return f"{_unsaid} {type(failure).__name__}>"


def repr_of(error: BaseException) -> str:
    try:
        return _storable(repr(error))
    except Exception as failure:
        return f"{type(error).__name__}(<its __repr__ raised {type(failure).__name__}>)"


def _storable(text: str) -> str:
    """Names of files may hold half a character, which JSON cannot carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def code_of(error: BaseException) -> str | None:
    """The code of a class that has one."""
    try:
        code = getattr(type(error), "code", None)
    except Exception:
        return None
    return code if isinstance(code, str) else None


def traceback_text(error: BaseException) -> str:
    """As Python prints it, of bounded length, without our own frames where there are others."""
    try:
        described = traceback.TracebackException.from_exception(error)
        _leave_out_our_frames(described)
        text = "".join(described.format())
    except Exception as failure:
        return f"<the traceback could not be formatted: {type(failure).__name__}>"
    text = _storable(text)
    return text if len(text) <= TRACEBACK_CHARS_MAX else f"...\n{text[-TRACEBACK_CHARS_MAX:]}"


def _leave_out_our_frames(described: traceback.TracebackException) -> None:
    """Also in what it was caused by. What an error of ours says of our code alone stays as it is."""
    chain: list[traceback.TracebackException | None] = [described]
    while chain:
        each = chain.pop()
        if each is None:
            continue
        others = [frame for frame in each.stack if not frame.filename.startswith(_our_folder)]
        if others:
            each.stack = traceback.StackSummary.from_list(others)
        chain += [each.__cause__, each.__context__, *(each.exceptions or ())]


def _string(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""
