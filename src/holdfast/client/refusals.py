"""Refusals of a node that callers catch by class: what concerns talking to an execution."""

from typing import Final

from holdfast.client.errors import Refused
from holdfast.protocol.errors import (
    ExecutionOver,
    NoSuchExecution,
    NotAsExpected,
    PromiseMissing,
    Refusal,
    StreamFull,
    TaskMissing,
    TooManyAnswers,
    TooManyStreams,
)

_by_id: Final = {kind.code: kind for kind in (NoSuchExecution, ExecutionOver)} | {
    kind.code: NoSuchExecution for kind in (PromiseMissing, TaskMissing)
}
_by_sentence: Final[dict[str, type[Refusal]]] = {
    kind.code: kind for kind in (NotAsExpected, StreamFull, TooManyStreams, TooManyAnswers)
}


def known_refusal(refused: Refused, execution_id: str) -> Exception:
    """The refusal as the class that names it, if it is one of these; else as it came."""
    code = refused.reply_code or ""
    if code in _by_id:
        return _by_id[code](execution_id)
    kind = _by_sentence.get(code)
    return refused if kind is None else kind(refused.what.partition(f". {kind.hint}")[0])
