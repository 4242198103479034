"""`POST /collect`: the request that deletes old executions."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.node.retention import RetentionProgress
from holdfast.protocol.errors import InvalidField
from holdfast.protocol.limits import instant_ms_max
from holdfast.protocol.text import check_text


class CollectOrder(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Go on from `progress` and forget what ended more than `older_than_ms` ago; `dry_run` only counts."""

    older_than_ms: Annotated[int, Meta(ge=0, le=instant_ms_max)]
    progress: RetentionProgress = RetentionProgress()
    dry_run: bool = False

    def __post_init__(self) -> None:
        for name in ("after", "judged"):
            check_text(f"progress.{name}", getattr(self.progress, name) or "", empty=True)


def decode_order(body: bytes) -> CollectOrder:
    try:
        return msgspec.json.decode(body, type=CollectOrder)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidField(f"The order to collect cannot be read: {error}") from None
