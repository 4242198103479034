"""Bytes in, bytes out: the protocol without a transport."""

from collections.abc import Iterator

from holdfast.node.node import Node
from holdfast.protocol.replies import Envelope, Reply
from holdfast.protocol.requests import Request
from holdfast.protocol.wire import RefusedRequest, decode_body, encode_replies, encode_reply, refuse, to_reply


async def answer(node: Node, body: bytes) -> bytes:
    """Answer one envelope, or an array of them. Whatever the bytes are, the answer is a reply."""
    decoded = decode_body(body)
    if isinstance(decoded, list):
        return encode_replies(await answer_all(node, decoded))
    [envelope] = await answer_all(node, [decoded])
    return encode_reply(envelope)


async def answer_all(node: Node, items: list[Request | RefusedRequest]) -> list[Envelope]:
    """What could not be read is refused in its place; the rest is applied in one commit."""
    requests = [item for item in items if isinstance(item, Request)]
    replies = iter(await node.request(requests) if requests else ())
    return [reply_to(item, replies) for item in items]


def reply_to(item: Request | RefusedRequest, replies: Iterator[Reply]) -> Envelope:
    """The reply to one item: its refusal, or the next of the node's replies."""
    reply = refuse(item.refusal) if isinstance(item, RefusedRequest) else next(replies)
    return to_reply(item.kind, item.corr_id, item.version, reply)
