"""Dependencies: what workflows and steps are given besides their arguments, by type or by name.

    app.provide(Database, open_database)      # a factory: sync, async, a generator, a context manager
    app.provide("mailer", Mailer("smtp://"))  # or a value

A parameter annotated with a provided type, or with `Annotated[Mailer, Depends("mailer")]`, or whose default
is `hf.provided`, is filled in by the worker that runs the function: a workflow, a step, a background task.

1. What is provided is never stored: it is no part of payloads, fingerprints or replays.
2. Providers open before the worker claims anything, in the order of `provide` and each after those it depends
   on, and close in the reverse order after the last step. All of that happens in one asyncio task, so a
   context manager is left by the task that entered it.
3. Types match exactly: neither a base class nor `T | None` stands for T.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias, cast, get_args, get_origin

from msgspec import Struct

from holdfast.payloads.errors import BadArguments
from holdfast.payloads.interactive import is_interactive
from holdfast.payloads.signature import CallParameter, Signature, signature_of
from holdfast.steps.errors import BadProvider, NotProvided

log = logging.getLogger("holdfast.app")

Key: TypeAlias = type[Any] | str

_Kind = inspect.Parameter

# A default for parameters that are filled in, so that type checkers let callers leave them out.
provided: Final[Any] = object()

_nothing: Final[frozenset[str]] = frozenset()


class Depends(Struct, frozen=True):
    """`Annotated[Mailer, Depends("mailer")]`: what is provided under that key (or the type)."""

    key: Any = None


class Providers:
    """What an app provides: declared once, opened by each worker."""

    def __init__(self) -> None:
        self._sources: dict[Key, Any] = {}
        self._declared = object()  # another one whenever something is declared

    def add(self, key: Key, source: Any) -> None:
        if not (isinstance(key, str) and key) and not isinstance(key, type):
            raise BadProvider(f"{key!r} is neither a type nor a name")
        if key in self._sources and not is_interactive():
            raise BadProvider(f"{shown(key)} is provided twice")
        self._sources[key] = source
        self._declared = object()

    def replaced(self, others: Mapping[Key, Any]) -> "Providers":
        """The same with other sources for these keys: for tests."""
        copy = Providers()
        copy._sources = {**self._sources, **others}
        return copy

    @property
    def sources(self) -> Mapping[Key, Any]:
        return self._sources

    def wanted_by(self, function: Callable[..., Any]) -> Mapping[str, Key]:
        return self.wanted(signature_of(function))

    def wanted(self, signature: Signature) -> Mapping[str, Key]:
        """The parameters of a function that are filled in, and with what."""
        known = signature.supplied
        if known is not None and known[0] is self._declared:
            found: Mapping[str, Key] = known[1]
            return found
        wanted = ((parameter, self._key_of(parameter)) for parameter in signature.parameters or ())
        found = {parameter.name: key for parameter, key in wanted if key is not None}
        signature.supplied = self._declared, found
        for parameter in signature.parameters or ():
            if parameter.name in found and parameter.kind in _unfillable:
                raise BadProvider(f"{signature}: {parameter.name!r} cannot be filled in: it has no name")
        return found

    def supplied_to(self, function: Callable[..., Any], mode: str) -> frozenset[str]:
        """The parameters that are not part of a call. Raises where they cannot be filled in: a child process
        has no providers."""
        return self.check(signature_of(function), {}, mode)

    def check(self, signature: Signature, kwargs: Mapping[str, Any], mode: str) -> frozenset[str]:
        """The same. Raises also if a caller gives what the application supplies."""
        wanted = self.wanted(signature)
        if not wanted:
            return _nothing
        for name in wanted.keys() & kwargs.keys():
            raise BadArguments(f"{signature}: {name!r} is supplied by the application")
        for name in wanted if mode == "process" else ():
            raise BadProvider(f"{signature}: {name!r} cannot be filled in in a child process")
        return frozenset(wanted)

    def _key_of(self, parameter: CallParameter) -> Key | None:
        hint: Any = parameter.type
        if get_origin(hint) is not None and hasattr(hint, "__metadata__"):
            plain = get_args(hint)[0]
            for mark in hint.__metadata__:
                if isinstance(mark, Depends) or mark is Depends:
                    key = mark.key if isinstance(mark, Depends) else None
                    return cast(Key, plain if key is None else key)
            hint = plain
        is_wanted = parameter.default is provided or (isinstance(hint, type) and hint in self._sources)
        return cast(Key, hint) if is_wanted and isinstance(hint, type) else None


class Provided:
    """What one worker has opened."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self.check = providers.check
        self._values: dict[Key, Any] = {}
        self._opening: list[Key] = []
        self._owner: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def open(self) -> None:
        if not self._providers.sources:
            return
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._keep(opened))
        try:
            await opened
        except asyncio.CancelledError:
            self._owner.cancel()
            raise

    async def close(self) -> None:
        self._closing.set()
        if self._owner is not None:
            await asyncio.gather(self._owner, return_exceptions=True)
        self._values.clear()

    def names(self, function: Callable[..., Any]) -> frozenset[str]:
        """The parameters that are not part of a call."""
        return frozenset(self._providers.wanted_by(function))

    def fill(self, function: Callable[..., Any]) -> dict[str, Any]:
        """What to call the function with, besides its arguments."""
        return {name: self.value(key, function) for name, key in self._providers.wanted_by(function).items()}

    def place(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments of a call with what is provided in its place; None when nothing is."""
        wanted = self._providers.wanted_by(function)
        if not wanted:
            return None
        rest = list(args)
        placed: list[Any] = []
        named = dict(kwargs)
        apart = False  # after a parameter that is filled in, arguments go by name
        for parameter in signature_of(function).parameters or ():
            if parameter.name in wanted:
                apart = True
            elif parameter.kind is _Kind.VAR_POSITIONAL and not apart:
                placed, rest = placed + rest, []
            elif rest and parameter.kind in _positional:
                if apart and parameter.name in named:
                    raise BadArguments(f"{signature_of(function)}: {parameter.name!r} was given twice")
                if apart:
                    named[parameter.name] = rest.pop(0)
                else:
                    placed.append(rest.pop(0))
        if rest:
            raise BadArguments(f"{signature_of(function)}: {len(rest)} positional argument(s) too many")
        return tuple(placed), named | self.fill(function)

    def complete(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same for a plain call, which may give everything itself."""
        wanted = self._providers.wanted_by(function)
        if wanted:
            try:
                if wanted.keys() <= inspect.signature(function).bind(*args, **kwargs).arguments.keys():
                    return args, kwargs
            except TypeError:
                pass
        return self.place(function, args, kwargs) or (args, kwargs)

    def supplied_to(self, function: Callable[..., Any], mode: str) -> frozenset[str]:
        return self._providers.supplied_to(function, mode)

    def value(self, key: Key, asker: Callable[..., Any]) -> Any:
        """What is provided under a key. Raises NotProvided."""
        if key not in self._values:
            known = ", ".join(map(shown, self._providers.sources)) or "nothing"
            raise NotProvided(f"{signature_of(asker)} asks for {shown(key)}; provided here: {known}")
        return self._values[key]

    # --- life ------------------------------------------------------------------------------------------

    async def _keep(self, opened: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                for key in self._providers.sources:
                    await self._open(key, stack)
                opened.set_result(None)
                await self._closing.wait()
        except Exception as error:
            if opened.done():
                log.exception("a provider could not be closed")
            else:
                opened.set_exception(error)

    async def _open(self, key: Key, stack: AsyncExitStack) -> None:
        if key in self._values:
            return
        if key in self._opening:
            circle = " -> ".join(map(shown, [*self._opening, key]))
            raise BadProvider(f"Providers wait for each other: {circle}")
        source = self._providers.sources[key]
        if not is_factory(key, source):
            self._values[key] = source
            return
        self._opening.append(key)
        for needed in self._providers.wanted_by(source).values():
            if needed in self._providers.sources:
                await self._open(needed, stack)
        self._values[key] = await _made(source, self.fill(source), stack)
        self._opening.remove(key)


async def _made(factory: Callable[..., Any], given: dict[str, Any], stack: AsyncExitStack) -> Any:
    """A generator, and what @contextmanager makes of one, is entered; anything else gives the value."""
    body: Any = inspect.unwrap(factory)
    if inspect.isasyncgenfunction(body):
        opens = asynccontextmanager(body) if body is factory else cast(Any, factory)
        return await stack.enter_async_context(opens(**given))
    if inspect.isgeneratorfunction(body):
        opens = contextmanager(body) if body is factory else cast(Any, factory)
        return stack.enter_context(opens(**given))
    made = factory(**given)
    return await made if inspect.isawaitable(made) else made


def is_factory(key: Key, source: Any) -> bool:
    """Is it called for the value? A value that can be called counts as one if it is of the type provided."""
    return callable(source) and not (isinstance(key, type) and isinstance(source, key))


def shown(key: Key) -> str:
    return repr(key) if isinstance(key, str) else cast(Any, key).__qualname__


_positional: Final = (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)
_unfillable: Final = (_Kind.POSITIONAL_ONLY, _Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)
