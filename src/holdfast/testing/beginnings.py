"""Which steps and attempts were started in a simulation, and by which process.

1. Whoever begins something holds it, as far as he can know: not one who was told that his claim is lost, and,
   where no node's clock jumps, nobody whom another has replaced.
2. What is stored leads to the step that begins.
3. The function of a background task begins once for each claim, after the store knows that it does, and
   before its `good_until`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Final

from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Task
from holdfast.runtime import Step
from holdfast.steps.here import info_of
from holdfast.steps.info import ExecutionInfo
from holdfast.steps.step_run import StepCall, StepOutcome
from holdfast.store.memory import MemoryStore
from holdfast.testing.disk import view_of
from holdfast.testing.loop import Process
from holdfast.testing.replay import Performed, Untrue, check_led
from holdfast.testing.world import VirtualRunner

if TYPE_CHECKING:
    from holdfast.testing.simulation import Simulation

led_share: Final = 0.3  # of the steps, for which it is seen that the record leads to them


class Beginnings:
    def __init__(self, simulation: Simulation, random: Callable[[], float]) -> None:
        self._simulation = simulation
        self._random = random
        self.performed: list[Performed] = []
        self.attempts: dict[tuple[str, int], str] = {}  # at background tasks: which claims, and whose
        self.tasks: dict[str, None] = {}  # those whose function ever began

    def note(self, process: Process, step: Step) -> None:
        """Something is about to be performed."""
        simulation, info = self._simulation, info_of(step)
        assert info is not None
        what = info.step or f"{info.id} at version {info.token}"
        simulation.log.note(process.name, f"performs {what}")
        if (process.name, info.id, info.token) in simulation.witness.lost:
            self._trouble(f"{process.name} began {what} although its claim was lost")
        if info.step is None:
            self._note_attempt(process, info)
        # A node whose clock leaps forward may give a task away before its holder can know.
        if simulation.plan.store == "sqlite" or "node clock jumps" in simulation.plan.weights:
            return
        task = simulation.disk.memory.tasks[info.id]
        if task.version != info.token:
            self._trouble(
                f"{process.name} began {what}, driven at version {info.token}; "
                f"{task.pid} drives {task.version}"
            )
        if info.step is None:
            self._check_started(task, process)
        elif self._random() < led_share:
            seen = view_of(simulation.disk.memory, simulation.loop.millis())
            look = self._check_led(info.id, seen, Performed.of(step, Payloads()))
            simulation.loop.create_task(look, context=Context())

    def _note_attempt(self, process: Process, info: ExecutionInfo) -> None:
        claim = info.id, info.token
        if claim in self.attempts:
            other = self.attempts[claim]
            self._trouble(f"{info.id} began twice at version {info.token}: {other}, {process.name}")
        self.attempts[claim] = process.name
        self.tasks[info.id] = None

    def _check_started(self, task: Task, process: Process) -> None:
        job = task.job
        assert job is not None
        if task.started_at is None:
            self._trouble(f"{process.name} began {task.id}, which is not started")
        elif job.good_until is not None and task.started_at >= job.good_until:
            self._trouble(f"{process.name} began {task.id}, started {task.started_at}: it has expired")

    async def _check_led(self, execution: str, seen: MemoryStore, step: Performed) -> None:
        root, worker_context = seen.promises[execution], self._simulation.caller_session.worker_context()
        try:
            await check_led(root, seen, self._simulation.app.registry, worker_context, step)
        except Untrue as error:
            self._trouble(str(error))

    def _trouble(self, what: str) -> None:
        self._simulation.troubles.append(what)


class WatchedRunner(VirtualRunner):
    def __init__(
        self, performed: list[Performed], random: Callable[[], float], begins: Callable[[Step], None]
    ) -> None:
        super().__init__(performed, random)
        self._begins = begins

    def start(self, call: StepCall, done: Callable[[StepOutcome], None]) -> None:
        self._begins(call.step)
        super().start(call, done)
