"""The worker for plain tasks: claim, start, run, tell, let go.

1. A task is run only by whoever holds it, and begins only after the store knows that it did.
2. One heartbeat for all that is held, claimed or running, at half the lease. What the node calls lost, or
   says was settled by somebody else, or what is held past its lease by our own clock, is stopped at once, and
   its result is not told.
3. A result is told until the node has answered. 409 means that it came too late: it is dropped, whoever it
   comes from, and a line is logged.
4. What cannot be run here (an unknown name, another codec) is given back; the engine lets it rest longer and
   longer, and no attempt is counted.
5. `stop` claims nothing more, gives back what has not started, waits for what runs, and keeps its results.
6. A claim whose reply was lost may have started tasks that nobody runs: they are looked up and given back.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from holdfast.client.asking import ask
from holdfast.client.interface import Client
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.replies import (
    AcquireReply,
    ClaimReply,
    Reply,
    TasksReply,
)
from holdfast.protocol.requests import RequestData, TaskRelease, TaskSearch, TaskStart
from holdfast.tasks.errors import TaskLost
from holdfast.tasks.lanes import Lane, TaskSettings, Wish, lanes_of
from holdfast.tasks.outbox import Outbox
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.running import Run, last_word, misfit, resolve, unstorable, wordless
from holdfast.worker.child import WayBack
from holdfast.worker.errors import StepCalledOff
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.payload import Payloads
from holdfast.worker.performance import Outcome
from holdfast.worker.steps import StepRunner

log = logging.getLogger("holdfast.tasks")

goodbye_s_max: Final = 10.0
stray_rest_s: Final = 1.0


class TaskWorker:
    def __init__(
        self,
        client: Client,
        payloads: Payloads,
        registry: TaskRegistry,
        *,
        pid: str,
        settings: TaskSettings,
        lease_s: float = 20.0,
        now: Callable[[], int],
        runner: StepRunner | None = None,
        polls: bool = True,
        chance: Random | None = None,
        way_back: WayBack | None = None,
    ) -> None:
        self._client = client
        self._payloads = payloads
        self._registry = registry
        self._pid = pid
        self._settings = settings
        self._now = now
        self._lease_ms = round(lease_s * 1000)
        self._loop = asyncio.get_running_loop()
        self._polls = polls  # False: where no message is ever lost
        self._runner = runner or StepRunner(
            threads_max=settings.concurrency,
            processes_max=max(1, min(settings.processes, settings.concurrency)),
            way_back=way_back,
        )
        self._outbox = Outbox(client, self._compose)
        self._lanes = lanes_of(registry, settings, lambda: self._runner.left_behind, chance)
        self._held: dict[str, tuple[Run, Lane]] = {}
        self.heartbeat = Heartbeat(
            client,
            pid,
            self._lease_ms,
            lambda: {run.id: run for run, _ in self._held.values() if not run.is_lost},
            lambda run: self._lose(run, "its lease was lost"),
        )
        self._timers: dict[Lane, asyncio.TimerHandle] = {}
        self._beating: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False

    @property
    def groups(self) -> list[str]:
        """Whose messages it wants to hear."""
        return [queue_group(queue) for queue in self.queues]

    @property
    def queues(self) -> list[str]:
        return [queue for lane in self._lanes for queue in lane.queues]

    @property
    def held_count(self) -> int:
        return len(self._held)

    def start(self) -> None:
        self._beating = asyncio.create_task(self.heartbeat.run())
        for lane in self._lanes:
            self._poll(lane)
        self._outbox.nudge()

    def hear(self, message: Message) -> None:
        """There may be work; or somebody settled a task that runs here."""
        if isinstance(message, Execute):
            for lane in self._lanes:
                lane.may_have_work = True
            self._outbox.nudge()
        elif (held := self._held.get(message.promise.id)) is not None:
            self._lose(held[0], f"{message.promise.id} was settled by somebody else")

    async def stop(self, drain_s: float | None = None) -> None:
        """Claim nothing more, let what runs finish for a while, give back the rest."""
        self._stopping = True
        self._stop_timers()
        for run, lane in [*self._held.values()]:
            if run.state == "claimed":
                self._give_back(run, lane)
        until = self._loop.time() + (self._settings.drain_s if drain_s is None else drain_s)
        await self._until_idle(until)
        unfinished = [
            (run, lane) for run, lane in self._held.values() if run.state in ("starting", "running")
        ]
        for run, _ in unfinished:
            self._lose(run, "the worker is stopping")
        await self._runner.close()
        for run, _ in unfinished:
            self._outbox.put(TaskRelease(run.id, run.version), _ignore)
        try:
            async with asyncio.timeout(goodbye_s_max):
                await self._outbox.drain()
        except TimeoutError:
            log.warning("the node could not be told everything; leases will lapse")
        await self._close()

    async def abandon(self) -> None:
        """Drop everything where it is, as a killed process would. Nothing is told."""
        self._stopping = True
        self._stop_timers()
        await self._close()
        for run, _ in [*self._held.values()]:
            run.is_lost = True
        await self._runner.close()

    async def _close(self) -> None:
        tasks = [task for task in (self._beating, self._looking) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._outbox.close()

    async def _until_idle(self, until_s: float) -> None:
        """Until nothing runs and everything was told."""
        while self._held and (left_s := until_s - self._loop.time()) > 0:
            self._idle.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._idle.wait()
            except TimeoutError:
                return

    # --- claiming --------------------------------------------------------------------------------------

    def _compose(self) -> None:
        """The outbox is about to send: add what the lanes have room for."""
        if self._stopping or self._looking is not None:
            return
        for lane in self._lanes:
            while lane.claimed and lane.free > 0:
                self._ask_to_start(lane.claimed.popleft(), lane)
            for wish in lane.wishes(self._pid, self._lease_ms):
                lease_ends_s = self.heartbeat.lease_end_s()
                self._outbox.put(wish.claim, partial(self._claimed, lane, wish, lease_ends_s), once=True)

    def _claimed(self, lane: Lane, wish: Wish, lease_ends_s: float, reply: Reply | None) -> None:
        if reply is None or not isinstance(reply.data, ClaimReply):
            if reply is not None:
                log.error("a claim was refused: %s", reply.data)
            lane.answered(wish, None)
            if self._looking is None and not self._stopping:
                self._looking = asyncio.create_task(self._look_for_strays())
            return
        granted = reply.data.tasks
        lane.answered(wish, [_priority(claim) for claim in granted])
        if wish.is_complete:
            lane.is_limited = reply.data.limited
        for claim in granted:
            self._accept(claim, lane, started=wish.claim.start, lease_ends_s=lease_ends_s)
        self._poll(lane, reply.data.next_at)
        if lane.may_have_work:
            self._outbox.nudge()

    def _accept(self, claim: AcquireReply, lane: Lane, *, started: bool, lease_ends_s: float) -> None:
        older = self._held.get(claim.task.id)
        if older is not None:  # its lease lapsed unnoticed, and the task came back to us
            self._lose(older[0], "its lease had lapsed")
            self._forget(older[0])
        try:
            run = resolve(claim, self._registry, self._payloads, lease_ends_s)
        except Exception as error:
            log.warning("a task cannot be run here: %s", error, extra={"task": claim.task.id})
            self._outbox.put(TaskRelease(claim.task.id, claim.task.version), _ignore)
            return
        self._held[run.id] = (run, lane)
        self.heartbeat.begin(lease_ends_s)
        if self._stopping:
            self._give_back(run, lane)
        elif started:
            lane.running += 1
            self._begin(run, lane)
        else:
            lane.claimed.append(run)

    def _give_back(self, run: Run, lane: Lane) -> None:
        if run in lane.claimed:
            lane.claimed.remove(run)
        self._forget(run)
        self._outbox.put(TaskRelease(run.id, run.version), _ignore)

    def _forget(self, run: Run) -> None:
        held = self._held.get(run.id)
        run.state = "gone"
        if held is not None and held[0] is run:
            del self._held[run.id]
        if not self._held:
            self._idle.set()

    # --- running ---------------------------------------------------------------------------------------

    def _ask_to_start(self, run: Run, lane: Lane) -> None:
        lane.running += 1
        run.state = "starting"
        self._outbox.put(TaskStart(run.id, run.version), partial(self._started, run, lane))

    def _started(self, run: Run, lane: Lane, reply: Reply | None) -> None:
        if run.is_lost or reply is None or reply.status != 200:
            lane.running -= 1  # it was lost, cancelled, has expired, or its queue does not let it begin
            lane.may_have_work = True  # the next claim says when it may
            self._forget(run)
            self._outbox.nudge()
        else:
            self._begin(run, lane)

    def _begin(self, run: Run, lane: Lane) -> None:
        if self._loop.time() >= run.lease_ends_s:  # this process was frozen in between
            self._leave(run, lane)
            self._give_back(run, lane)
            return
        try:
            run.begin(self._runner, self._payloads, partial(self._ended, lane))
        except Exception as error:
            self._leave(run, lane)
            self._tell(run, partial(misfit, run, error, self._payloads))

    def _ended(self, lane: Lane, run: Run, outcome: Outcome) -> None:
        self._leave(run, lane)
        if run.is_lost or isinstance(outcome.error, StepCalledOff):
            self._forget(run)
            return
        self._tell(run, partial(last_word, run, outcome, self._payloads))

    def _leave(self, run: Run, lane: Lane) -> None:
        """Its slot is free."""
        run.state = "ending"
        lane.running -= 1
        if lane.is_limited:
            lane.may_have_work = True
        self._outbox.nudge()

    def _tell(self, run: Run, put_into_words: Callable[[], RequestData]) -> None:
        try:
            word = put_into_words()
        except Exception:  # the user's codec, say. Unless something is told, the task runs for ever
            log.exception("what became of a task could not be stored", extra={"task": run.id})
            word = wordless(run)
        run.letter = self._outbox.put(word, partial(self._told, run))

    def _told(self, run: Run, reply: Reply | None) -> None:
        assert reply is not None
        assert run.letter is not None
        if reply.status in (400, 413) and not run.is_refused:
            run.is_refused = True
            self._tell(run, partial(unstorable, run, str(reply.data), self._payloads))
            return
        if reply.status >= 400:
            what = (
                "a late result was dropped" if run.letter.sent == 1 else "a result was told twice or too late"
            )
            log.warning("%s: %s", what, reply.data, extra={"task": run.id, "version": run.version})
        self._forget(run)

    def _lose(self, run: Run, why: str) -> None:
        if run.state in ("ending", "gone"):
            return
        log.warning("a task was stopped: %s", why, extra={"task": run.id, "version": run.version})
        run.lose(TaskLost(f"The task {run.id} was stopped here: {why}"))
        for lane in self._lanes:
            if run in lane.claimed:
                lane.claimed.remove(run)
                self._forget(run)

    # --- timers ----------------------------------------------------------------------------------------

    def _poll(self, lane: Lane, next_at: int | None = None) -> None:
        """Look again after a while, or when a rate limit allows more."""
        if self._stopping:
            return
        if (timer := self._timers.pop(lane, None)) is not None:
            timer.cancel()
        after_s = lane.poll_after_s()
        if next_at is not None:
            after_s = min(after_s, max(0.0, (next_at - self._now()) / 1000))
        elif not self._polls:
            return
        self._timers[lane] = self._loop.call_later(after_s, self._rung, lane)

    def _rung(self, lane: Lane) -> None:
        lane.may_have_work = True
        self._poll(lane)
        self._outbox.nudge()

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # --- strays ----------------------------------------------------------------------------------------

    async def _look_for_strays(self) -> None:
        """What a claim with a lost reply may have left us: held in our name, and nobody here knows it."""
        try:
            while not self._stopping:
                if await self._release_strays():
                    return
                await asyncio.sleep(stray_rest_s)
        finally:
            self._looking = None
            self._outbox.nudge()

    async def _release_strays(self) -> bool:
        await self._outbox.drain()  # nothing that is on its way is a stray
        for group in self.groups:
            cursor: str | None = None
            while True:
                search = TaskSearch(state="acquired", group=group, pid=self._pid, cursor=cursor)
                try:
                    [reply] = await self._client.request([ask(search)])
                except Exception:
                    log.warning("the node could not be asked what we hold", exc_info=True)
                    return False
                if not isinstance(reply.data, TasksReply):
                    return False
                for task in reply.data.tasks:
                    held = self._held.get(task.id)
                    if held is None or held[0].version != task.version:
                        self._outbox.put(TaskRelease(task.id, task.version), _ignore)
                cursor = reply.data.cursor
                if cursor is None:
                    break
        return True


def _priority(claim: AcquireReply) -> int:
    job = claim.task.job
    return 0 if job is None else job.priority


def _ignore(reply: Reply | None) -> None:
    """Whether it was still ours to give back makes no difference."""
