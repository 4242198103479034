# pyright: reportPrivateUsage=false
"""Tasks and futures whose sets come out in the same order in every run.

asyncio keeps tasks in sets (`wait`, `TaskGroup`, `as_completed`), and a set's order follows from the hashes
of its members: by default their addresses. Here a hash is a number that depends on the execution and on how
many were made before it.

1. The numbers of two executions differ: asyncio also has sets with the tasks of all loops in them.
2. `as_completed` makes a set of what it is given, coroutines too, before they are tasks; `all_tasks` finds
   tasks in one of those common sets. Both are asked for an order of ours while a workflow asks
   (`OrderedSets`), nobody else notices.
"""

import asyncio
import asyncio.tasks
from asyncio import _get_running_loop
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from holdfast.workflow.asyncio_loop.loop import WorkflowLoop

_spread: Final = 0x9E3779B1  # odd: neighbours are far apart, and no two of one execution meet
_hash_max: Final = (1 << 60) - 1


def nth_hash(seed: int, number: int) -> int:
    return (seed * _spread + number * _spread) & _hash_max


class WorkflowFuture(asyncio.Future[Any]):
    """What `loop.create_future()` gives."""

    def __init__(self, loop: "WorkflowLoop") -> None:
        self._hash = loop.next_hash()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._hash


class WorkflowTask(asyncio.Task[Any]):
    """A task of asyncio, with a number and the Context it runs in."""

    def __init__(
        self,
        coroutine: Any,
        *,
        loop: "WorkflowLoop",
        name: str | None = None,
        context: Context,
        **options: Any,
    ) -> None:
        self._hash = loop.next_hash()
        self.workflow_context = context  # 3.11 does not tell
        super().__init__(coroutine, loop=loop, name=name, context=context, **options)

    def __hash__(self) -> int:
        return self._hash


class OrderedSets:
    """Puts an order of ours into asyncio for as long as loops of workflows are there."""

    _users: ClassVar[int] = 0
    _all_tasks: ClassVar[Callable[..., set[Any]]] = staticmethod(asyncio.tasks.all_tasks)

    @classmethod
    def enter(cls) -> None:
        cls._users += 1
        if cls._users == 1:
            asyncio.tasks.__dict__["set"] = _set_in_order  # a name of the module comes before the builtin one
            asyncio.all_tasks = asyncio.tasks.all_tasks = _all_tasks

    @classmethod
    def leave(cls) -> None:
        cls._users -= 1
        if cls._users == 0:
            del asyncio.tasks.__dict__["set"]
            asyncio.all_tasks = asyncio.tasks.all_tasks = cls._all_tasks


def _set_in_order(members: Iterable[Any] = ()) -> Any:
    """`set`, as asyncio's tasks.py calls it. Of coroutines, in a workflow, one that keeps their order."""
    if members and getattr(_get_running_loop(), "is_of_workflow", False):
        ordered = dict.fromkeys(members)
        if any(map(asyncio.iscoroutine, ordered)):
            return ordered
        return set(ordered)
    return set(members)


def _all_tasks(loop: Any = None) -> set[Any]:
    loop = asyncio.get_running_loop() if loop is None else loop
    if getattr(loop, "is_of_workflow", False):
        return {task for task in loop.tasks if not task.done()}
    return OrderedSets._all_tasks(loop)
