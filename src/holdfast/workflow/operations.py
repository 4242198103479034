"""What an execution can ask the world for: one record for each kind of durable operation.

`label` is what a replay compares with what was recorded, so it names the kind and the name, never anything
that may differ from run to run. `arguments` is fingerprinted for the same comparison.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from holdfast import runtime
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Promise
from holdfast.runtime.slot import current_fiber
from holdfast.steps.retry import Retry
from holdfast.steps.step_run import Mode


class DurableOperation:
    """A durable operation. Its outcome is recorded under an id that only its place in the code decides."""

    __slots__ = ()

    @property
    def label(self) -> str:
        raise NotImplementedError

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {}

    @property
    def returns(self) -> Any:
        """The type that its value is decoded to."""
        return Any

    def __str__(self) -> str:
        return self.label


class StepOperation(DurableOperation, runtime.Step):
    """A function to be performed outside the fibers; recorded when it finishes."""

    __slots__ = ("_returns", "options")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: "StepOptions",
        returns: Any,
        above: runtime.Signal,
    ) -> None:
        runtime.Step.__init__(self, options.name or function.__name__, function, args, kwargs, above)
        self.options = options
        self._returns = returns

    @property
    def label(self) -> str:
        return f"step {self.name}"

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.args, self.kwargs

    @property
    def returns(self) -> Any:
        return self._returns


class StepOptions(Struct, frozen=True):
    name: str | None = None
    retry: Retry | None = None
    timeout_s: float | None = None
    mode: Mode = "auto"


class Sleep(DurableOperation):
    __slots__ = ("seconds",)

    can_fail = False

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @property
    def label(self) -> str:
        return "sleep"

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.seconds,), {}


class Await(DurableOperation):
    """A promise that somebody outside settles."""

    __slots__ = ("_returns", "tags", "timeout_s")

    def __init__(self, timeout_s: float | None, tags: dict[str, str], returns: Any) -> None:
        self.timeout_s = timeout_s
        self.tags = tags
        self._returns = returns

    @property
    def label(self) -> str:
        return "promise"

    @property
    def returns(self) -> Any:
        return self._returns


class JobCall(Struct, frozen=True):
    """What is different when a plain task is called: where it goes, its tags, and how its outcome is read."""

    target: str
    entries: dict[str, str]
    read: Callable[[Promise, Payloads, Mapping[str, type[Exception]]], Any]
    delay_s: float | None = None


class Call(DurableOperation, runtime.Revocable):
    """Another workflow, run by any worker. `waits` is False for one that is only started.

    When nobody wants its result any more, it is asked to cancel itself.
    """

    __slots__ = (
        "_returns",
        "args",
        "function",
        "group",
        "job_call",
        "kwargs",
        "tags",
        "timeout_s",
        "version",
        "waits",
        "workflow",
    )

    def __init__(
        self,
        workflow: str,
        version: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        returns: Any,
        *,
        group: str | None,
        timeout_s: float | None,
        waits: bool,
        job_call: JobCall | None = None,
        tags: Mapping[str, str] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.workflow = workflow
        self.version = version
        self.args = args
        self.kwargs = kwargs
        self.group = group
        self.timeout_s = timeout_s
        self.waits = waits
        self.job_call = job_call
        self.tags = tags or {}
        self.function = function  # where it is known, the arguments are checked against it
        self._returns = returns
        runtime.Revocable.__init__(self, current_fiber().signal())

    @property
    def label(self) -> str:
        return f"{'call' if self.waits else 'start'} {self.workflow}"

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.args, self.kwargs

    @property
    def returns(self) -> Any:
        return self._returns


class Note(DurableOperation):
    """A value chosen here and now (the time, a random number, a patch marker) and remembered.

    With `cancels`, another promise is settled as cancelled in the same write; `gently`, an execution is asked
    to cancel itself.
    """

    __slots__ = ("_returns", "cancels", "choose", "gently", "name")

    def __init__(
        self,
        name: str,
        choose: Callable[[], Any],
        returns: Any = Any,
        cancels: str | None = None,
        *,
        gently: bool = False,
    ) -> None:
        self.name = name
        self.choose = choose
        self.cancels = cancels
        self.gently = gently
        self._returns = returns

    @property
    def label(self) -> str:
        return f"note {self.name}"

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.cancels,) if self.cancels else (), {}

    @property
    def returns(self) -> Any:
        return self._returns
