"""What the adapters to agent libraries share: calls of a model or a tool become steps of the workflow.

1. In the code of a workflow a call is a recorded step. Anywhere else (a script, a test, a step, a task) it is
   the library's own call: the same agent runs in both.
2. Only what the call returns is recorded. Its arguments are not: libraries put the time into their messages,
   which is another one on every replay, and a conversation would be stored once for each of its turns.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypedDict
from weakref import WeakKeyDictionary

from holdfast.payloads.durations import Duration
from holdfast.runtime.slot import slot
from holdfast.steps.retry import GiveUp, Retry
from holdfast.workflow.step_functions import run

model_retry: Final = Retry(attempts=5, delay=1.0)


class StepChoices(TypedDict, total=False):
    """How the calls of one kind are performed: `{"retry": hf.Retry(attempts=3), "timeout": "30s"}`."""

    retry: Retry | None
    timeout: Duration | None


def in_workflow() -> bool:
    """Is this the code of a workflow, and not a step, a task or a script?

    If that was not declared with `loop="asyncio"`, it has a loop that raises when it is touched, and says so.
    """
    if slot.scheduler is None:
        return False
    return bool(asyncio.get_running_loop().is_running())


async def perform(name: str, body: Callable[[], Awaitable[Any]], options: StepChoices) -> Any:
    """Perform the call as a step, and give back what was recorded: JSON."""

    async def call() -> Any:
        return await body()

    return await run(call, name=name, retry=options.get("retry"), timeout=options.get("timeout"))


def cannot_be_recorded(error: Exception) -> GiveUp:
    """For a call that is paid for and whose result is no JSON: it is not tried again."""
    return GiveUp(f"The result of the call cannot be written as JSON: {error}")


class Numbers:
    """Counts within an execution, from 1 on in every replay."""

    def __init__(self) -> None:
        self._counts: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()

    def next(self) -> int:
        loop = asyncio.get_running_loop()
        number = self._counts[loop] = self._counts.get(loop, 0) + 1
        return number
