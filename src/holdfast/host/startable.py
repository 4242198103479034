"""A workflow of an app: one can start it. `@app.workflow` makes these.

Options stand apart from arguments, so that a type checker sees both: `checkout.with_options(id="order-17")`
is the same workflow, and `start` takes the arguments of its function and nothing else.
"""

from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, ParamSpec, TypeVar, overload

from holdfast.host.handle import Handle
from holdfast.workflow.registry import WorkflowDefinition

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Begin = Callable[["Workflow[..., Any]", tuple[Any, ...], dict[str, Any]], Handle[Any]]


class Workflow(WorkflowDefinition[P, T_co]):
    """A function that survives. Called directly inside another workflow it runs there, as part of it."""

    def __init__(
        self,
        begin: Begin,
        function: Callable[P, T_co],
        name: str,
        version: int,
        group: str | None,
        timeout_s: float | None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(function, name, version, group, timeout_s, tags)
        self._begin = begin

    @overload
    def start(
        self: "Workflow[P, Coroutine[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs
    ) -> Handle[T]: ...
    @overload
    def start(
        self: "Workflow[P, Generator[Any, Any, T]]", *args: P.args, **kwargs: P.kwargs
    ) -> Handle[T]: ...
    def start(self, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Start an execution from outside, or find the one that has this id; in a workflow it is `hf.start`
        or `hf.call`. In a script it is durable when this returns, in asyncio after `await handle.started()`.

        Crash: once started it goes on wherever a worker is. Starting it again under its id changes nothing.

        >>> handle = checkout.with_options(id="order-17", tags={"customer": "4"}).start(card, cents)
        """
        return self._begin(self, args, kwargs)
