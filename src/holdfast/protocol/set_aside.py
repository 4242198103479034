"""Finding the messages of an execution that were set aside: they were not of the type that the code wants.

Each has a record below the message, with the error. A page of the search may have few of them, or none: the
messages themselves lie between. So go on by the cursor.
"""

from typing import Final

from holdfast.protocol import limits, tags
from holdfast.protocol.ids import below
from holdfast.protocol.requests import PromiseSearch
from holdfast.protocol.streams import ASIDE, MAILBOX

set_aside_max: Final = 100  # of the messages of one execution that are shown


def set_aside_search(
    execution_id: str, limit: int | None = limits.page_size_max, cursor: str | None = None
) -> PromiseSearch:
    own = {tags.PARENT: execution_id, tags.SCOPE: "local"}
    return PromiseSearch(None, own, f"{below(execution_id)}{MAILBOX}.", limit, cursor)


def message_of(record: str) -> str | None:
    """The id of the message that this record tells of; None for a record of something else."""
    return record.removesuffix(ASIDE) if record.endswith(ASIDE) else None
