"""The bytes of responses, and how many of them a server keeps at most.

1. A page of a search ends early where it becomes too large; its cursor goes on from there.
2. Of an array, what comes after `answer_bytes_max` is left out, if its request may be repeated. All requests
   were carried out by then: whoever repeats one is answered as if for the first time.
3. What may not be repeated is answered up to `answer_bytes_end`: nobody could ask for it again. So is a
   fence, which can be repeated only as long as the claim is held, and an append, which can be repeated only
   with a key. What comes after is as good as lost.
"""

from typing import Final

from msgspec.structs import replace

from holdfast.protocol.errors import AnswerTooLarge
from holdfast.protocol.repeatable import repeatable_kinds
from holdfast.protocol.replies import Envelope, PromisesReply, SchedulesReply
from holdfast.protocol.sizes import fitting, promise_bytes, schedule_bytes
from holdfast.protocol.wire import encode_reply, refuse, to_reply

answer_bytes_max: Final = 8 * 1024 * 1024
answer_bytes_end: Final = 4 * answer_bytes_max

_refusal: Final = AnswerTooLarge("The answers before this one have used up the room of the array")
_kinds_left_out: Final = repeatable_kinds - {"task.fence", "stream.append", "event.send"}


def encode_array(
    envelopes: list[Envelope], bytes_max: int = answer_bytes_max, bytes_end: int = answer_bytes_end
) -> bytes:
    parts: list[bytes] = []
    size = 0
    for envelope in envelopes:
        is_full = size > (bytes_max if envelope.kind in _kinds_left_out else bytes_end)
        parts.append(encode_reply(_leave_out(envelope) if is_full else envelope))
        size += len(parts[-1])
    if not parts:
        return b"[]"
    parts[0] = b"[" + parts[0]
    parts[-1] += b"]"
    return b",".join(parts)  # one copy of a large answer, not two


def _leave_out(envelope: Envelope) -> Envelope:
    return to_reply(envelope.kind, envelope.head.corr_id, envelope.head.version, refuse(_refusal))


def shorten_page(envelope: Envelope, bytes_max: int = answer_bytes_max) -> Envelope:
    """The page of a search, if that is what it is, up to where it becomes too large."""
    page = envelope.data
    if isinstance(page, PromisesReply):
        count = max(1, fitting(map(promise_bytes, page.promises), bytes_max))
        if count < len(page.promises):
            kept = page.promises[:count]
            return replace(envelope, data=PromisesReply(kept, kept[-1].id))
    elif isinstance(page, SchedulesReply):
        count = max(1, fitting(map(schedule_bytes, page.schedules), bytes_max))
        if count < len(page.schedules):
            some = page.schedules[:count]
            return replace(envelope, data=SchedulesReply(some, some[-1].id))
    return envelope
