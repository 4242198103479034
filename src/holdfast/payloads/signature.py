"""Parameters and results of functions, read from their annotations once; and calls that arrive as JSON.

The format of a call is that of the official SDKs, so that they can call us and we them: an object of
`func`, `args` (an array), `kwargs` (an object; TypeScript has none, we leave it out when empty) and `version`
(an integer, 1 when absent). Other keys, such as TypeScript's `retry`, are ignored.

1. An annotation that cannot be evaluated (a name imported only for type checkers) counts as Any.
2. The value of `-> Coroutine[..., T]`, `Awaitable[T]`, `Generator[..., T]`, `Operation[T]`, `Future[T]` is T.
3. `-> None` promises nothing, so such a value is not checked. `-> Base` gives a Base, also for a derived one.
"""

from __future__ import annotations

import inspect
import sys
from collections import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Never, NoReturn, Self, cast, get_args, get_origin, get_type_hints
from weakref import ref

import msgspec
from msgspec import Raw, Struct

from holdfast.payloads.errors import BadArguments, UndecodablePayload
from holdfast.runtime.future import Future
from holdfast.runtime.operation import Operation

Load = Callable[[Raw, Any], Any]

_Kind = inspect.Parameter


class StoredCall(Struct, frozen=True):
    """A function call as it was stored: the arguments are still JSON, for want of a signature."""

    function: str = msgspec.field(name="func")
    args_json: tuple[Raw, ...] = msgspec.field(name="args", default=())
    kwargs_json: dict[str, Raw] = msgspec.field(name="kwargs", default_factory=dict[str, Raw])
    version: int = 1


class CallParameter(NamedTuple):
    name: str
    type: Any
    required: bool
    kind: Any
    default: Any = None  # also when there is none


class Signature:
    """The parameters of a function and the type of its value."""

    __slots__ = ("function", "gives_none", "keywords", "parameters", "returns", "supplied")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = _name(function)
        hints = _hints(function)
        hint = _return_hint(function, hints)
        self.returns: Any = _value_type(hint)
        self.gives_none = hint in (None, type(None))  # as it says; `returns` is Any then
        self.parameters: tuple[CallParameter, ...] | None = _parameters(function, hints)
        self.keywords = _keywords(function, self.parameters or ())
        self.supplied: tuple[object, Any] | None = None  # whoever supplies arguments keeps here which

    def bind(
        self, call: StoredCall, load: Load, supplied: frozenset[str] = frozenset()
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Typed arguments for the function, or BadArguments that says which one and why."""
        if self.parameters is None:  # a builtin without a signature: it checks its arguments itself
            return tuple(load(raw, Any) for raw in call.args_json), {
                name: load(raw, Any) for name, raw in call.kwargs_json.items()
            }
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        positional, named = list(call.args_json), dict(call.kwargs_json)
        for name in supplied & named.keys():
            self._refuse(f"{name!r} is supplied by the application")
        for parameter in self.parameters:
            if parameter.kind is _Kind.VAR_POSITIONAL:
                args += [self._typed(parameter, raw, load) for raw in positional]
                positional = []
            elif parameter.kind is _Kind.VAR_KEYWORD:
                kwargs |= {name: self._typed(parameter, raw, load) for name, raw in named.items()}
                named = {}
            elif parameter.name in supplied:
                continue
            elif positional and parameter.kind is not _Kind.KEYWORD_ONLY:
                if parameter.name in named and parameter.kind is not _Kind.POSITIONAL_ONLY:
                    self._refuse(f"{parameter.name!r} was given twice")
                value = self._typed(parameter, positional.pop(0), load)
                # After a supplied parameter the positions no longer match, so names carry on.
                if supplied and parameter.kind is not _Kind.POSITIONAL_ONLY:
                    kwargs[parameter.name] = value
                else:
                    args.append(value)
            elif parameter.name in named and parameter.kind is not _Kind.POSITIONAL_ONLY:
                kwargs[parameter.name] = self._typed(parameter, named.pop(parameter.name), load)
            elif parameter.required:
                self._refuse(f"{parameter.name!r} is missing")
        if positional:
            self._refuse(f"{len(positional)} positional argument(s) too many")
        if named:
            self._refuse(f"it has no parameter {', '.join(map(repr, named))}")
        return tuple(args), kwargs

    def _typed(self, parameter: CallParameter, raw: Raw, load: Load) -> Any:
        try:
            return load(raw, parameter.type)
        except UndecodablePayload as error:
            raise BadArguments(f"{self}: {parameter.name!r} does not fit. {error.what}") from error

    def _refuse(self, why: str) -> NoReturn:
        raise BadArguments(f"{self}: {why}")

    def __str__(self) -> str:
        shown: list[str] = []
        for parameter in self.parameters or ():
            stars = {_Kind.VAR_POSITIONAL: "*", _Kind.VAR_KEYWORD: "**"}.get(parameter.kind, "")
            text = f"{stars}{parameter.name}"
            shown.append(text if parameter.type is Any else f"{text}: {_shown(parameter.type)}")
        return f"{self.function}({', '.join(shown)})"


def signature_of(function: Callable[..., Any]) -> Signature:
    """Cached for as long as the function lives."""
    try:
        found = _functions.get(ref(function))
        return _find_signature(function) if found is None else found
    except TypeError:  # neither hashable nor weakly referable
        return Signature(function)


def _find_signature(function: Callable[..., Any]) -> Signature:
    inner = getattr(function, "__func__", None)
    # A bound method is made anew at each access, and takes one argument less than its function.
    key, cache = (function, _functions) if inner is None else (inner, _methods)
    found = cache.get(ref(key))
    if found is None:
        found = cache[ref(key, partial(_drop, cache))] = Signature(function)
    return found


def _drop(cache: dict[ref[Any], Signature], key: ref[Any]) -> None:
    cache.pop(key, None)


def _parameters(function: Callable[..., Any], hints: dict[str, Any]) -> tuple[CallParameter, ...] | None:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    return tuple(
        CallParameter(
            parameter.name,
            hints.get(parameter.name, Any),
            parameter.default is _Kind.empty,
            parameter.kind,
            None if parameter.default is _Kind.empty else parameter.default,
        )
        for parameter in signature.parameters.values()
    )


def _keywords(function: Callable[..., Any], parameters: Sequence[CallParameter]) -> frozenset[str]:
    """What may be given by name: to the function, or to a decorator around it that `parameters` leave out."""
    by_name = (_Kind.POSITIONAL_OR_KEYWORD, _Kind.KEYWORD_ONLY)
    named = {parameter.name for parameter in parameters if parameter.kind in by_name}
    code = getattr(function, "__code__", None)
    if code is not None:
        count = code.co_argcount + code.co_kwonlyargcount
        named.update(code.co_varnames[code.co_posonlyargcount : count])
    return frozenset(named)


def _return_hint(function: Callable[..., Any], hints: dict[str, Any]) -> Any:
    inner = _innermost(function)
    return inner if isinstance(inner, type) else hints.get("return", Any)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    inner = inspect.unwrap(_innermost(function))
    if isinstance(inner, type):
        inner = cast(Any, inner).__init__
    elif not hasattr(inner, "__annotations__"):
        inner = getattr(cast(Any, type(inner)), "__call__", inner)  # noqa: B004 - its annotations are wanted
    try:
        hints = get_type_hints(inner, include_extras=True)
    except Exception:
        hints = _each_alone(inner)
    return hints


def _each_alone(function: Any) -> dict[str, Any]:
    """Evaluate each annotation by itself, so that one that fails does not take the others along."""
    hints: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        alone: Any = type("annotation", (), {"__annotations__": {name: annotation}})
        module = sys.modules.get(getattr(function, "__module__", ""))
        names = getattr(function, "__globals__", None) or vars(module or object)
        try:
            hints[name] = get_type_hints(alone, globalns=dict(names), include_extras=True)[name]
        except Exception:
            hints[name] = Any
    return hints


def _value_type(hint: Any) -> Any:
    origin = get_origin(hint)
    arguments: Sequence[Any] = get_args(hint)
    if origin in _LAST_ARGUMENT and arguments:
        return _value_type(arguments[-1])
    if hint in _MEANINGLESS:
        return Any
    return hint


def _innermost(function: Any) -> Any:
    while isinstance(function, partial):
        function = cast(Any, function).func
    return function


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "") or type(function).__name__)


def _shown(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) else str(type_).replace("typing.", "")


_LAST_ARGUMENT: Final = (abc.Coroutine, abc.Awaitable, abc.Generator, Operation, Future)
_MEANINGLESS: Final[tuple[Any, ...]] = (object, None, type(None), NoReturn, Never, cast(Any, Self))
_functions: dict[ref[Any], Signature] = {}
_methods: dict[ref[Any], Signature] = {}
