"""`/v1/executions/{id}/messages`: telling and asking an execution by HTTP alone, and what became of it.

1. A message is the body of its request, as JSON, so that a webhook can be pointed here. It is sent once
   under its key, and durable when it is answered.
2. A question is a message whose answer is waited for. Who was cut off asks again under the same key, and
   waits for the same answer.
"""

import secrets
from typing import Any, Final, cast

from holdfast.protocol.errors import ExecutionOver, unanswered
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.plain_json import encode_plain
from holdfast.protocol.records import Value
from holdfast.protocol.requests import (
    PromiseGet,
    StreamAnswer,
    StreamAppend,
    StreamList,
    StreamRead,
)
from holdfast.protocol.set_aside import message_of, set_aside_search
from holdfast.protocol.streams import ANSWER_HEADER, ASIDE, MAILBOX, answer_id, key_id, number_of
from holdfast.server.errors import AnswerRefused, BadManagementRequest, NoAnswerInTime
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import headers_of, show_value, show_whole

default_ask_s: Final = 30.0
ask_s_max: Final = 300.0
said_chars_max: Final = 1_000


async def send(call: Call) -> Json:
    """The body is the message. With `ask` the answer is waited for."""
    key = call.header(b"idempotency-key") if call.text("key") is None else call.text("key")
    if key == "":
        raise BadManagementRequest("The key is empty: give one, or none for a message that is always sent")
    try:
        value = encode_plain(call.content)
    except ValueError as error:
        raise BadManagementRequest(f"The message cannot be stored: {error}") from None
    if not call.flag("ask"):
        if call.text("timeout") is not None:
            raise BadManagementRequest("timeout is how long to wait for an answer, so it needs ask=true")
        told = await call.ask(StreamAppend(call.id, MAILBOX, value, key or _fresh_key()))
        return {"id": told["promise"]["id"], "number": told["number"]}
    call.content = None  # an answer may take long
    return await call.until_gone(_ask(call, value, key or _fresh_key()))


async def _ask(call: Call, message: Value, key: str) -> Json:
    limit_s = call.seconds("timeout", default_ask_s)
    if limit_s > ask_s_max:
        raise BadManagementRequest(f"timeout is {limit_s:g} s, and the limit is {ask_s_max:g}")
    name = answer_id(key_id(call.id, MAILBOX, key))
    wanted = StreamAnswer(call.now() + round(limit_s * 1_000), name)
    told = await call.ask(StreamAppend(call.id, MAILBOX, message, key, wanted))
    answer = told.get("answer")
    if answer is None:
        raise BadManagementRequest(
            f"The message under the key {key!r} was sent by tell, not by ask, so it has no answer"
        )
    if answer["state"] == "pending":
        await call.services.settled(answer["id"])
        answer = await call.ask_for("promise", PromiseGet(answer["id"]))
    if answer["state"] in ("pending", "rejected_timedout"):
        raise NoAnswerInTime(f"{call.id} gave no answer within {limit_s:g} s")
    if headers_of(answer["value"]).get(CODE_HEADER) == ExecutionOver.code:
        raise ExecutionOver(call.id, unanswered)
    shown = show_value(answer["value"])
    if answer["state"] != "resolved":
        raise AnswerRefused(f"{call.id} refused the message: {_said(shown)}")
    return {"id": told["promise"]["id"], "number": told["number"], "answer": shown}


async def find(call: Call) -> Json:
    """A page of what it was sent, in its order: what of it was read, answered and set aside."""
    if call.flag("setAside"):
        return await _set_aside(call)
    reading = StreamRead(call.id, MAILBOX, call.integer("after"), call.integer("limit"))
    page, streams = await call.ask_all([reading, StreamList(call.id)])
    read: int = streams["read"]
    shown = [_message(promise, read) for promise in page["promises"]]
    wanted = [(each, name, of) for each in shown for name, of in _more_of(each)]
    found = await call.replies([PromiseGet(of) for _, _, of in wanted]) if wanted else []
    for (message, name, _), reply in zip(wanted, found, strict=True):
        if reply.get("head", {}).get("status") == 200:
            promise = reply["data"]["promise"]
            message[name] = {"state": promise["state"], "value": show_value(promise["value"])}
    for message in shown:
        message.pop("answerId", None)
    return {"messages": shown, "count": page["count"], "read": read, "over": page["over"]}


async def _set_aside(call: Call) -> Json:
    """Only those that could not be read as what the code asked for, and why; a page may be short or empty."""
    if call.integer("after") is not None:
        raise BadManagementRequest("with setAside=true use cursor, not after")
    await call.ask(StreamList(call.id))
    page = await call.ask(set_aside_search(call.id, call.integer("limit"), call.text("cursor")))
    shown = [
        {"id": of, "number": number_of(of), "error": show_value(each["value"])}
        for each in page["promises"]
        if (of := message_of(each["id"]))
    ]
    return {"messages": shown, "cursor": page.get("cursor")}


def _message(promise: Json, read: int) -> Json:
    number = number_of(promise["id"])
    answer = headers_of(promise["value"]).get(ANSWER_HEADER)
    shown: Json = {
        "id": promise["id"],
        "number": number,
        "value": show_whole(promise["value"]),
        "sentAt": promise["settledAt"],
        "read": number <= read,
        "question": answer is not None,
    }
    return shown if answer is None else shown | {"answerId": answer}


def _more_of(message: Json) -> list[tuple[str, str]]:
    """What else is recorded of a message, and under which id."""
    more = [("setAside", f"{message['id']}{ASIDE}")]
    if message["question"]:
        more.append(("answer", message["answerId"]))
    return more


def _fresh_key() -> str:
    return secrets.token_hex(12)


def _said(failure: Any) -> str:
    """What an error says that was stored as every SDK stores it."""
    fields = cast("Json", failure) if isinstance(failure, dict) else {"message": failure}
    return str(fields.get("message", fields))[:said_chars_max]
