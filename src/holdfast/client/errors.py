"""What can go wrong between a client and its node. A refusal by the node is a reply and not listed here,
except for `Refused`, which `expect` raises for callers that have no other plan.
"""

from typing import ClassVar

from holdfast.protocol.errors import Explained


class ClientError(Explained):
    """The root of the errors of this layer."""

    code: ClassVar[str] = "HF4000"


class Unreachable(ClientError):
    """Nothing was sent, so nothing was changed."""

    code = "HF4001"
    hint = "Nothing was changed. Check the address, and that `holdfast serve` is running there."


class RequestTimedOut(ClientError):
    """The request left and no answer came in time. It may have been carried out."""

    code = "HF4002"
    hint = "The outcome is unknown: read the state back before doing it again."


class OutcomeUnknown(ClientError):
    """The connection broke after the request was sent, or a proxy answered in the node's place, and the
    request is not one that may be repeated."""

    code = "HF4003"
    hint = "It may have been carried out: read the state back before doing it again."


class ClientClosed(ClientError):
    code = "HF4004"
    hint = "Requests that were sent may have been carried out; the others changed nothing."


class BadReply(ClientError):
    """The answer does not follow the protocol: it came from another server, or from a proxy in between."""

    code = "HF4005"
    hint = "Check that the address is that of a Holdfast server, and check any proxy in between."


class TooManyWaiting(ClientError):
    code = "HF4006"
    hint = "Nothing was sent. Slow down, or wait for replies before sending more."


class InvalidUrl(ClientError):
    code = "HF4007"
    hint = "Write it like http://127.0.0.1:8001 or https://holdfast.example.org."


class InvalidToken(ClientError):
    code = "HF4009"
    hint = "A token is printable ASCII without spaces or line breaks."


class BadCertificate(ClientError):
    code = "HF4010"
    hint = "Name a PEM file with the certificate, and one with its key, not encrypted. Both may be one file."


class Refused(ClientError):
    """The node's answer was a refusal. `status` and `reply_code` say which."""

    code = "HF4008"

    def __init__(self, status: int, sentence: str, reply_code: str | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.reply_code = reply_code

    def __str__(self) -> str:
        return self.what  # the node's sentence already ends with what to do and a code
