"""Errors as answers of a web application: a status, and `{"error", "hint", "code"}` as in the management API.

1. An error of Holdfast always has a status; any other error is the application's own, and is not touched.
2. What was not carried out and may be sent again is 429 or 503 with `Retry-After`.
"""

from typing import Any, ClassVar, Final

from holdfast.client.errors import (
    BadReply,
    ClientClosed,
    OutcomeUnknown,
    Refused,
    RequestTimedOut,
    TooManyWaiting,
    Unreachable,
)
from holdfast.host.errors import AlreadySettled, ClosedTooSoon, NotAnOpenPromise
from holdfast.payloads.errors import (
    BadArguments,
    BadDuration,
    BadId,
    BadTags,
    PayloadTooLarge,
    UndecodablePayload,
    UnencodablePayload,
)
from holdfast.protocol.errors import Explained, HoldfastError, Refusal
from holdfast.runtime.errors import TimedOut
from holdfast.workflow.errors import BadName, BadStartOption, IdTaken, MessageRefused, UnknownWorkflow

retry_after_s: Final = 1


class WebError(Explained):
    """What an endpoint refuses before anything is asked of the node."""

    status: ClassVar[int] = 400


class WebBodyNotJson(WebError):
    """A POST without the content type of JSON, or with a body that is not JSON."""

    code = "HF7301"
    status = 415
    hint = "Send `content-type: application/json` and a JSON body. Pages of other sites cannot do that."


class WebBodyTooLarge(WebError):
    code = "HF7302"
    status = 413
    hint = "Send less, or a link to where the data is."


class NotAllowed(WebError):
    """The `allow` function of the application said no."""

    code = "HF7303"
    status = 403
    hint = "Use an account that may do this; the application's allow= decides."


class TooManyReaders(WebError):
    code = "HF7304"
    status = 503
    hint = "Close other streams, or try again later."


class BadWebRequest(WebError):
    code = "HF7305"
    status = 422
    hint = "The sentence says which part of the request is wrong."


_statuses: Final[tuple[tuple[tuple[type[Exception], ...], int], ...]] = (
    ((UnknownWorkflow,), 404),
    ((IdTaken, AlreadySettled, NotAnOpenPromise, MessageRefused), 409),
    ((PayloadTooLarge,), 413),
    ((BadArguments, UndecodablePayload, UnencodablePayload), 422),
    ((BadId, BadTags, BadDuration, BadName, BadStartOption), 422),
    ((TooManyWaiting,), 429),
    ((BadReply,), 502),
    ((Unreachable, RequestTimedOut, OutcomeUnknown, ClientClosed, ClosedTooSoon), 503),
    ((TimedOut,), 504),
)


def status_of(error: HoldfastError) -> int:
    """The HTTP status that says what kind of error it is."""
    if isinstance(error, Refusal | Refused | WebError):
        return error.status
    for kinds, status in _statuses:
        if isinstance(error, kinds):
            return status
    return 500


def shape_of(error: HoldfastError) -> dict[str, Any]:
    """What a client is told. An error that is none of the request's is named, and not quoted."""
    if isinstance(error, Refused):
        code = error.reply_code or error.code
        return {"error": error.what.removesuffix(f"[{code}]").strip(), "hint": "", "code": code}
    if isinstance(error, Explained):
        return {"error": error.what, "hint": error.hint, "code": error.code}
    return {"error": str(error), "hint": "", "code": error.code}


def headers_of(status: int) -> dict[str, str]:
    return {"retry-after": str(retry_after_s)} if status in (429, 503) else {}
