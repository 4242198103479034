"""Is what is stored what was asked for? For ids that are taken, and promises that are settled already.

Compared is what was meant, not how it was written: a codec may encrypt the same text differently each time,
an argument may be given by its place or by its name, and a default may be written out. So both sides are
decoded. No digest of arguments is stored for this: whoever reads the store could guess short arguments by it,
also where they are encrypted.
"""

from typing import Any, Final, cast

from holdfast.payloads import jsonable
from holdfast.payloads.errors import WorkerError
from holdfast.payloads.payloads import Payloads, load
from holdfast.payloads.signature import Signature, StoredCall
from holdfast.protocol import tags
from holdfast.protocol.records import Promise, Value
from holdfast.workflow.errors import IdTaken

NEWEST: Final = 0  # the version that a call by name asks for: whichever there is


def check_same_call(
    asked: Value,
    found: Promise,
    payloads: Payloads,
    signature: Signature | None = None,
    supplied: frozenset[str] = frozenset(),
    *,
    is_task: bool = False,
) -> None:
    """Raises IdTaken, unless the promise stands for the same call of the same workflow, or task."""
    ours = payloads.decode_call(asked)
    if tags.TARGET not in found.tags:
        raise IdTaken(f"The id {found.id!r} belongs to a promise that no workflow settles")
    if (tags.JOB in found.tags) is not is_task:
        what = "an execution of a workflow" if is_task else "a background task"
        raise IdTaken(f"The id {found.id!r} belongs to {what}")
    if found.param.data == asked.data:
        return
    try:
        theirs = payloads.decode_call(found.param)
    except WorkerError:
        raise IdTaken(f"The id {found.id!r} belongs to something that cannot be read here") from None
    if theirs.function != ours.function:
        raise IdTaken(f"The id {found.id!r} belongs to {theirs.function!r}, not to {ours.function!r}")
    if theirs.version != ours.version and NEWEST not in (theirs.version, ours.version):
        raise IdTaken(
            f"The id {found.id!r} belongs to {theirs.function!r} version {theirs.version}, "
            f"not to version {ours.version}"
        )
    if _untyped(ours) == _untyped(theirs):
        return
    typed = None if signature is None else _typed(ours, signature, supplied)
    if signature is None or typed is None or typed != _typed(theirs, signature, supplied):
        raise IdTaken(f"The id {found.id!r} belongs to {theirs.function!r} with other arguments")


def is_same_value(asked: Value, found: Value, payloads: Payloads) -> bool:
    """Errors are the same whatever their tracebacks."""
    if asked.data == found.data:
        return True
    try:
        ours, theirs = payloads.decode(asked), payloads.decode(found)
    except WorkerError:
        return False
    return jsonable.canonical(_without_traceback(ours)) == jsonable.canonical(_without_traceback(theirs))


def _untyped(call: StoredCall) -> bytes | None:
    named = {name: load(raw) for name, raw in call.kwargs_json.items()}
    return jsonable.canonical(([load(raw) for raw in call.args_json], named))


def _typed(call: StoredCall, signature: Signature, supplied: frozenset[str]) -> bytes | None:
    """By name as far as there are names; None when it does not fit the function of today."""
    try:
        args, kwargs = signature.bind(call, load, supplied)
    except WorkerError:
        return None
    parameters = [each for each in signature.parameters or () if each.name not in supplied]
    names = [
        each.name
        for each in parameters
        if each.kind in (each.kind.POSITIONAL_ONLY, each.kind.POSITIONAL_OR_KEYWORD)
    ]
    defaults = {each.name: each.default for each in parameters if not each.required}
    stored = {name: value for name, value in defaults.items() if jsonable.canonical(value) is not None}
    return jsonable.canonical((args[len(names) :], stored | dict(zip(names, args, strict=False)) | kwargs))


def _without_traceback(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    fields = cast(dict[str, Any], value)
    left_out = ("traceback", "stack") if "__type" in fields else ()
    return {name: field for name, field in fields.items() if name not in left_out}
