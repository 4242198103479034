"""Mutants of streams: numbers, keys, wakes, ends, claims, dependents."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CONFORMANCE = "tests/conformance/test_streams.py -k memory"

STREAMS = (
    Mutant(
        "a number is given twice",
        "the numbers of a stream are given one after the other",
        "engine",
        "counts = {**streams.counts, data.stream: number}",
        "counts = {data.stream: number, **streams.counts}",
        _CONFORMANCE,
    ),
    Mutant(
        "a key is ignored",
        "under one key a stream has one element",
        "engine",
        "if data.key is not None and (first := _appended_before(...)) is not None:\n    return first",
        "if data.key == '' and (first := _appended_before(...)) is not None:\n    return first",
        _CONFORMANCE,
    ),
    Mutant(
        "an awaited element is written over instead of settled",
        "an append wakes whoever awaits the element",
        "engine",
        "if awaited is not None:\n    appended = settle(...)\nelse:\n    ...",
        "if awaited is not None and not awaited.tags:\n    appended = settle(...)\nelse:\n    ...",
        _CONFORMANCE,
    ),
    Mutant(
        "a message is taken after the end",
        "nothing is appended to an execution that is over",
        "engine",
        "if not is_open(task, now):\n    raise ExecutionOver(data.id)",
        'if task.state == "fulfilled" and task.timeout_at <= now:\n    raise ExecutionOver(data.id)',
        _CONFORMANCE,
    ),
    Mutant(
        "anybody emits",
        "only whoever holds the claim appends to the other streams",
        "engine",
        "if data.stream != MAILBOX and not _owns(fence, data.id, ws):\n    raise NotItsStream(...)",
        "if data.stream != MAILBOX and fence is not None and not _owns(fence, data.id, ws):\n"
        "    raise NotItsStream(data.stream)",
        _CONFORMANCE,
    ),
    Mutant(
        "a dependent is forgotten",
        "open answers and awaited elements end with their execution",
        "engine",
        "if dependents:\n    end_dependents(promise.id, dependents, ws, now)",
        "if dependents and ws.cleared:\n    end_dependents(promise.id, dependents, ws, now)",
        _CONFORMANCE,
    ),
    Mutant(
        "an answered question stays open",
        "a dependent that settles depends no more",
        "engine",
        "ws.remove_callback(execution_id, promise.id)",
        "None",
        _CONFORMANCE,
    ),
    Mutant(
        "a message may name a promise for its reader to settle",
        "only a question says where its answer is wanted",
        "engine",
        "headers = {name: text for name, text in ... if name != ANSWER_HEADER}\n"
        "if answer is not None:\n    ...",
        "headers = dict(value.headers or {})\nif answer is not None:\n    headers[ANSWER_HEADER] = answer",
        _CONFORMANCE,
    ),
    Mutant(
        "whoever looks has read the mailbox",
        "only the execution says how far it has read",
        "engine",
        "data.stream == MAILBOX and fence is not None and fence.id == data.id",
        "data.stream == MAILBOX",
        _CONFORMANCE,
    ),
    Mutant(
        "the bytes of a message that was awaited are not counted",
        "what is unread is exact, however far the reader lags",
        "engine",
        'appended = settle(awaited, "resolved", value, now, total, ws, now)',
        'appended = settle(awaited, "resolved", value, now, None, ws, now)',
        _CONFORMANCE,
    ),
    Mutant(
        "the mailbox takes one too many",
        "unread messages are bounded",
        "engine",
        "number - streams.read > limits.unread_messages_max",
        "number - streams.read > limits.unread_messages_max + 1",
        _CONFORMANCE,
    ),
    Mutant(
        "an element that somebody else wrote is written over",
        "a number under which something is written is passed over",
        "engine",
        "if promise is None or is_live(promise, now):\n    return number, promise",
        "if promise is None or promise.id:\n    return number, promise",
        _CONFORMANCE,
    ),
    Mutant(
        "a registration that goes stays in the file",
        "what is stored is what the engine says",
        "store",
        "DELETE FROM callbacks WHERE awaited = ? AND awaiter = ?",
        "DELETE FROM callbacks WHERE awaited = ? AND awaiter IS NULL AND awaiter = ?",
        "tests/conformance/test_streams.py -k sqlite",
        in_text=True,
    ),
    Mutant(
        "the record of a deleted execution counts for the next one",
        "a deleted execution leaves nothing",
        "engine",
        "if found is None or found.created_at != execution.created_at:\n"
        "    return Streams(execution.id, execution.created_at)",
        "if found is None:\n    return Streams(execution.id, execution.created_at)",
        "tests/node/test_streams.py -k left_by",
    ),
    Mutant(
        "an append without a key is repeated",
        "what is not idempotent is sent once",
        "protocol",
        "if isinstance(data, StreamAppend):\n"
        "    return request.kind in repeatable_kinds and data.key is not None",
        "if isinstance(data, StreamAppend):\n    return request.kind in repeatable_kinds",
        "tests/protocol/test_repeatable.py",
    ),
)
