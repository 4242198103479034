"""A host: one process at work. It claims tasks, has them run, sends their final requests, and stops in order.

    message streams --> slot groups --> outbox: claims, final requests --> node
                            |                |
                        what is held  <------+ granted claims
                            |
                        Runner.begin ... ended(final request)

It owns the streams, the claims, the slots, the heartbeat, the outbox and the order of stopping. What a claim
means is its runner's affair: see runners.py.

1. A host claims only what it has a free slot for, and refills slot by slot, never in batches.
2. A task is run only by whoever holds it, and a background task begins only after the store knows that.
3. One heartbeat for all that is held, at half the lease. What the node calls lost, or says was settled by
   somebody else, or what is held past its lease by our own clock, is stopped at once.
4. A final request is sent until the node has answered.
5. A claim whose reply was lost may have granted tasks that nobody runs: they are looked up and given back.
   A claim that waits at the node (waiting_slots.py) is one that was sent, from when the node takes it up.
6. `stop` claims nothing more, gives back what has not begun, waits for what runs as long as its runner
   allows, ends the rest and gives it back. For a node that does not answer it waits a few seconds in all.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, Literal

from holdfast.client.caller import ask, expect
from holdfast.client.interface import Client, KeepsClaims
from holdfast.client.listening import Find, Settlements, listen, looked_at_max
from holdfast.host.heartbeat import Heartbeat
from holdfast.host.outbox import Outbox
from holdfast.host.refused_claims import RefusedClaims
from holdfast.host.runners import Runner
from holdfast.host.slots import ClaimIntent, Held, SlotGroup
from holdfast.host.waiting_slots import WaitingHost
from holdfast.node.end_tasks import end_tasks
from holdfast.protocol.address import poll_group
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.records import Promise, TaskRef, TaskView
from holdfast.protocol.replies import AcquireReply, ClaimReply, Reply, TasksReply
from holdfast.protocol.requests import RequestData, TaskAcquire, TaskRelease, TaskSearch, TaskStart
from holdfast.protocol.workers import Slots

log = logging.getLogger("holdfast.worker")

final_requests_s_max: Final = 4.0  # for a node that may be away: what does not reach it, leases tell it
ending_s_max: Final = 1.0  # for what is told to stop, and may wait for the node
rest_s: Final = 1.0
gone_statuses: Final = (404, 409)  # of an acquire: there is nothing to do
Taken = Literal["run", "gone", "full"]  # what became of a task that was pushed


class Host:
    def __init__(
        self,
        client: Client,
        *,
        pid: str,
        lease_s: float,
        now: Callable[[], int],
        polls: bool = True,
        inbox: Settlements | None = None,
    ) -> None:
        self._client = client
        self._pid = pid
        self._lease_ms = round(lease_s * 1000)
        self._now = now
        self._polls = polls  # False: where no message is ever lost
        self._inbox = inbox or Settlements()
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(client, self._compose)
        self._served: dict[SlotGroup, Runner[Any]] = {}
        self._held: dict[str, Held] = {}
        self._refused = RefusedClaims(pid, self._loop.time)
        self.heartbeat = Heartbeat(
            client,
            pid,
            self._lease_ms,
            lambda: {key: held.run for key, held in self._held.items() if not held.run.is_lost},
            lambda run: self._lose(self._held[run.id], "its lease is over"),
            lambda run: self._held[run.id].runner.doubt(run),
        )
        self._waiting = WaitingHost(
            pid, self._compose_waiting, self._claimed, self.heartbeat.lease_end_s, self._outbox.nudge
        )
        self._timers: dict[SlotGroup, asyncio.TimerHandle] = {}
        self._streams: dict[str, asyncio.Task[None]] = {}  # by group
        self._beating: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._left = asyncio.Event()  # something is no longer held
        self._stopping = False
        self.is_draining = False

    @property
    def held_count(self) -> int:
        return len(self._held)

    def count_of(self, runner: Runner[Any]) -> int:
        """How many of its runs are held."""
        return sum(held.runner is runner for held in self._held.values())

    def slots_in_use(self) -> dict[str, Slots]:
        """By the kind of work."""
        found: dict[str, Slots] = {}
        for slots in self._served:
            known = found.get(slots.kind, Slots(0, 0))
            found[slots.kind] = Slots(known.size + slots.slots, known.used + slots.running)
        return found

    def drain(self, *, on: bool) -> None:
        """Claim nothing more and give back what has not begun, until told otherwise. What runs goes on."""
        self.is_draining = on
        self._leave(is_leaving=on or self._stopping)

    def _leave(self, *, is_leaving: bool) -> None:
        for slots, runner in self._served.items():
            runner.leave(is_leaving=is_leaving)
            slots.may_have_work = slots.may_have_work or not is_leaving
        for held in [each for each in self._held.values() if is_leaving and each.state == "claimed"]:
            self._give_back(held)
        self._outbox.nudge()

    # --- what is served and heard ----------------------------------------------------------------------

    def serve(self, slots: SlotGroup, runner: Runner[Any]) -> None:
        """Claim for these slots; again, when their groups have changed."""
        if self._stopping:
            return
        if self._beating is None:
            self._beating = asyncio.create_task(self.heartbeat.run())
        self._served[slots] = runner
        slots.may_have_work = True
        if isinstance(self._client, KeepsClaims):
            self._waiting.leave(self._client, slots)
        self._poll(slots)
        self._outbox.nudge()

    def listen_in(self, group: str) -> None:
        """Hear the messages for this process in a group, until the client is closed."""
        if group not in self._streams:
            self._streams[group] = asyncio.create_task(listen(self._client, group, self._pid, self.hear))

    def hear(self, message: Message) -> None:
        """There may be work, and which of us does it is decided by the claim; or a promise has settled."""
        if isinstance(message, Execute):
            group = poll_group(message.address)
            for slots in self._served:
                if group in slots.groups:
                    slots.may_have_work = True
                    slots.invited.append(message.task.id)
            self._outbox.nudge()
        else:
            self._inbox.tell(message.promise)
            self._settled(message.promise)

    async def look(self, find: Find) -> None:
        """Somebody else may have settled what runs here, on a node that cannot tell us."""
        ids = [key for key, held in self._held.items() if not held.runner.writes_results]
        for start in range(0, len(ids), looked_at_max):
            for promise in await find(ids[start : start + looked_at_max]):
                if promise.state != "pending":
                    self._settled(promise)

    def _settled(self, promise: Promise) -> None:
        held = self._held.get(promise.id)
        if held is not None and not held.runner.writes_results:
            self._lose(held, f"{promise.id} was settled by somebody else")

    # --- stopping --------------------------------------------------------------------------------------

    async def stop(self, grace_s: float | None = None) -> None:
        """Let what runs finish for a while, by default as long as its runner allows; give back the rest."""
        began_s = self._loop.time()
        self._claim_no_more()
        self._waiting.take_back()
        self._leave(is_leaving=True)  # `is_draining` stays as it is: it says what the node has asked for
        for runner in sorted({*self._served.values()}, key=lambda runner: runner.grace_s):
            await self._until_idle(runner, began_s + (runner.grace_s if grace_s is None else grace_s))
            await self._end(runner)
        try:
            async with asyncio.timeout(final_requests_s_max):
                await self._waiting.until_answered()
                await self._outbox.drain()
        except TimeoutError:
            log.warning("the node could not be reached; the tasks held here are free when their leases end")
        await self._close()

    async def abandon(self) -> None:
        """Drop everything where it is, as a killed process would. Nothing is told."""
        self._claim_no_more()
        await self._close()
        for runner in {*self._served.values()}:
            await runner.close(0.0)

    async def end_streams(self) -> None:
        await end_tasks(self._streams.values())

    def _claim_no_more(self) -> None:
        self._stopping = True
        self._waiting.withdraw()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def _until_idle(self, runner: Runner[Any], until_s: float) -> None:
        """Until nothing of it runs and everything was told."""
        while self.count_of(runner) and (left_s := until_s - self._loop.time()) > 0:
            self._left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._left.wait()

    async def _end(self, runner: Runner[Any]) -> None:
        """End what it still runs, and give that back."""
        unfinished = [
            held for held in self._held.values() if held.runner is runner and held.state != "ending"
        ]
        for held in unfinished:
            runner.lose(held.run, "the worker is stopping", is_stopping=True)
        await runner.close(ending_s_max)
        for held in unfinished:
            self._give_back(held)

    async def _close(self) -> None:
        await end_tasks([self._beating, self._looking])
        await self._outbox.close()
        self._held.clear()
        self._left.set()

    # --- claiming --------------------------------------------------------------------------------------

    def _compose(self) -> None:
        """The outbox is about to send: add what there are free slots for."""
        if self._stopping or self._looking is not None or self.is_draining:
            return
        for slots, runner in self._served.items():
            self._waiting.make_way(slots)
            while slots.claimed and slots.free > 0:
                self._ask_to_start(slots.claimed.popleft())
            known = runner.known(slots.invited) if slots.invited else ()
            intents = slots.claim_intents(self._pid, self._lease_ms, known)
            if intents:
                slots.invited.clear()
            for intent in intents:
                lease_ends_s = self.heartbeat.lease_end_s()
                self._outbox.put(intent.claim, partial(self._claimed, slots, intent, lease_ends_s), once=True)

    def _compose_waiting(self, slots: SlotGroup) -> ClaimIntent | None:
        """A commit is about to begin at the node, and may offer us something."""
        if self._stopping or self._looking is not None or self.is_draining:
            return None
        return slots.waiting_intent(self._pid, self._lease_ms, self._served[slots].known_now)

    def _claimed(
        self, slots: SlotGroup, intent: ClaimIntent, lease_ends_s: float, reply: Reply | None
    ) -> None:
        if reply is None:
            slots.answered(intent, None)
            if self._looking is None and not self._stopping:
                self._looking = asyncio.create_task(self._look_for_strays())
            return
        if not isinstance(reply.data, ClaimReply):
            self._refused.refused(slots.kind, slots.groups, reply)
            slots.answered(intent, None)
            slots.may_have_work = False
            self._look_again(slots, rest_s)
            return
        if self._refused.by_kind:
            self._refused.granted(slots.kind)
        granted = reply.data.tasks
        slots.answered(intent, [_priority(claim) for claim in granted])
        if intent.is_complete:
            slots.is_limited = reply.data.limited
        for claim in granted:
            self._accept(claim, slots, lease_ends_s, is_ahead=intent.is_ahead)
        self._poll(slots, reply.data.next_at)
        if slots.may_have_work:
            self._outbox.nudge()

    def _accept(self, claim: AcquireReply, slots: SlotGroup, lease_ends_s: float, *, is_ahead: bool) -> None:
        if self._stopping or self.is_draining:  # it was on its way when we were told to stop
            self._outbox.put(TaskRelease(claim.task.id, claim.task.version), _ignore)
            return
        older = self._held.get(claim.task.id)
        if older is not None and older.state == "running" and older.run.is_leaving:
            # One commit has suspended it, woken it and given it to us again. The first reply is on its way.
            slots.asked_to_start += 1
            older.successor = partial(self._accept_again, claim, slots, lease_ends_s)
            return
        if older is not None:  # its lease lapsed unnoticed, and the task came back to us
            self._lose(older, "its lease is over")
            self._forget(older)
        runner = self._runner_of(claim, slots)
        run = runner.accept(claim, lease_ends_s)
        if isinstance(run, TaskRelease):
            self._outbox.put(run, _ignore)
            return
        held = self._held[run.id] = Held(run, runner, slots)
        self.heartbeat.begin(lease_ends_s)
        if is_ahead:
            slots.claimed.append(held)
        else:
            slots.running += 1
            self._begin(held)

    def _accept_again(self, claim: AcquireReply, slots: SlotGroup, lease_ends_s: float) -> None:
        slots.asked_to_start -= 1
        self._accept(claim, slots, lease_ends_s, is_ahead=False)

    def _runner_of(self, claim: AcquireReply, slots: SlotGroup) -> Runner[Any]:
        """Executions wait in queues, too: who runs workflows here runs them, in the slots of the queue."""
        if claim.task.job is None and slots.kind != "workflows":
            for other, runner in self._served.items():
                if other.kind == "workflows":
                    return runner
        return self._served[slots]

    def _give_back(self, held: Held) -> None:
        if held in held.slots.claimed:
            held.slots.claimed.remove(held)
        self._forget(held)
        self._outbox.put(held.release, _ignore)

    def _forget(self, held: Held) -> None:
        held.state = "gone"
        if self._held.get(held.run.id) is held:
            del self._held[held.run.id]
        if held.successor is not None:  # not before its runner has put it aside
            self._loop.call_soon(held.successor)
            held.successor = None
        self._left.set()

    async def take(self, slots: SlotGroup, task: TaskRef) -> Taken:
        """Claim one task by its id, and run it until it has ended, waits or was lost."""
        if self._stopping or self.is_draining or slots.free <= 0:
            return "full"
        lease_ends_s = self.heartbeat.lease_end_s()
        slots.asked_to_start += 1
        try:
            acquire = TaskAcquire(task.id, task.version, self._pid, self._lease_ms)
            [reply] = await self._client.request([ask(acquire)])
        finally:
            slots.asked_to_start -= 1
        if reply.status in gone_statuses:  # somebody else has it, or it is over
            return "gone"
        self._accept(expect(reply, AcquireReply), slots, lease_ends_s, is_ahead=False)
        held = self._held.get(task.id)
        while held is not None and self._held.get(task.id) is held:
            self._left.clear()
            await self._left.wait()
        return "run"

    # --- running ---------------------------------------------------------------------------------------

    def _ask_to_start(self, held: Held) -> None:
        held.slots.running += 1
        held.state = "starting"
        self._outbox.put(TaskStart(held.run.id, held.run.version), partial(self._started, held))

    def _started(self, held: Held, reply: Reply | None) -> None:
        if held.state != "starting" or held.run.is_lost or reply is None or reply.status != 200:
            held.slots.running -= 1  # it was lost, cancelled, has expired, or its queue does not let it begin
            held.slots.may_have_work = True  # the next claim says when it may
            self._forget(held)
            self._outbox.nudge()
        else:
            self._begin(held)

    def _begin(self, held: Held) -> None:
        held.state = "running"
        held.runner.begin(held.run, partial(self._ended, held))

    def _ended(self, held: Held, final: RequestData | None) -> None:
        """Its slot is free."""
        slots = held.slots
        slots.running -= 1
        if slots.is_limited:
            slots.may_have_work = True
        if held.state == "gone" or final is None:
            self._forget(held)
        else:
            held.state = "ending"
            self._tell(held, final)
        if slots.may_have_work or slots.claimed:
            self._outbox.nudge()

    def _tell(self, held: Held, final: RequestData) -> None:
        held.pending = self._outbox.put(final, partial(self._told, held))

    def _told(self, held: Held, reply: Reply | None) -> None:
        assert reply is not None
        assert held.pending is not None
        instead = held.runner.answered(held.run, reply, held.pending.sent)
        if instead is None:
            self._forget(held)
        else:
            self._tell(held, instead)

    def _lose(self, held: Held, why: str) -> None:
        if held.state in ("ending", "gone"):
            return
        held.runner.lose(held.run, why, is_stopping=self._stopping)
        if held in held.slots.claimed:
            held.slots.claimed.remove(held)
            self._forget(held)

    # --- looking again ---------------------------------------------------------------------------------

    def _poll(self, slots: SlotGroup, next_at: int | None = None) -> None:
        """Look again after a while, or when a rate limit allows more."""
        after_s = slots.poll_after_s() if self._polls and slots.polls else inf
        if next_at is not None:
            after_s = min(after_s, max(0.0, (next_at - self._now()) / 1000))
        self._look_again(slots, after_s)

    def _look_again(self, slots: SlotGroup, after_s: float) -> None:
        if (timer := self._timers.pop(slots, None)) is not None:
            timer.cancel()
        if after_s < inf and not self._stopping:
            self._timers[slots] = self._loop.call_later(after_s, self._rung, slots)

    def _rung(self, slots: SlotGroup) -> None:
        slots.may_have_work = True
        self._poll(slots)
        self._outbox.nudge()

    async def _look_for_strays(self) -> None:
        """What a claim with a lost reply may have left us: held in our name, and nobody here knows it."""
        try:
            while not self._stopping:
                await self._waiting.until_answered()
                await self._outbox.drain()  # nothing that is on its way is a stray
                try:
                    for task in await self._find_strays():
                        self._outbox.put(TaskRelease(task.id, task.version), _ignore)
                    return
                except Exception:
                    log.warning("the node could not be asked which tasks this worker holds", exc_info=True)
                    await asyncio.sleep(rest_s)
        finally:
            self._looking = None
            self._outbox.nudge()

    async def _find_strays(self) -> list[TaskView]:
        strays: list[TaskView] = []
        for group in (group for slots in self._served for group in slots.groups):
            cursor: str | None = None
            while True:
                search = TaskSearch(state="acquired", group=group, pid=self._pid, cursor=cursor)
                [reply] = await self._client.request([ask(search)])
                page = expect(reply, TasksReply)
                held = {(held.run.id, held.run.version) for held in self._held.values()}
                strays += [task for task in page.tasks if (task.id, task.version) not in held]
                if (cursor := page.cursor) is None:
                    break
        return strays


def _priority(claim: AcquireReply) -> int:
    job = claim.task.job
    return 0 if job is None else job.priority


def _ignore(reply: Reply | None) -> None:
    """Whether it was still ours to give back makes no difference."""
