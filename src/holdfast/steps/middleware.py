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
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from inspect import isgeneratorfunction
from types import CoroutineType
from typing import Any, Final, Literal, cast, get_args

from holdfast.steps.errors import BadMiddleware

Kind = Literal["start", "send", "tell", "workflow", "step", "task"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
middleware_max: Final = 64  # of one app


class Invocation:
    """What a middleware is put around.

    `kind`: "start" (of an execution), "send" (of a background task), "tell" (a message or a question), all on
    the caller's side; "workflow", "step" and "task" where the code runs. `id`: of the execution or
    task; of a step, its idempotency key. `attempt`: of a step or a task, from 1; of a workflow it counts the
    claims. `execution`, `workflow`: inside an execution, which one it is, and its workflow. `headers`: of
    the call or message, to be read where it runs and to be added to where it is sent. `is_replay`: of a
    workflow's code, that it has run before.
    """

    __slots__ = (
        "args",
        "attempt",
        "error",
        "execution",
        "headers",
        "id",
        "is_replay",
        "kind",
        "kwargs",
        "name",
        "result",
        "workflow",
    )

    def __init__(
        self,
        kind: Kind,
        name: str,
        id: str,  # noqa: A002
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        attempt: int = 1,
        execution: str | None = None,
        workflow: str | None = None,
        headers: Mapping[str, str] | None = None,
        is_replay: bool = False,
    ) -> None:
        self.kind: Kind = kind
        self.name = name
        self.id = id
        self.args = args
        self.kwargs = kwargs
        self.attempt = attempt
        self.execution = execution
        self.workflow = workflow
        self.headers: dict[str, str] = dict(headers or {})
        self.is_replay = is_replay
        self.result: Any = None
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.id} attempt {self.attempt}>"


Middleware = Callable[[Invocation], Generator[None, Any, None]]


class Entered:
    """The middlewares that stand at their `yield`."""

    __slots__ = ("_bodies", "invocation")

    def __init__(self, invocation: Invocation, bodies: list[Generator[None, Any, None]]) -> None:
        self.invocation = invocation
        self._bodies = bodies

    def returned(self, value: Any) -> Any:
        """It gave a value: what the middlewares make of that."""
        return self._leave(value, None)

    def raised(self, error: BaseException) -> Any:
        """It raised: what they make of that, most often the same error."""
        return self._leave(None, error)

    def close(self) -> None:
        """It goes on elsewhere, or never happens."""
        while self._bodies:
            self._bodies.pop().close()

    def _leave(self, value: Any, error: BaseException | None) -> Any:
        invocation, bodies = self.invocation, self._bodies
        invocation.result, invocation.error = value, error
        while bodies:
            body = bodies.pop()
            thrown = invocation.error
            try:
                if thrown is None:
                    body.send(invocation.result)
                else:
                    body.throw(thrown)
            except StopIteration:
                invocation.error = None
                continue
            except BaseException as raised:
                invocation.error = raised
                continue
            body.close()
            name = getattr(body, "__name__", repr(body))
            invocation.error = BadMiddleware(f"The middleware {name} yielded more than once")
        if invocation.error is None:
            return invocation.result
        raise invocation.error


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
    """Those of one app, by kind."""

    def __init__(self) -> None:
        self.around: dict[Kind, tuple[Middleware, ...]] = dict.fromkeys(KINDS, ())

    def add(self, middleware: Middleware, kinds: tuple[Kind, ...] = ()) -> None:
        if not isgeneratorfunction(middleware):
            raise BadMiddleware(f"{middleware!r} is no generator function: a middleware has one `yield`")
        for kind in kinds or KINDS:
            if kind not in KINDS:
                raise BadMiddleware(f"{kind!r} is not one of {', '.join(KINDS)}")
            if len(self.around[kind]) >= middleware_max:
                raise BadMiddleware(f"There are {middleware_max} middlewares around a {kind} already")
            self.around[kind] += (middleware,)

    def enter(self, invocation: Invocation) -> Entered:
        """Run them up to their `yield`. Raises what one of them refuses it with."""
        bodies: list[Generator[None, Any, None]] = []
        entered = Entered(invocation, bodies)
        for middleware in self.around[invocation.kind]:
            body = middleware(invocation)
            try:
                next(body)
            except StopIteration:
                name = getattr(middleware, "__qualname__", repr(middleware))
                entered.close()
                raise BadMiddleware(f"The middleware {name} returned before its `yield`") from None
            except BaseException as refusal:
                return _refused(entered, refusal)
            bodies.append(body)
        return entered


def _refused(entered: Entered, refusal: BaseException) -> Entered:
    """Those that had begun are told. If one of them swallows the refusal, there is still nothing to call."""
    entered.raised(refusal)
    raise refusal
