"""One send, checked and encoded, before it leaves the process.

1. Arguments are read back as the function's annotations say, so that a wrong one is found here and not by a
   worker later.
2. `sent_at` is when the caller called.
3. The fingerprint covers the name and the arguments. Under an id of the caller's choosing it tells a
   repetition, which is fine, from something else, which is a PAYLOAD_MISMATCH.
4. Each send under such an id is marked, so that whoever repeats it learns that it was there already. A send
   that is only asked again, because its answer was lost, has the same mark.
"""

import itertools
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.jobs.codes import SendCode
from holdfast.jobs.options import SendOptions
from holdfast.jobs.task import AnyTask
from holdfast.payloads.errors import WorkerError
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import signature_of
from holdfast.protocol import limits, tags
from holdfast.protocol.ids import new_id
from holdfast.protocol.jobs import JobSpec, queue_group
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import PromiseCreate
from holdfast.protocol.reruns import rerun_of
from holdfast.steps.hooks import Hooks, with_headers
from holdfast.steps.middleware import Entered
from holdfast.steps.providers import Providers

_counter: Final = itertools.count()


class SendError(Struct, frozen=True):
    """Why a task was not sent. After ENQUEUE_FAILED it may have been; sending it again is safe."""

    code: SendCode
    message: str
    task_id: str | None = None
    retryable: bool = False

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ClockReading(Struct, frozen=True):
    """What the node's clock shows. `ticks`: it is a guess, made when a count that nobody can set stood there.

    Before the first answer of a node its clock is not known, and the machine's own may be wrong.
    """

    now: int
    ticks: int | None = None


class SendRequest(Struct, frozen=True):
    """Ready to be sent: the promise to create, and how to read what becomes of it."""

    creation: PromiseCreate
    task: AnyTask | None
    guess: ClockReading | None = None  # its instants were reckoned by this, and are to be corrected
    begins_at_instant: bool = False  # the caller named it, so no clock changes it
    entered: Entered | None = None  # the middlewares around the send

    def is_for(self, promise: Promise) -> bool:
        """Is this promise what the order asks for? An id may have been used for something else before."""
        found, asked = promise.tags, self.creation.tags
        return found is asked or all(
            found.get(key) == asked.get(key) for key in (tags.TASK, tags.FINGERPRINT)
        )

    def made(self, promise: Promise) -> bool:
        """Did this order bring the promise about? Another with the same key or id may have been first."""
        creation = self.creation
        return promise.id == creation.id and promise.tags.get(tags.SENDING) == creation.tags.get(tags.SENDING)


def corrected(order: SendRequest, now: int, ticks: int) -> SendRequest:
    """The same order with its instants by the node's clock, which shows `now` when the count is `ticks`."""
    guess = order.guess
    if guess is None or guess.ticks is None:
        return order
    creation = order.creation
    late_ms = now - (ticks - guess.ticks) - guess.now  # how much the guess was behind
    entries = {**creation.tags}
    if tags.DELAY in entries and not order.begins_at_instant:
        entries[tags.DELAY] = str(min(int(entries[tags.DELAY]) + late_ms, limits.instant_ms_max - 1))
    spec = tags.job_of(entries)
    if spec is not None and spec.sent_at is not None:
        entries[tags.JOB] = msgspec.json.encode(replace(spec, sent_at=spec.sent_at + late_ms)).decode()
    timeout_at = creation.timeout_at
    if timeout_at != limits.instant_ms_max:
        timeout_at = min(timeout_at + late_ms, limits.instant_ms_max)
    return SendRequest(
        replace(creation, timeout_at=timeout_at, tags=entries), order.task, entered=order.entered
    )


def job_tags(
    task: AnyTask,
    options: SendOptions,
    sent_at: int | None,
    queue_priority: int | None,
    good_for_ms: int | None = None,
) -> dict[str, str]:
    """Where a task goes and by which rules: all that is the same for every argument."""
    spec = JobSpec(
        sent_at=sent_at,
        good_until=options.good_until_ms,
        good_for=good_for_ms,
        retry=options.retry if options.has_retry else task.retry,
        key=options.limit_key,
        unique=options.key,
        on_unique=options.on_conflict,
    )
    entries = {
        **options.tags,
        tags.TARGET: f"poll://any@{queue_group(options.queue or task.queue)}",
        tags.JOB: msgspec.json.encode(spec).decode(),
        tags.TASK: task.name,
    }
    priority = next(
        (each for each in (options.priority, task.options.priority, queue_priority) if each is not None), 0
    )
    if options.time_limit_s is not None:
        entries[tags.TIME_LIMIT] = str(round(options.time_limit_s * 1000))
    if task.options.keep_ms is not None:
        entries[tags.KEEP] = str(task.options.keep_ms)
    if priority:
        entries[tags.PRIORITY] = str(priority)
    return entries


def make_orders(
    task: AnyTask,
    options: SendOptions,
    calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]],
    *,
    sent_at: int,
    queue_priority: int | None,
    payloads: Payloads,
    fresh: Callable[[], str],
    providers: Providers | None = None,
    hooks: Hooks | None = None,
) -> list[SendRequest | SendError]:
    """Calls of one task that are sent at one instant: what is the same for all of them is made once."""
    try:
        # It is the root of nothing: without an origin or a branch it is in two indexes less.
        common = job_tags(task, options, sent_at, queue_priority)
        supplied = frozenset[str]() if providers is None else providers.supplied_to(task.function, task.mode)
    except (WorkerError, ValueError) as error:
        return [_invalid(options.id or new_id(task.name, sent_at, fresh()), error) for _ in calls]
    if options.delay_ms:
        common[tags.DELAY] = str(min(sent_at + options.delay_ms, limits.instant_ms_max - 1))
    elif options.at_ms is not None:
        common[tags.DELAY] = str(min(options.at_ms, limits.instant_ms_max - 1))
    if options.id is not None:
        common[tags.SENDING] = fresh()
    timeout_at = limits.instant_ms_max if options.timeout_ms is None else sent_at + options.timeout_ms
    signature = signature_of(task.function)
    orders: list[SendRequest | SendError] = []
    for args, kwargs in calls:
        task_id = options.id or new_id(task.name, sent_at, fresh())
        entered = None
        if hooks is not None and (hooks.carried.variables or hooks.middlewares.around["send"]):
            entered = hooks.leaving("send", task.name, task_id, args, kwargs, payloads)
        if entered is not None:
            args, kwargs = entered.invocation.args, entered.invocation.kwargs
        try:
            param = payloads.encode_call(task.name, args, kwargs, 1, signature, supplied)
            if entered is not None:
                param = with_headers(param, entered.invocation.headers)
            entries = {**common, tags.FINGERPRINT: payloads.digest(args, kwargs) or ""}
            creation = PromiseCreate(task_id, timeout_at, param, entries)
            at_instant = options.at_ms is not None
            orders.append(SendRequest(creation, task, begins_at_instant=at_instant, entered=entered))
        except (WorkerError, ValueError) as error:
            if entered is not None:
                with suppress(type(error)):
                    entered.raised(error)
            orders.append(_invalid(task_id, error))
    return orders


def _invalid(task_id: str, error: WorkerError | ValueError) -> SendError:
    what = error.what if isinstance(error, WorkerError) else str(error)
    return SendError(SendCode.VALIDATION_FAILED, what, task_id)


def fresh_end() -> str:
    """The end of an id that nobody else has; those of one instant keep their order."""
    return f"{next(_counter) % 0x10000:04x}{secrets.token_hex(5)}"


def again(promise: Promise, now: int, end: str) -> PromiseCreate:
    """A promise for another go at the same, under a new id."""
    return rerun_of(promise, now, new_id(promise.tags.get(tags.TASK, "task"), now, end))
