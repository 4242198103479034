"""Tasks that the node holds in this worker's name, and that nobody here runs.

A claim whose reply was lost may have left them. They are looked up and given back.
"""

import logging
from collections.abc import Callable, Sequence

from holdfast.client.asking import ask
from holdfast.client.interface import Client
from holdfast.protocol.records import TaskView
from holdfast.protocol.replies import TasksReply
from holdfast.protocol.requests import TaskSearch

log = logging.getLogger("holdfast.worker")


async def find_strays(
    client: Client, groups: Sequence[str], pid: str, is_held: Callable[[TaskView], bool]
) -> list[TaskView] | None:
    """None: the node could not be asked."""
    strays: list[TaskView] = []
    for group in groups:
        cursor: str | None = None
        while True:
            search = TaskSearch(state="acquired", group=group, pid=pid, cursor=cursor)
            try:
                [reply] = await client.request([ask(search)])
            except Exception:
                log.warning("the node could not be asked what we hold", exc_info=True)
                return None
            if not isinstance(reply.data, TasksReply):
                return None
            strays += [task for task in reply.data.tasks if not is_held(task)]
            cursor = reply.data.cursor
            if cursor is None:
                break
    return strays
