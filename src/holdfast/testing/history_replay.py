"""The code of today against the history of an execution: where would it differ?

Nothing is performed and nothing is written. An execution that has ended must reach the same end; one that has
not must ask for everything that it has recorded, and may then ask for more.
"""

import asyncio
import time
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.app import App
from holdfast.client.listening import Settlements
from holdfast.host.looking import HISTORY_FORMAT
from holdfast.payloads.error_values import KnownErrors
from holdfast.payloads.errors import BadHistory
from holdfast.protocol import tags
from holdfast.protocol.records import Promise
from holdfast.runtime import Report
from holdfast.steps.providers import Provided
from holdfast.steps.runner import StepRunner
from holdfast.store.memory import MemoryStore
from holdfast.testing.replay import ReadOnlyClient, retrace, same_outcome
from holdfast.workflow.context import WorkerContext

patience_s: Final = 10.0  # a replay waits for nothing


class _History(Struct, frozen=True):
    format: str
    promise: Promise
    records: list[Promise]


class Replayed(Struct, frozen=True):
    """How a replay went: `difference` is None if the code does what was recorded."""

    id: str
    records: int
    difference: str | None = None


def read_history(text: bytes | str) -> _History:
    try:
        history = msgspec.json.decode(text, type=_History)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadHistory(f"This is not the history of an execution: {error}") from None
    if history.format != HISTORY_FORMAT:
        raise BadHistory(f"The history has the format {history.format[:40]!r}, not {HISTORY_FORMAT!r}")
    return history


async def replay_history(text: bytes | str, app: App) -> Replayed:
    """Run the workflows of an app against a history, as JSON: what `handle.history()` or `holdfast history`
    has exported.

    Steps are not performed, and nothing is written. What the app provides is opened, as by a worker.

    >>> assert asyncio.run(replay_history(Path("order-17.json").read_text(), app)).difference is None
    """
    history = read_history(text)
    root = history.promise
    store = MemoryStore()
    for record in (root, *history.records):
        store.promises[record.id] = record
        if (branch := record.tags.get(tags.BRANCH)) is not None:
            store.branches.setdefault(branch, {})[record.id] = None
    provided = Provided(app.providers)
    await provided.open()
    try:
        execution, client = retrace(root, store, app.registry, _context(app, store, provided))
        try:
            ending: str = await asyncio.wait_for(execution.drive(), patience_s)
        except TimeoutError:
            ending = "lost"
        finally:
            execution.close()
    finally:
        await provided.close()
    return Replayed(root.id, len(history.records), _difference(root, execution.fault, ending, client))


def _difference(root: Promise, fault: Exception | None, ending: str, client: ReadOnlyClient) -> str | None:
    if fault is not None:
        return str(fault)
    if root.state in ("pending", "rejected_timedout", "rejected_canceled"):
        return None  # it did not end by itself: all that was recorded was asked for
    if ending != "fulfilled" or client.outcome is None:
        return f"It ended as {root.state}; now the code goes on after all that was recorded"
    if not same_outcome(root, *client.outcome):
        how = "with another value" if client.outcome[0] == root.state else f"as {client.outcome[0]}"
        return f"It ended as {root.state}; now it ends {how}"
    return None


def _context(app: App, store: MemoryStore, provided: Provided) -> WorkerContext:
    return WorkerContext(
        client=ReadOnlyClient(store),
        payloads=app.payloads,
        runner=StepRunner(),
        inbox=Settlements(),
        address="poll://uni@replay/replay",
        group=app.settings.group,
        now=lambda: time.time_ns() // 1_000_000,
        known_errors=KnownErrors(),
        report=_say_nothing,
        provided=provided,
    )


def _say_nothing(execution: str, report: Report) -> None:
    pass
