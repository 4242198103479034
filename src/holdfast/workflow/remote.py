"""Workflows that other processes declare: called by name, in a group of workers that is not ours.

charge = hf.remote("charge", group="billing", returns=Receipt)

@hf.remote(group="billing")                    # or a stub, whose signature is checked
async def charge(order: Order) -> Receipt: ...

receipt = await hf.call(charge, order)
"""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, overload

from holdfast.payloads.durations import Duration, seconds
from holdfast.workflow.registry import WorkflowDefinition

P = ParamSpec("P")
T = TypeVar("T")

Untyped = WorkflowDefinition[..., Coroutine[Any, Any, Any]]


@overload
def remote(
    name: str,
    /,
    *,
    group: str | None = None,
    returns: Any = Any,
    version: int = 0,
    timeout: Duration | None = None,
) -> Untyped: ...
@overload
def remote(
    *,
    group: str | None = None,
    name: str | None = None,
    version: int = 0,
    timeout: Duration | None = None,
) -> Callable[[Callable[P, T]], WorkflowDefinition[P, T]]: ...
def remote(
    called: str | None = None,
    /,
    *,
    group: str | None = None,
    name: str | None = None,
    returns: Any = Any,
    version: int = 0,
    timeout: Duration | None = None,
) -> Any:
    """A workflow that is declared elsewhere, for `hf.call`, `hf.start` and `app.start`.

    `group`: whose workers run it; our own if not given. `version`: 0 is the newest that they have. `returns`:
    what its result is decoded to; of a stub, its annotation says that. `timeout`: how long it may take.

    Crash: as with any call, it runs once. If no worker of that group is there, it waits for one.

    >>> receipt = await hf.call(hf.remote("charge", group="billing"), order)
    """
    limit_s = None if timeout is None else seconds("timeout", timeout)

    def define(stub: Callable[..., Any]) -> WorkflowDefinition[..., Any]:
        return WorkflowDefinition(stub, called or name or stub.__name__, version, group, limit_s)

    if called is None:
        return define

    async def anything(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{called} is declared elsewhere: use hf.call")

    anything.__name__ = called
    anything.__annotations__["return"] = returns
    return define(anything)
