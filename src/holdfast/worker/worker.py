"""The worker loop: claim, drive, heartbeat, let go.

1. A worker claims only what it has a free slot for, and refills slot by slot, never in batches.
2. One heartbeat for the whole process, at half the lease. A lease that the node calls lost, or that is over
   by our own clock, stops its execution at once.
3. An execution that waits holds nothing: no slot, no lease. It stays warm in memory, bounded; if nobody else
   drove it meanwhile it goes on where it was, otherwise it is rebuilt by replay.
4. What cannot be run here is given back with a growing delay and the reason; code that does not match its
   record is halted.
5. `stop` claims nothing more, lets what runs finish for a while, and releases the rest; for a node that does
   not answer it waits a few seconds in all.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.replies import AcquireReply, ClaimReply, Reply
from holdfast.protocol.requests import (
    Request,
    RequestData,
    Retry,
    TaskClaim,
    TaskHalt,
    TaskRelease,
)
from holdfast.worker import fault
from holdfast.worker.errors import WorkerError
from holdfast.worker.execution import Ending, Execution
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.pen import request_count_max
from holdfast.worker.registry import Registry
from holdfast.worker.surroundings import Surroundings

log = logging.getLogger("holdfast.worker")

claim_count_max: Final = 64
release_ms: Final = 1_000
release_ms_max: Final = 60_000
rest_s: Final = 1.0
goodbye_s_max: Final = 5.0  # for a node that may be away: what it is not told, it finds out by the leases
claim_s_max: Final = 2.0  # of those for the reply to the last claim


class Worker:
    def __init__(
        self,
        around: Surroundings,
        registry: Registry,
        *,
        pid: str,
        lease_s: float = 20.0,
        concurrency: int = 100,
        warm_max: int = 1_000,
    ) -> None:
        self._around = around
        self._registry = registry
        self._pid = pid
        self._lease_ms = round(lease_s * 1000)
        self._concurrency = concurrency
        self._warm_max = warm_max
        self._held: dict[str, Execution] = {}
        self.heartbeat = Heartbeat(
            around.client, pid, self._lease_ms, self._kept, Execution.lose, Execution.doubt
        )
        self._driving: dict[asyncio.Task[None], None] = {}
        self._warm: OrderedDict[str, Execution] = OrderedDict()
        self._failures: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._more = True  # there may be work that no message told us of
        self._stopping = False
        self._loops: list[asyncio.Task[None]] = []
        self._count = 0

    @property
    def held_count(self) -> int:
        return len(self._held)

    @property
    def warm_count(self) -> int:
        return len(self._warm)

    def _kept(self) -> dict[str, Execution]:
        """What the heartbeat is for. One that is lost may still wait for an answer before it ends."""
        return {key: execution for key, execution in self._held.items() if not execution.is_lost}

    def start(self) -> None:
        self._loops = [asyncio.create_task(self._claim_loop()), asyncio.create_task(self.heartbeat.run())]

    def hear(self, message: Message) -> None:
        """There may be work. Which of us does it is decided by the claim."""
        if isinstance(message, Execute):
            self._more = True
            self._wake.set()

    async def stop(self, grace_s: float = 10.0) -> None:
        self._stopping = True
        self._wake.set()
        if self._driving:
            await asyncio.wait([*self._driving], timeout=grace_s)
        leftovers = [*self._held.values()]
        for execution in leftovers:
            execution.lose()
        try:
            async with asyncio.timeout(goodbye_s_max):
                if self._driving:
                    await asyncio.wait([*self._driving])
                if (
                    self._loops
                ):  # what a claim brings that nobody waits for stays claimed until its lease lapses
                    await asyncio.wait(self._loops[:1], timeout=claim_s_max)
                await _end(self._loops)
                await self._release([TaskRelease(each.id, each.version) for each in leftovers])
        except TimeoutError:
            log.warning("the node could not be told everything; leases will lapse")
        await _end([*self._loops, *self._driving])
        for execution in [*leftovers, *self._warm.values()]:
            execution.close()
        self._warm.clear()

    async def abandon(self) -> None:
        """Drop everything where it is, as a killed process would. Nothing is released."""
        self._stopping = True
        executions = [*self._held.values(), *self._warm.values()]
        for execution in executions:
            execution.lose()
        await _end([*self._loops, *self._driving])
        for execution in executions:
            execution.close()

    # --- claiming --------------------------------------------------------------------------------------

    async def _claim_loop(self) -> None:
        while not self._stopping:
            free = self._concurrency - len(self._driving)
            if not (self._more and free > 0):
                self._wake.clear()
                await self._wake.wait()
                continue
            count = min(free, claim_count_max)
            self._more = False
            lease_ends_s = self.heartbeat.lease_end_s()
            reply = await self._try(
                "task.claim", TaskClaim([self._around.group], count, self._pid, self._lease_ms)
            )
            if reply is None or not isinstance(reply.data, ClaimReply):
                self._more = True
                await asyncio.sleep(rest_s)
                continue
            self._more = self._more or len(reply.data.tasks) == count
            await self._take(reply.data.tasks, lease_ends_s)

    async def _take(self, claims: Sequence[AcquireReply], lease_ends_s: float) -> None:
        if self._stopping:  # they were on their way when we were told to stop
            await self._release([TaskRelease(each.task.id, each.task.version) for each in claims])
            return
        for claim in claims:
            driving = asyncio.create_task(self._serve(claim, lease_ends_s))
            self._driving[driving] = None
            driving.add_done_callback(self._left)
        self._around.runner.executions = len(self._driving)

    def _left(self, driving: asyncio.Task[None]) -> None:
        self._driving.pop(driving, None)
        self._around.runner.executions = len(self._driving)
        self._wake.set()

    async def _serve(self, claim: AcquireReply, lease_ends_s: float) -> None:
        task_id = claim.task.id
        older = self._held.get(task_id)
        if older is not None:  # its lease lapsed unnoticed, and the task came back to us
            older.lose()
        execution: Execution | None = None
        try:
            execution = self._warm.pop(task_id, None)
            is_warm = execution is not None and execution.resume(claim)
            if execution is None or not is_warm:
                if execution is not None:
                    execution.close()
                execution = None
                execution = self._build(claim)
            self._held[task_id] = execution
            execution.lease_ends_s = lease_ends_s
            self.heartbeat.begin(lease_ends_s)
            if is_warm:
                await execution.catch_up()
            ending = await execution.drive()
        except WorkerError as error:  # not ours to run, or not as it is: perhaps after the next deployment
            log.error("%s cannot be run here: %s", task_id, error, extra={"execution": task_id})
            await self._give_back(claim, execution, error)
        except (Exception, SystemExit) as error:  # an exit would end the loop, and with it everybody else
            log.exception("an execution could not be driven", extra={"execution": task_id})
            await self._give_back(claim, execution, error)
        else:
            await self._end(execution, ending)
        finally:
            if self._held.get(task_id) is execution:
                self._held.pop(task_id, None)

    def _build(self, claim: AcquireReply) -> Execution:
        payloads = self._around.payloads
        call = payloads.decode_call(claim.promise.param)
        workflow = self._registry.find(call.function, call.version)
        provided = self._around.provided
        args, kwargs = payloads.bind_arguments(workflow.function, call, provided.names(workflow.function))
        kwargs |= provided.fill(workflow.function)
        return Execution(claim, workflow.function, args, kwargs, workflow.name, self._around)

    async def _end(self, execution: Execution, ending: Ending) -> None:
        self._failures.pop(execution.id, None)
        if ending == "suspended":
            self._warm[execution.id] = execution
            while len(self._warm) > self._warm_max:
                self._warm.popitem(last=False)[1].close()
            return
        execution.close()
        if ending == "halted":
            log.error("an execution was halted: %s", execution.fault, extra={"execution": execution.id})
            await self._try("task.halt", TaskHalt(execution.id, execution.version))

    async def _give_back(
        self, claim: AcquireReply, execution: Execution | None, error: BaseException
    ) -> None:
        task_id = claim.task.id
        if execution is not None:
            execution.close()
        failures = self._failures[task_id] = self._failures.get(task_id, 0) + 1
        delay = min(release_ms << min(failures - 1, 10), release_ms_max)
        text = f"{type(error).__name__}: {fault.text_of(error)}"[:1_000]
        await self._try("task.release", TaskRelease(task_id, claim.task.version, Retry(delay, text)))

    # --- asking ----------------------------------------------------------------------------------------

    async def _release(self, releases: Sequence[TaskRelease]) -> None:
        """Give back together: one commit, as far as it holds them."""
        for start in range(0, len(releases), request_count_max):
            requests = [self._request("task.release", each) for each in releases[start:][:request_count_max]]
            await self._send(requests)

    async def _try(self, kind: str, data: RequestData) -> Reply | None:
        replies = await self._send([self._request(kind, data)])
        return replies[0] if replies else None

    def _request(self, kind: str, data: RequestData) -> Request:
        self._count += 1
        return Request(kind, f"{self._pid}#{self._count}", CURRENT_VERSION, "A", data)

    async def _send(self, requests: list[Request]) -> list[Reply] | None:
        """Ask; a node that cannot be reached is no reason to die: leases and offers make up for it."""
        try:
            return await self._around.client.request(requests)
        except Exception:
            log.warning("the node could not be asked", exc_info=True, extra={"kind": requests[0].kind})
            return None


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    # Of what is done already `gather` makes turns of the loop on one Python and none on the next.
    await asyncio.gather(*(task for task in tasks if not task.done()), return_exceptions=True)
