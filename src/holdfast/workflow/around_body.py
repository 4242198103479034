"""Middlewares around the code of a workflow. They run with it: once for every replay, in its root fiber.

So they must be as deterministic as the code itself, and cannot wait. An execution that is put aside closes
them at their `yield`.
"""

from collections.abc import Callable, Generator
from functools import wraps
from types import coroutine
from typing import TYPE_CHECKING, Any, cast

from holdfast.runtime import ExecutionClosed
from holdfast.steps.middleware import Invocation, Middlewares

if TYPE_CHECKING:
    from holdfast.workflow.execution import Execution


def around_body(
    work: Callable[..., Any], execution: "Execution", middlewares: Middlewares
) -> Callable[..., Generator[Any, Any, Any]]:
    """The body of a root fiber with what is around it."""

    @wraps(work)
    @coroutine  # so that it may delegate to coroutines and generators alike
    def body(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        info = execution.info
        entered = middlewares.enter(
            Invocation(
                "workflow",
                execution.name,
                execution.id,
                args,
                kwargs,
                attempt=info.attempt,
                execution=execution.id,
                workflow=execution.name,
                headers=dict(execution.promise.param.headers or {}),
                is_replay=execution.is_replaying,
            )
        )
        invocation = entered.invocation
        try:
            begun: Generator[Any, Any, Any] = work(*invocation.args, **invocation.kwargs)
            value = yield from begun
        except (ExecutionClosed, GeneratorExit):
            entered.close()
            raise
        except BaseException as error:
            return entered.raised(error)
        return entered.returned(value)

    return cast("Callable[..., Generator[Any, Any, Any]]", body)
