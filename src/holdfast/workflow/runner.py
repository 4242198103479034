"""Runs the workflows that a host claims: finds or builds their executions, and drives them.

1. An execution that waits holds nothing: no slot, no lease. It stays warm in memory, bounded; if nobody else
   drove it meanwhile it goes on where it was, otherwise it is rebuilt by replay.
2. What cannot be run here is given back with the reason; how long it rests then, and when it is halted, is
   the engine's. Code that does not match its record is halted.
3. An execution writes its own result. Only a halt and a release are left to the host.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast.payloads import error_values
from holdfast.payloads.errors import WorkerError
from holdfast.protocol import limits
from holdfast.protocol.generations import arguments_of
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import AcquireReply, Reply
from holdfast.protocol.requests import ReleaseRetry, RequestData, TaskHalt, TaskRelease
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.errors import UnknownWorkflow
from holdfast.workflow.execution import Ending, Execution
from holdfast.workflow.generations import BoundCall
from holdfast.workflow.guard import guard
from holdfast.workflow.logs import code_of, said, storable, tell
from holdfast.workflow.registry import Registry

release_ms: Final = 1_000  # doubled each time; the engine halts what is a workflow of ours in the end
release_ms_max: Final = 60_000
failures_max: Final = 1_000
release_bytes_max: Final = 1_000


class WorkflowRunner:
    writes_results = True

    def __init__(
        self,
        worker_context: WorkerContext,
        registry: Registry,
        *,
        grace_s: float = 10.0,
        warm_max: int = 1_000,
    ) -> None:
        self.grace_s = grace_s
        self._worker_context = worker_context
        self._registry = registry
        self._pid = worker_context.pid
        self._warm_max = warm_max
        self._driving: dict[asyncio.Task[None], Execution] = {}
        self._warm: OrderedDict[str, Execution] = OrderedDict()
        self._large: dict[str, None] = {}  # of these, those with many records
        self.known_now: Sequence[str] = ()  # of those, the ones that were driven last
        self._failures: OrderedDict[str, int] = OrderedDict()  # of what was given back, lately
        self._is_closed = False
        self._is_guarded = False

    @property
    def warm_count(self) -> int:
        return len(self._warm)

    def accept(self, claim: AcquireReply, lease_ends_s: float) -> Execution | TaskRelease:
        """The warm execution, or one that will be rebuilt by replay."""
        execution = self._warm.pop(claim.task.id, None)
        if claim.task.id in self._large:
            self._forget_large(claim.task.id)
        try:
            is_warm = execution is not None and execution.resume(claim)
            if execution is None or not is_warm:
                if execution is not None:
                    execution.close()
                execution = None
                execution = self._build(claim)
        except (Exception, SystemExit) as error:
            return self._give_back(claim.task.id, claim.task.version, execution, error)
        execution.lease_ends_s = lease_ends_s
        self._tell_taken(claim, execution, is_warm=is_warm)
        return execution

    def known(self, task_ids: Iterable[str]) -> list[str]:
        """Those that are warm and have many records."""
        return [task_id for task_id in dict.fromkeys(task_ids) if task_id in self._large]

    def _forget_large(self, task_id: str) -> None:
        self._large.pop(task_id, None)
        self.known_now = [*self._large][-limits.claim_known_max :]

    def begin(self, run: Execution, ended: Callable[[RequestData | None], None]) -> None:
        driving = asyncio.create_task(self._drive(run, ended))
        self._driving[driving] = run
        driving.add_done_callback(self._left)
        self._worker_context.runner.executions = len(self._driving)

    def doubt(self, run: Execution) -> None:
        run.doubt()

    def lose(self, run: Execution, why: str, *, is_stopping: bool) -> None:
        if is_stopping:
            run.is_loss_told = True
        self._tell_lost(run, why)
        run.lose()

    def answered(self, run: Execution, reply: Reply, sent: int) -> RequestData | None:
        """Whether it was still ours to halt or to give back makes no difference."""

    def leave(self, *, is_leaving: bool) -> None:
        self._worker_context.runner.is_stopping = is_leaving

    async def close(self, wait_s: float) -> None:
        self._is_closed = True
        for execution in self._driving.values():
            execution.lose()
        driving = {task: run for task, run in self._driving.items() if task is not asyncio.current_task()}
        if driving and wait_s:
            await asyncio.wait(driving, timeout=wait_s)
        for task in driving:
            task.cancel()
        # Of what is done already `gather` makes turns of the loop on one Python and none on the next.
        await asyncio.gather(*(task for task in driving if not task.done()), return_exceptions=True)
        for execution in [*driving.values(), *self._warm.values()]:
            execution.close()
        self._warm.clear()
        self._large.clear()
        self.known_now = ()
        if self._is_guarded:
            self._is_guarded = False
            guard.close()

    # --- driving ---------------------------------------------------------------------------------------

    def _build(self, claim: AcquireReply) -> Execution:
        if not self._is_guarded:
            self._is_guarded = True
            guard.open()
        return Execution(claim, self._bind(claim.promise), self._worker_context, self._bind)

    def _bind(self, promise: Promise) -> BoundCall:
        """What is to be run for it, in its current generation."""
        payloads = self._worker_context.payloads
        call = payloads.decode_call(arguments_of(promise))
        workflow = self._registry.find(call.function, call.version)
        args, kwargs = workflow.arguments(call, payloads, self._worker_context.provided)
        keep = workflow.keep_generations
        if keep is None:
            keep = self._worker_context.keep_generations
        return BoundCall(workflow.name, workflow.body, args, kwargs, workflow, keep)

    async def _drive(self, execution: Execution, ended: Callable[[RequestData | None], None]) -> None:
        try:
            final = self._end(execution, await execution.drive())
        except asyncio.CancelledError:
            ended(None)
            raise
        except (Exception, SystemExit) as error:  # an exit would end the loop, and with it everybody else
            final = self._give_back(execution.id, execution.version, execution, error)
        ended(final)
        if self._warm.get(execution.id) is not execution:
            execution.let_go()

    def _left(self, driving: asyncio.Task[None]) -> None:
        self._driving.pop(driving, None)
        self._worker_context.runner.executions = len(self._driving)

    def _end(self, execution: Execution, ending: Ending) -> RequestData | None:
        self._failures.pop(execution.id, None)
        if ending == "lost":
            self._tell_lost(execution, execution.lost_because)
        is_ours = not (self._is_closed or execution.is_lost)  # it may be lost while it is being suspended
        if ending == "suspended" and is_ours and execution.is_kept_warm:
            self._warm[execution.id] = execution
            if execution.has_many_records:
                self._large[execution.id] = None
                self.known_now = [*self._large][-limits.claim_known_max :]
            while len(self._warm) > self._warm_max:
                evicted_id, evicted = self._warm.popitem(last=False)
                self._forget_large(evicted_id)
                evicted.close()
            return None
        execution.close()
        if execution.failure is not None:
            error = execution.failure
            message = f"{execution.name} {execution.id} failed: {said(error)}"
            tell(logging.ERROR, "failed", message, error, code=code_of(error), **self._fields(execution))
        if ending == "released":
            return TaskRelease(execution.id, execution.version)
        return self._halt(execution) if ending == "halted" else None

    def _halt(self, execution: Execution) -> TaskHalt:
        mismatch = execution.fault
        assert mismatch is not None
        message = f"{execution.name} {execution.id} is halted: {mismatch}"
        tell(logging.ERROR, "halted", message, code=mismatch.code, **self._fields(execution))
        reason = storable(mismatch.what, limits.error_bytes_max)
        return TaskHalt(execution.id, execution.version, reason, mismatch.code)

    def _give_back(
        self, task_id: str, version: int, execution: Execution | None, error: BaseException
    ) -> TaskRelease:
        """It cannot be run here, or not as it is: perhaps after the next deployment."""
        if execution is not None:
            execution.close()
        failures = self._failures.pop(task_id, 0) + 1
        self._failures[task_id] = failures
        while len(self._failures) > failures_max:
            self._failures.popitem(last=False)
        delay = min(release_ms << min(failures - 1, 10), release_ms_max)
        why = "cannot be run here" if isinstance(error, WorkerError) else "could not be driven"
        tell(
            logging.WARNING,
            "given back",
            f"{task_id} {why} and will be offered again in {delay / 1000:g} s or later: {said(error)}",
            None if isinstance(error, UnknownWorkflow) else error,  # its traceback would be ours alone
            execution=task_id,
            workflow=None if execution is None else execution.name,
            attempt=version,
            code=code_of(error),
            worker=self._pid,
        )
        text = storable(f"{type(error).__name__}: {error_values.text_of(error)}", release_bytes_max)
        return TaskRelease(task_id, version, ReleaseRetry(delay, text))

    # --- telling ---------------------------------------------------------------------------------------

    def _fields(self, execution: Execution) -> dict[str, Any]:
        return {
            "execution": execution.id,
            "workflow": execution.name,
            "attempt": execution.version,
            "worker": self._pid,
        }

    def _tell_taken(self, claim: AcquireReply, execution: Execution, *, is_warm: bool) -> None:
        what = f"{execution.name} {execution.id}"
        if claim.lapsed is not None:
            message = f"{what} is taken over by {self._pid}: the lease of {claim.lapsed} lapsed"
            tell(logging.WARNING, "taken over", message, **self._fields(execution))
        elif claim.task.version == 1:
            waited_s = max(0, self._worker_context.now() - claim.promise.created_at) / 1000
            self._worker_context.observers.tell("execution_began", claim.promise, execution.name, waited_s)
        elif not is_warm:
            tell(logging.INFO, "moved", f"{what} continues in {self._pid}", **self._fields(execution))

    def _tell_lost(self, execution: Execution, why: str) -> None:
        if not execution.is_loss_told:
            execution.is_loss_told = True
            message = f"{execution.name} {execution.id} is no longer driven by {self._pid}: {why}"
            tell(logging.WARNING, "lost", message, **self._fields(execution))
