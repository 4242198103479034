"""The bytes of an answer, and no more of them than a server should have to keep.

1. A page of a search ends early where it becomes too large; its cursor goes on from there.
2. Of an array, what comes after `answer_bytes_max` is left out, if its request may be repeated. All requests
   were carried out by then: whoever repeats one is answered as if for the first time.
3. What may not be repeated is answered whatever the size: nobody could ask for it again. So is a fence, which
   can be repeated only as long as the claim is held.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from holdfast.protocol.errors import AnswerTooLarge
from holdfast.protocol.records import Promise, Schedule
from holdfast.protocol.repeatable import repeatable_kinds
from holdfast.protocol.replies import Envelope, PromisesReply, SchedulesReply
from holdfast.protocol.wire import encode_replies, refuse, to_reply

answer_bytes_max: Final = 32 * 1024 * 1024
# So many replies are made bytes at once; the limit is looked at in between.
stretch_envelopes: Final = 32
few_entries: Final = 12

_refusal: Final = AnswerTooLarge(f"The answers before this one have more than {answer_bytes_max} bytes")


def encode_array(envelopes: list[Envelope], bytes_max: int = answer_bytes_max) -> bytes:
    if len(envelopes) <= stretch_envelopes:
        return encode_replies(envelopes)
    parts: list[bytes] = []
    size = 0
    for start in range(0, len(envelopes), stretch_envelopes):
        stretch = envelopes[start : start + stretch_envelopes]
        if size > bytes_max:
            stretch = [*map(_leave_out, stretch)]
        parts.append(encode_replies(stretch)[1:-1])
        size += len(parts[-1])
    return b"[%s]" % b",".join(parts)


def _leave_out(envelope: Envelope) -> Envelope:
    if envelope.kind not in repeatable_kinds or envelope.kind == "task.fence":
        return envelope
    return to_reply(envelope.kind, envelope.head.corr_id, envelope.head.version, refuse(_refusal))


def shorten_page(envelope: Envelope, bytes_max: int = answer_bytes_max) -> Envelope:
    """The page of a search, if that is what it is, up to where it becomes too large."""
    page = envelope.data
    if isinstance(page, PromisesReply):
        count = _fitting(map(_promise_bytes, page.promises), bytes_max)
        if count < len(page.promises):
            kept = page.promises[:count]
            return replace(envelope, data=PromisesReply(kept, kept[-1].id))
    elif isinstance(page, SchedulesReply):
        count = _fitting(map(_schedule_bytes, page.schedules), bytes_max)
        if count < len(page.schedules):
            some = page.schedules[:count]
            return replace(envelope, data=SchedulesReply(some, some[-1].id))
    return envelope


def _fitting(sizes: Iterable[int], bytes_max: int) -> int:
    """How many fit, and at least one."""
    total = count = 0
    for size in sizes:
        total += size
        if count and total > bytes_max:
            break
        count += 1
    return count


# Counting costs time on every page: a few tags or headers are never what makes one too large.
def _promise_bytes(promise: Promise) -> int:
    param, value, entries = promise.param, promise.value, promise.tags
    size = len(param.data or "") + len(value.data or "")
    for some in (entries, param.headers, value.headers):
        if some and len(some) > few_entries:
            size += _entry_bytes(some)
    return size


def _schedule_bytes(schedule: Schedule) -> int:
    param = schedule.promise_param
    return len(param.data or "") + _entry_bytes(schedule.promise_tags) + _entry_bytes(param.headers or {})


def _entry_bytes(entries: dict[str, str]) -> int:
    return sum(map(len, entries)) + sum(map(len, entries.values()))
