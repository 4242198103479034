"""Encodes requests as JSON, decodes replies and messages: the counterpart of `protocol.wire`.

A reply's data is decoded by the kind of the request it answers, so that callers get the same structs from
a node far away as from one in their own process. A refusal's code is a field of the head. Older servers
write it only into the sentence: it is read from there in `_code_in`, and nowhere else.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from holdfast.client.errors import BadReply
from holdfast.protocol import replies
from holdfast.protocol.messages import Execute, Message, Unblock
from holdfast.protocol.records import Promise, TaskRef
from holdfast.protocol.replies import Envelope, FenceReply, Reply, ReplyHead
from holdfast.protocol.requests import Request, RequestData


class _RequestHead(Struct, frozen=True, omit_defaults=True):
    corr_id: str = field(name="corrId")
    version: str
    auth: str | None = None
    debug_time: int | None = field(name="resonate:debug_time", default=None)


class _Request(Struct, frozen=True):
    kind: str
    head: _RequestHead
    data: RequestData


class _Reply(Struct, frozen=True):
    kind: str
    head: ReplyHead
    data: Raw


class _PlainRefusal(Struct, frozen=True):
    """What a server says that has not read the request."""

    error: str
    code: str | None = None


class _Fence(Struct, frozen=True):
    action: _Reply
    preload: list[Promise]


class _Data(Struct, frozen=True):
    """The data of every kind of message."""

    task: TaskRef | None = None
    promise: Promise | None = None


class _Message(Struct, frozen=True):
    kind: str
    data: _Data


_kinds: Final[dict[Any, str]] = {
    replies.PromiseReply: "promise.get promise.create promise.settle promise.register_callback "
    "promise.register promise.register_listener promise.subscribe task.fulfill task.restart schedule.trigger "
    "lock.acquire event.await execution.start execution.cancel execution.retry execution.fork",
    replies.PromisesReply: "promise.search",
    replies.TaskReply: "task.get task.start task.fail task.cancel task.snooze task.reschedule",
    replies.TaskCreateReply: "task.create",
    replies.AcquireReply: "task.acquire",
    replies.ClaimReply: "task.claim",
    replies.HeartbeatReply: "task.heartbeat",
    replies.TasksReply: "task.search",
    replies.ScheduleReply: "schedule.get schedule.create schedule.update schedule.pause",
    replies.BackfillReply: "schedule.backfill",
    replies.SchedulesReply: "schedule.search",
    replies.QueueReply: "queue.get queue.set queue.pause",
    replies.QueuesReply: "queue.search",
    replies.ExecutionReply: "execution.get",
    replies.ExecutionsReply: "execution.search",
    replies.CountsReply: "execution.count",
    replies.SnapReply: "debug.snap",
    replies.Empty: "task.release task.suspend task.halt task.continue schedule.delete debug.start debug.stop "
    "event.subscribe event.unsubscribe execution.tag "
    "debug.reset",
    replies.StreamAppendReply: "stream.append",
    replies.StreamReply: "stream.next stream.read",
    replies.StreamsReply: "stream.list",
    replies.EventReply: "event.send",
    replies.EventsReply: "event.search",
    replies.LockReply: "lock.get lock.release",
    replies.LocksReply: "lock.search",
    _Fence: "task.fence",
    list[Any]: "debug.tick",
}

_code_at_end: Final = re.compile(r"\[(HF\d{4})\]$")
_encoder: Final = msgspec.json.Encoder()
_decoders: Final = {
    kind: msgspec.json.Decoder(shape) for shape, kinds in _kinds.items() for kind in kinds.split()
}
_preload_decoder: Final = msgspec.json.Decoder(replies.PreloadReply)
_replies_decoder: Final = msgspec.json.Decoder(list[_Reply])
_reply_decoder: Final = msgspec.json.Decoder(_Reply)
_plain_decoder: Final = msgspec.json.Decoder(_PlainRefusal)
_message_decoder: Final = msgspec.json.Decoder(_Message)


def encode_request(request: Request) -> bytes:
    head = _RequestHead(request.corr_id, request.version, request.auth, request.debug_time)
    return _encoder.encode(_Request(request.kind, head, request.data))


def decode_replies(requests: Sequence[Request], body: bytes) -> list[Reply]:
    """The replies to an array of requests. A single envelope, a refusal, stands for all of them."""
    try:
        if not body.lstrip().startswith(b"["):
            refusal = _reply_decoder.decode(body)
            if refusal.head.status < 400:
                raise BadReply("Expected an array of replies, got one reply")
            return [_refusal(refusal)] * len(requests)
        found = _replies_decoder.decode(body)
        if len(found) != len(requests):
            raise BadReply(f"Expected {len(requests)} replies, got {len(found)}")
        return [_decode(request, reply) for request, reply in zip(requests, found, strict=True)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadReply(f"The answer is not what a node sends: {error}") from error


def _decode(request: Request, reply: _Reply) -> Reply:
    status = reply.head.status
    if status >= 400:
        return _refusal(reply)
    if reply.head.corr_id != request.corr_id or reply.kind != request.kind:
        raise BadReply(f"Expected a reply to {request.kind!r}, got one to {reply.kind[:80]!r}")
    if status == 300:
        return Reply(status, _preload_decoder.decode(reply.data))
    data = _decoders[request.kind].decode(reply.data)
    if isinstance(data, _Fence):
        return Reply(status, FenceReply(_action(data.action), data.preload))
    return Reply(status, data)


def _action(action: _Reply) -> Envelope:
    """What a fence did: the reply inside the reply."""
    if action.head.status >= 400:
        inner = _refusal(action)
        return Envelope(action.kind, replace(action.head, code=inner.code), inner.data)
    return Envelope(action.kind, action.head, _decoders[action.kind].decode(action.data))


def _refusal(reply: _Reply) -> Reply:
    said = msgspec.json.decode(reply.data)
    sentence = said if isinstance(said, str) else bytes(reply.data).decode()
    return Reply(reply.head.status, sentence, reply.head.code or _code_in(sentence))


def _code_in(sentence: str) -> str | None:
    """The code of an older server's refusal."""
    found = _code_at_end.search(sentence)
    return None if found is None else found[1]


def decode_plain_refusal(status: int, body: bytes) -> Reply:
    """Of a server, or of what stands before it, without an envelope."""
    try:
        plain = _plain_decoder.decode(body)
        return Reply(status, plain.error, plain.code or _code_in(plain.error))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Reply(status, f"HTTP {status} from a proxy in front of the node")


def decode_message(body: bytes, address: str) -> Message | None:
    """A message, or None for a kind that this version does not know: newer nodes may send more."""
    message = _message_decoder.decode(body)
    task, promise = message.data.task, message.data.promise
    match message.kind:
        case "execute" if task:
            return Execute(address, task, "A", woken=False)
        case "invoke" | "resume" if task:
            return Execute(address, task, "B", woken=message.kind == "resume")
        case "unblock" | "notify" if promise:
            return Unblock(address, promise, "A" if message.kind == "unblock" else "B")
        case _:
            return None
