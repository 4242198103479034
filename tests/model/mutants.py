"""Planted faults: oracles that are wrong in one way each. The differential runner must catch every one.

Several are faults that published servers of this protocol are known to have.
"""

from __future__ import annotations

from tests.model import fields
from tests.model.fields import Json, Refused
from tests.model.machine import Promise, Schedule, Task, below
from tests.model.oracle import Answer, Call, Oracle
from tests.model.streams import Asked


class SkipsTheVersionCheck(Oracle):
    def held_task(self, data: Json, call: Call, *, of_generation: bool = False) -> Task:
        task = self.task_or_404(fields.identifier(data, "id"))
        if task.state != "acquired" or not self.live(task.id, call.now):
            raise Refused(409, "not held", "HF1201")
        return task


class WakesAnAwaiterPastItsOwnDeadline(Oracle):
    def resume(self, task: Task, awaited: str, now: int) -> None:
        if task.state == "suspended" and not self.live(task.id, now):
            task.resumes = 1
            self.enter_pending(task, now)
        else:
            super().resume(task, awaited, now)


class LosesAListener(Oracle):
    def settle(self, promise: Promise, state: str, value: Json, settled_at: int, now: int) -> None:
        for address in list(promise.listeners)[1:]:
            del promise.listeners[address]
        super().settle(promise, state, value, settled_at, now)


class RaisesTheVersionOnRelease(Oracle):
    def task_release(self, data: Json, call: Call) -> Answer:
        answer = super().task_release(data, call)
        self.tasks[data["id"]].version += 1
        return answer


class KeepsResumesThroughAnAcquire(Oracle):
    def acquire(self, task: Task, pid: str, ttl: int, now: int) -> None:
        resumes = task.resumes
        super().acquire(task, pid, ttl, now)
        task.resumes = resumes


class RegistersCallbacksOnA300(Oracle):
    def task_suspend(self, data: Json, call: Call) -> Answer:
        status, answer = super().task_suspend(data, call)
        for action in data["actions"] if status == 300 else ():
            awaited = self.promises[action["data"]["awaited"]]
            if self.live(awaited.id, call.now) and data["id"] not in awaited.callbacks:
                awaited.callbacks.append(data["id"])
        return status, answer


class RefreshesLeasesOfOthers(Oracle):
    def task_heartbeat(self, data: Json, call: Call) -> Answer:
        fields.identifier(data, "pid")
        holders = [task.pid for task in self.tasks.values() if task.pid is not None]
        return super().task_heartbeat({**data, "pid": holders[0]} if holders else data, call)


class HeartbeatsTheDead(Oracle):
    """Refreshes the lease of a task whose promise is past its deadline."""

    def task_heartbeat(self, data: Json, call: Call) -> Answer:
        status, answer = super().task_heartbeat(data, call)
        for task in self.tasks.values():
            if task.pid == data["pid"] and task.ttl is not None and not self.live(task.id, call.now):
                task.lease_at = call.now + task.ttl
        return status, answer


class OffersATimer(Oracle):
    def enter_pending(self, task: Task, now: int, park_until: int | None = None) -> None:
        super().enter_pending(task, now, park_until)
        if self.promises[task.id].timer:
            self.offer(task)


class IgnoresTheDelay(Oracle):
    def add(
        self, promise: Promise, dialect: str, now: int, delay: int | None = None, version: int = 0
    ) -> None:
        super().add(promise, dialect, now, None, version)


class StoresALateSettlement(Oracle):
    def live(self, promise_id: str, now: int) -> bool:
        return self.promises[promise_id].state == "pending"


class ContinuesInSilence(Oracle):
    def task_continue(self, data: Json, call: Call) -> Answer:
        message = self.messages.get(("execute", str(data.get("id"))))
        answer = super().task_continue(data, call)
        if message is not None:
            self.messages["execute", data["id"]] = message
        else:
            self.messages.pop(("execute", data["id"]), None)
        return answer


class ClaimsTheOldestFirst(Oracle):
    def task_claim(self, data: Json, call: Call) -> Answer:
        kept = {promise.id: promise.tags for promise in self.promises.values()}
        for promise in self.promises.values():
            promise.tags = {tag: text for tag, text in promise.tags.items() if tag != fields.PRIORITY}
        try:
            _, answer = super().task_claim(data, call)
        finally:
            for promise in self.promises.values():
                promise.tags = kept[promise.id]
        return 200, {
            "tasks": [
                self.acquired_answer(self.tasks[t["task"]["id"]], call)
                | ({"lapsed": t["lapsed"]} if "lapsed" in t else {})
                for t in answer["tasks"]
            ]
        }


class ClaimsParkedTasks(Oracle):
    def task_claim(self, data: Json, call: Call) -> Answer:
        for task in self.tasks.values():
            task.parked = False
        return super().task_claim(data, call)


class NeverParksABounce(Oracle):
    def task_release(self, data: Json, call: Call) -> Answer:
        task = self.tasks.get(str(data.get("id")))
        if task is not None:
            task.bounces = 0
        return super().task_release(data, call)


class SweepsOnlyTargets(Oracle):
    def somebody_depends_on(self, promise: Promise) -> bool:
        return promise.id in self.tasks


class ForgetsTheCreateKey(Oracle):
    def existing(self, new: Promise) -> Promise | None:
        return self.promises.get(new.id)


class SchedulesOverlap(Oracle):
    def fire(self, schedule: Schedule, occurrence: int, now: int) -> None:
        overlap, schedule.overlap = schedule.overlap, None
        super().fire(schedule, occurrence, now)
        schedule.overlap = overlap


class SkipsNoMissedRun(Oracle):
    def run_schedule(self, schedule: Schedule, now: int) -> None:
        catch_up, schedule.catch_up = schedule.catch_up, None
        super().run_schedule(schedule, now)
        schedule.catch_up = catch_up


class CatchesUpWithoutBeingAsked(Oracle):
    def run_schedule(self, schedule: Schedule, now: int) -> None:
        catch_up, schedule.catch_up = schedule.catch_up, schedule.catch_up or 1
        super().run_schedule(schedule, now)
        schedule.catch_up = catch_up


class ResumesWithWhatWasMissed(Oracle):
    def schedule_pause(self, data: Json, call: Call) -> Answer:
        schedule = self.schedules.get(str(data.get("id")))
        paused_at = schedule.paused_at if schedule is not None else None
        answer = super().schedule_pause(data, call)
        if schedule is not None and paused_at is not None and schedule.paused_at is None:
            schedule.next_run_at = fields.next_occurrence(schedule.cron, schedule.timezone, paused_at) or 0
        return answer


class ChangesTheRhythmOfWhatIsDue(Oracle):
    def schedule_update(self, data: Json, call: Call) -> Answer:
        self.run_what_is_due = lambda schedule, now: None  # type: ignore[method-assign]
        try:
            return super().schedule_update(data, call)
        finally:
            del self.run_what_is_due


class TriggersInSilence(Oracle):
    def schedule_trigger(self, data: Json, call: Call) -> Answer:
        schedule = self.schedules.get(str(data.get("id")))
        before = None if schedule is None else schedule.last_run_at
        answer = super().schedule_trigger(data, call)
        if schedule is not None:
            schedule.last_run_at = before
        return answer


class BackfillsInThePast(Oracle):
    def add_run(self, schedule: Schedule, promise_id: str, occurrence: int, now: int) -> None:
        instant = promise_id.rpartition(".")[2]
        super().add_run(schedule, promise_id, int(instant) if instant.isdigit() else occurrence, now)


class SearchesWhatIsStored(Oracle):
    def promise_search(self, data: Json, call: Call) -> Answer:
        return super().promise_search(data, Call(0, call.dialect, call.version, call.corr_id, None))


class RefusesARepeatedAcquire(Oracle):
    def acquire(self, task: Task, pid: str, ttl: int, now: int) -> None:
        if task.state == "acquired":
            raise Refused(409, "taken", "HF1201")
        super().acquire(task, pid, ttl, now)

    def task_acquire(self, data: Json, call: Call) -> Answer:
        task = self.tasks.get(str(data.get("id")))
        if task is not None:
            task.acquired_by = None
        return super().task_acquire(data, call)


class StartsAgain(Oracle):
    def task_start(self, data: Json, call: Call) -> Answer:
        task = self.tasks.get(str(data.get("id")))
        started_at = task.started_at if task is not None else None
        status, _ = super().task_start(data, call)
        held = self.tasks[data["id"]]
        held.started_at = call.now if started_at is not None else held.started_at
        return status, {"task": self.show_task(held, call.now)}


class DropsRegistrationsOfTheSettled(Oracle):
    """A settled awaiter's callbacks on other promises are removed at once."""

    def settle(self, promise: Promise, state: str, value: Json, settled_at: int, now: int) -> None:
        super().settle(promise, state, value, settled_at, now)
        for other in self.promises.values():
            if promise.id in other.callbacks:
                other.callbacks.remove(promise.id)


class SpeaksOneDialect(Oracle):
    def offer(self, task: Task) -> None:
        dialect, task.dialect = task.dialect, "A"
        super().offer(task)
        task.dialect = dialect


class LosesBufferedResumes(Oracle):
    def resume(self, task: Task, awaited: str, now: int) -> None:
        if task.state != "halted":
            super().resume(task, awaited, now)


class LapsesADeadTask(Oracle):
    """The lease of a task is lapsed before its promise's deadline is looked at."""

    def sweep(self, now: int) -> None:
        for task in list(self.tasks.values()):
            if task.lease_at is not None and task.lease_at <= now:
                task.started_at = None
                pid = task.pid
                self.enter_pending(task, now)
                task.lapsed = pid
        super().sweep(now)


class KeepsTheLastReason(Oracle):
    """A task that is halted again takes the second reason."""

    def task_halt(self, data: Json, call: Call) -> Answer:
        answer = super().task_halt(data, call)
        task = self.tasks[data["id"]]
        if data.get("reason") is not None and task.halted is not None:
            task.halted["reason"] = task.error = data["reason"]
        return answer


class ForgetsWhoseLeaseLapsed(Oracle):
    def offer(self, task: Task) -> None:
        super().offer(task)
        task.lapsed = None


class ForgetsWhoTookOver(Oracle):
    """Who takes up an execution after its lease lapsed is not remembered."""

    def acquire(self, task: Task, pid: str, ttl: int, now: int) -> None:
        lost, task.lost = task.lost, []
        super().acquire(task, pid, ttl, now)
        task.lost = lost


class GivesANumberTwice(Oracle):
    """The count is not raised when an element was awaited."""

    def append(self, asked: Asked, fence: Task | None, call: Call) -> Json:
        before = {**self.streams.get(asked.id, {"counts": {}})["counts"]}
        known = len(self.promises)
        answer = super().append(asked, fence, call)
        if asked.key is None and len(self.promises) == known and asked.stream in before:
            self.streams[asked.id]["counts"] = before
        return answer


class IgnoresTheKey(Oracle):
    def append(self, asked: Asked, fence: Task | None, call: Call) -> Json:
        asked.key = None
        return super().append(asked, fence, call)


class ForgetsToWakeForAnElement(Oracle):
    def check_mailbox(self, execution: Promise, stream: str, number: int, size: int) -> None:
        super().check_mailbox(execution, stream, number, size)
        awaited = self.promises.get(self.element(execution, stream, number))
        if awaited is not None:
            awaited.callbacks = []


class AppendsAfterTheEnd(Oracle):
    def append(self, asked: Asked, fence: Task | None, call: Call) -> Json:
        promise = self.promises.get(asked.id)
        if asked.id not in self.tasks or promise is None or self.live(asked.id, call.now):
            return super().append(asked, fence, call)
        kept = promise.state, promise.timeout_at
        promise.state, promise.timeout_at = "pending", fields.INSTANT_MAX
        try:
            return super().append(asked, fence, call)
        finally:
            promise.state, promise.timeout_at = kept


class EmitsWithoutAClaim(Oracle):
    def owns(self, fence: Task | None, execution: Promise) -> bool:
        return True


class ForgetsADependent(Oracle):
    def end_dependent(self, promise: Promise, now: int, ended: str = "") -> None:
        if "holdfast:answer" in promise.tags:
            super().end_dependent(promise, now, ended)


class KeepsCountingAnAnsweredQuestion(Oracle):
    def leave_execution(self, promise: Promise) -> None:
        record = self.streams.get(promise.tags.get("holdfast:dependent", ""))
        kept = None if record is None else record["openAnswers"]
        super().leave_execution(promise)
        if record is not None:
            record["openAnswers"] = kept


class BelievesWhereAnAnswerIsWanted(Oracle):
    """A message may name a promise that its reader is to settle."""

    def with_answer(self, value: Json, answer: str | None) -> Json:
        return value if answer is None else super().with_answer(value, answer)


class ReadsWhateverAnybodyReads(Oracle):
    """Who only looks counts as the reader of the mailbox."""

    def next_element(
        self, execution_id: str, stream: str, number: int, peek: bool, fence: Task | None, call: Call
    ) -> Json:
        return super().next_element(execution_id, stream, number, peek, self.tasks.get(execution_id), call)


class AwaitsWhatIsPeekedAt(Oracle):
    """Who only peeks is given a promise to wait for."""

    def next_element(
        self, execution_id: str, stream: str, number: int, peek: bool, fence: Task | None, call: Call
    ) -> Json:
        return super().next_element(execution_id, stream, number, False, fence, call)


class OverwritesWhatOthersWrote(Oracle):
    def next_free(self, execution: Promise, stream: str, now: int) -> int:
        super().next_free(execution, stream, now)
        return self.count(execution, stream) + 1


class FindsTheOldestFirst(Oracle):
    def executions_wanted(self, data: Json, scope: str | None) -> tuple[tuple[str, ...], list[Task]]:
        statuses, found = super().executions_wanted(data, scope)
        return statuses, found[::-1]


class ShowsADeadlineLate(Oracle):
    def execution_search(self, data: Json, call: Call) -> Answer:
        return super().execution_search(data, Call(0, call.dialect, call.version, call.corr_id, None))


class FindsEveryCode(Oracle):
    def code_of(self, task: Task) -> str | None:
        return "BROKEN"


class KeepsWhatItWaitedFor(Oracle):
    def status_of(self, task: Task, now: int | None) -> str:
        status = super().status_of(task, now)
        return "suspended" if status == "pending" and task.waits else status


class ForgetsTheDeadlineOfARetry(Oracle):
    def begin_again(self, promise: Promise, deadline: int, now: int) -> None:
        held = {name: promise.tags[name] for name in promise.tags if name == fields.GRACE}
        for name in held:
            del promise.tags[name]
        super().begin_again(promise, deadline, now)
        promise.tags.update(held)


class TellsAtTheTimeout(Oracle):
    """Whoever is to clean up within the grace is told when it is over."""

    def set_deadline(self, promise: Promise, now: int) -> None:
        super().set_deadline(promise, now)
        asked = self.promises.get(f"{below(promise.id)}cancel")
        if asked is not None and asked.timer and asked.state == "pending":
            asked.timeout_at = promise.timeout_at


class LeavesWhatWasCalledByName(Oracle):
    """Whoever is ended at once ends what lies below it, and nothing else."""

    def has_called(self, caller: str, name: str) -> bool:
        return name.startswith(below(caller)) and super().has_called(caller, name)


class EndsWhatOthersHaveCalled(Oracle):
    def has_called(self, caller: str, name: str) -> bool:
        named = "holdfast:caller" in self.promises[name].tags and self.may_have_called(caller, name)
        return named or super().has_called(caller, name)


MUTANTS: tuple[type[Oracle], ...] = (
    LeavesWhatWasCalledByName,
    EndsWhatOthersHaveCalled,
    SkipsTheVersionCheck,
    WakesAnAwaiterPastItsOwnDeadline,
    LosesAListener,
    RaisesTheVersionOnRelease,
    KeepsResumesThroughAnAcquire,
    RegistersCallbacksOnA300,
    RefreshesLeasesOfOthers,
    HeartbeatsTheDead,
    OffersATimer,
    IgnoresTheDelay,
    StoresALateSettlement,
    ContinuesInSilence,
    ClaimsTheOldestFirst,
    ClaimsParkedTasks,
    NeverParksABounce,
    SweepsOnlyTargets,
    ForgetsTheCreateKey,
    SchedulesOverlap,
    SkipsNoMissedRun,
    CatchesUpWithoutBeingAsked,
    ResumesWithWhatWasMissed,
    ChangesTheRhythmOfWhatIsDue,
    TriggersInSilence,
    BackfillsInThePast,
    SearchesWhatIsStored,
    RefusesARepeatedAcquire,
    StartsAgain,
    DropsRegistrationsOfTheSettled,
    SpeaksOneDialect,
    LosesBufferedResumes,
    LapsesADeadTask,
    ForgetsWhoTookOver,
    KeepsTheLastReason,
    ForgetsWhoseLeaseLapsed,
    GivesANumberTwice,
    IgnoresTheKey,
    ForgetsToWakeForAnElement,
    AppendsAfterTheEnd,
    EmitsWithoutAClaim,
    ForgetsADependent,
    KeepsCountingAnAnsweredQuestion,
    BelievesWhereAnAnswerIsWanted,
    ReadsWhateverAnybodyReads,
    AwaitsWhatIsPeekedAt,
    OverwritesWhatOthersWrote,
    FindsTheOldestFirst,
    ShowsADeadlineLate,
    FindsEveryCode,
    KeepsWhatItWaitedFor,
    ForgetsTheDeadlineOfARetry,
    TellsAtTheTimeout,
)
