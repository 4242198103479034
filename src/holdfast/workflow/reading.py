"""The rest of what an execution has recorded, where a claim has no room for all of it.

Replay takes what it does not find for something that has not happened, so it begins only when all is read.
Everything an execution records has an id below its own: a walk along an index.
"""

from holdfast.payloads.errors import WorkerError
from holdfast.protocol import limits, tags
from holdfast.protocol.generations import base_of, branch_of, lies_in_generation
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import AcquireReply, PromisesReply
from holdfast.protocol.requests import PromiseSearch
from holdfast.workflow.fenced_writer import FencedWriter
from holdfast.workflow.journal import below


async def read_rest(writer: FencedWriter, claim: AcquireReply) -> list[Promise]:
    root, cursor = claim.promise, claim.cursor
    branch = {tags.BRANCH: branch_of(root) or root.id}
    records: list[Promise] = []
    while cursor is not None:
        search = PromiseSearch(
            tags=branch, prefix=below(root.id), limit=limits.page_size_max, cursor=cursor or None
        )
        [reply] = await writer.ask([search])
        if not isinstance(reply.data, PromisesReply):
            raise WorkerError(f"The rest of what {root.id} has recorded could not be read: {reply.data}")
        records += reply.data.promises
        cursor = reply.data.cursor
    return records


async def find_records(writer: FencedWriter, root: str, generation: int) -> list[str]:
    """The ids of what a past generation has recorded, as far as one page goes."""
    base = base_of(root, generation)
    search = PromiseSearch(None, {tags.PARENT: root, tags.BRANCH: base}, below(base), limits.page_size_max)
    [reply] = await writer.ask([search])
    found = reply.data.promises if isinstance(reply.data, PromisesReply) else []
    return [record.id for record in found if lies_in_generation(record.id, root, generation)]
