"""Middleware: generators of the user's around starts, sends, messages, workflows, steps and tasks.

    @app.middleware("step", "task")
    def timed(invocation):
        began = time.monotonic()
        result = yield                      # it happens here; its error is raised here
        log.info("%s took %s", invocation.name, time.monotonic() - began)

One shape for everything: a generator needs no `await`, so the same one goes around a function in a thread, a
coroutine on the loop and the fibers of a workflow.

1. What comes before the `yield` runs in the order of declaration, what comes after it in reverse.
2. Before the `yield` it may change `args`, `kwargs` and `headers`, or raise: then it has refused. After it,
   it may set `result`, raise something else, or swallow the error, which makes `result` the outcome.
3. It runs in the Context of what it surrounds: a context variable that it sets is seen there.
4. A generator that is closed at its `yield` (GeneratorExit) surrounds something that goes on elsewhere: an
   execution that is put aside. It has neither a result nor an error.
5. At a prompt and in a notebook, one that is declared again replaces the one of its name.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from inspect import isfunction, isgeneratorfunction
from types import CoroutineType
from typing import Any, Final, Literal, cast, get_args

from msgspec import Struct, field

from holdfast.payloads.interactive import is_interactive
from holdfast.steps.errors import BadMiddleware

Kind = Literal["start", "send", "tell", "workflow", "step", "task"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
middleware_max: Final = 64  # of one app


class Invocation(Struct, eq=False):
    """What a middleware is put around.

    `kind`: "start" (of an execution), "send" (of a background task), "tell" (a message or a question), all on
    the caller's side; "workflow", "step" and "task" where the code runs. `id`: of the execution or
    task; of a step, its idempotency key. `attempt`: of a step or a task, from 1; of a workflow it counts the
    claims. `execution`, `workflow`: inside an execution, which one it is, and its workflow. `headers`: of
    the call or message, to be read where it runs and to be added to where it is sent. `is_replay`: of a
    workflow's code, that it has run before.
    """

    kind: Kind
    name: str
    id: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    attempt: int = 1
    execution: str | None = None
    workflow: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    is_replay: bool = False
    result: Any = None
    error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.id} attempt {self.attempt}>"


Middleware = Callable[[Invocation], Generator[None, Any, None]]


class Entered(Struct, eq=False):
    """The middlewares that stand at their `yield`, the outermost first."""

    invocation: Invocation
    bodies: list[Generator[None, Any, None]]

    def returned(self, value: Any) -> Any:
        """It gave a value: what the middlewares make of that."""
        invocation, bodies = self.invocation, self.bodies
        invocation.result = value
        while bodies:
            body = bodies.pop()
            try:
                body.send(invocation.result)
            except StopIteration:
                continue
            except BaseException as raised:
                return self._throw(raised)
            return self._throw(_yielded_again(body))
        return invocation.result

    def raised(self, error: BaseException) -> Any:
        """It raised: what they make of that, most often the same error."""
        self.invocation.result = None
        return self._throw(error)

    def close(self) -> None:
        """It goes on elsewhere, or never happens."""
        while self.bodies:
            self.bodies.pop().close()

    def _throw(self, error: BaseException) -> Any:
        invocation, bodies = self.invocation, self.bodies
        while bodies:
            invocation.error = error
            body = bodies.pop()
            try:
                body.throw(error)
            except StopIteration:  # swallowed
                invocation.error = None
                return self.returned(invocation.result)
            except BaseException as raised:
                error = raised
            else:
                error = _yielded_again(body)
        invocation.error = error
        raise error


def _yielded_again(body: Generator[None, Any, None]) -> BadMiddleware:
    body.close()
    return BadMiddleware(f"The middleware {getattr(body, '__name__', repr(body))} yielded more than once")


@contextmanager
def telling(entered: Entered | None) -> Generator[None]:
    """A block before it happens, such as encoding its arguments. If that raises, the middlewares are told."""
    try:
        yield
    except BaseException as error:
        if entered is not None:
            entered.raised(error)
        raise


def call_inside(entered: Entered, function: Callable[..., Any]) -> Any:
    """What the middlewares make of a call; of a coroutine, when it is awaited."""
    try:
        value = function(*entered.invocation.args, **entered.invocation.kwargs)
    except BaseException as error:
        return entered.raised(error)
    if isinstance(value, CoroutineType):
        return await_inside(entered, cast("Awaitable[Any]", value))
    return entered.returned(value)


async def await_inside(entered: Entered, work: Awaitable[Any]) -> Any:
    try:
        value = await work
    except GeneratorExit:
        entered.close()
        raise
    except BaseException as error:
        return entered.raised(error)
    return entered.returned(value)


async def await_asked(entered: Entered, work: Awaitable[Any], result: Any = None) -> Any:
    """What was asked of a node. Its outcome stands, whatever the middlewares do when they see it."""
    try:
        value = await work
    except GeneratorExit:
        entered.close()
        raise
    except BaseException as error:
        entered.raised(error)
        raise
    entered.returned(value if result is None else result)
    return value


class Middlewares:
    """Those of one app, by kind. `around` has the active ones, in the order of declaration."""

    def __init__(self) -> None:
        self.around: dict[Kind, tuple[Middleware, ...]] = dict.fromkeys(KINDS, ())
        self._declared: dict[Kind, tuple[Middleware, ...]] = dict.fromkeys(KINDS, ())
        self._inactive: list[Middleware] = []

    def add(self, middleware: Middleware, kinds: tuple[Kind, ...] = ()) -> None:
        if not isgeneratorfunction(middleware):
            raise BadMiddleware(f"{middleware!r} is no generator function: a middleware has one `yield`")
        for kind in kinds:
            if kind not in KINDS:
                raise BadMiddleware(f"{kind!r} is not one of {', '.join(KINDS)}")
        if is_interactive():
            self.remove(lambda other: other is not middleware and _is_declared_again(other, middleware))
        for kind in kinds or KINDS:
            if len(self._declared[kind]) >= middleware_max:
                raise BadMiddleware(f"There are {middleware_max} middlewares around a {kind} already")
            self._declared[kind] += (middleware,)
        self._choose()

    def remove(self, is_meant: Callable[[Middleware], bool]) -> None:
        for kind, declared in self._declared.items():
            self._declared[kind] = tuple(each for each in declared if not is_meant(each))
        self._choose()

    def set_active(self, middleware: Middleware, *, is_active: bool) -> None:
        """One that has nothing to do for now is left out, and costs nothing."""
        if is_active is (middleware in self._inactive):
            (self._inactive.remove if is_active else self._inactive.append)(middleware)
            self._choose()

    def _choose(self) -> None:
        for kind, declared in self._declared.items():
            self.around[kind] = tuple(each for each in declared if each not in self._inactive)

    def enter(self, invocation: Invocation) -> Entered:
        """Run them up to their `yield`. Raises what one of them refuses it with."""
        bodies: list[Generator[None, Any, None]] = []
        for middleware in self.around[invocation.kind]:
            body = middleware(invocation)
            try:
                next(body)
            except StopIteration:
                name = getattr(middleware, "__qualname__", repr(middleware))
                Entered(invocation, bodies).close()
                raise BadMiddleware(f"The middleware {name} returned before its `yield`") from None
            except BaseException as refusal:
                return _refused(Entered(invocation, bodies), refusal)
            bodies.append(body)
        return Entered(invocation, bodies)


def _is_declared_again(other: Middleware, middleware: Middleware) -> bool:
    """Two functions of one name: the second run of a cell. A factory and a class may well make several."""
    names = [(each.__module__, each.__qualname__) for each in (other, middleware) if isfunction(each)]
    return len(names) == 2 and names[0] == names[1] and "<locals>" not in names[0][1]


def _refused(entered: Entered, refusal: BaseException) -> Entered:
    """Those that had begun are told. If one of them swallows the refusal, there is still nothing to call."""
    entered.raised(refusal)
    raise refusal
