"""A checkpointer for LangGraph whose checkpoints are promises: what `holdfast.ext.langgraph.saver` makes.

It keeps threads between calls of a graph, in the store that the app has anyway: `graph.invoke(None, config)`
goes on in any process where another one ended. langgraph_records.py says what is written.

1. `put` and `put_writes` return when what they wrote is durable.
2. In the code of a workflow it is refused: a graph there is durable by the workflow's own records, and takes
   the saver in memory that LangGraph brings.
3. Values are encoded by LangGraph's serializer, then by the codec of the app.
"""

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from secrets import randbelow, token_hex
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.app import App
from holdfast.ext.agent_steps import in_workflow
from holdfast.ext.errors import CheckpointsInWorkflow
from holdfast.ext.langgraph_records import (
    GraphRecords,
    Stored,
    back_again,
    escaped,
    newest_first,
    number_of,
    numbered,
)
from holdfast.ext.optional import load
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import RequestData

EXTRA: Final = "langgraph"
THREAD: Final = "langgraph-t"
_empty: Final = ("empty", b"")


class StoredCheckpoint(Struct, frozen=True, omit_defaults=True):
    ns: str
    checkpoint: Stored
    metadata: Stored
    parent: str | None = None


class StoredWrite(Struct, frozen=True, omit_defaults=True):
    task: str
    channel: str
    number: int
    stored: Stored
    path: str = ""


class HoldfastSaver:
    """Beside `BaseCheckpointSaver`. Sync methods are for scripts and threads, async ones for any loop."""

    serde: Any

    def __init__(self, app: App, serde: Any = None) -> None:
        cast(Any, super()).__init__(serde=serde)
        self._records = GraphRecords(app)

    def get_next_version(self, current: Any, channel: None = None) -> str:
        """Two branches of a thread may come to the same number: so there is more in it than that."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:032d}.{randbelow(10**16):016d}"

    # --- writing ---------------------------------------------------------------------------------------

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Mapping[str, Any]) -> Any:
        return self._block(self._put(config, checkpoint, metadata, new_versions))

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Mapping[str, Any]) -> Any:
        return await self._wait(self._put(config, checkpoint, metadata, new_versions))

    async def _put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Mapping[str, Any]) -> Any:
        thread, ns, parent = _names(config)
        kept = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        values = checkpoint["channel_values"]
        root, begun = await self._begin(thread)
        asked: list[RequestData] = [*begun]
        for channel, version in new_versions.items():
            dumped = self.serde.dumps_typed(values[channel]) if channel in values else _empty
            asked += self._records.parts_of(_blob_id(root, ns, channel, version), dumped)
        about = load("langgraph.checkpoint.base", EXTRA).get_checkpoint_metadata(config, metadata)
        record = StoredCheckpoint(ns, self._dump(kept), self._dump(about), parent)
        asked.append(self._records.settled(_checkpoint_id(root, ns, checkpoint["id"]), record))
        await self._records.ask(asked)
        return _config(thread, ns, checkpoint["id"])

    def put_writes(self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = "") -> None:
        self._block(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        await self._wait(self._put_writes(config, writes, task_id, task_path))

    async def _put_writes(self, config: Any, writes: Sequence[Any], task: str, path: str) -> None:
        """What a node wrote is written once; what LangGraph notes of its own (errors, interrupts) replaces
        what was there, so each has an id of its own and the last one counts."""
        thread, ns, checkpoint = _names(config)
        numbers: dict[str, int] = load("langgraph.checkpoint.base", EXTRA).WRITES_IDX_MAP
        root, begun = await self._begin(thread)
        asked: list[RequestData] = [*begun]
        for place, (channel, value) in enumerate(writes):
            number = numbers.get(channel, place)
            again = f".{time.time_ns():020d}{token_hex(4)}" if number < 0 else ""
            base = f"{_writes_id(root, ns, checkpoint or '')}{escaped(task)}.{number:06d}{again}"
            parts, stored = self._records.split(base, self.serde.dumps_typed(value))
            asked += [*parts, self._records.settled(base, StoredWrite(task, channel, number, stored, path))]
        await self._records.ask(asked)

    async def _begin(self, thread: str) -> tuple[str, list[RequestData]]:
        """The root of the thread, and what creates it if there is none."""
        base = f"{THREAD}-{escaped(thread)}"
        newest = await self._records.newest(base)
        if newest is not None and newest.state == "pending":
            return newest.id, []
        root = numbered(base, 1 if newest is None else number_of(newest.id) + 1)
        created = self._records.open_promise(root, thread, {"langgraph": "thread"}, "langgraph")
        return root, [created]

    # --- reading ---------------------------------------------------------------------------------------

    def get_tuple(self, config: Any) -> Any:
        return self._block(self._get_tuple(config))

    async def aget_tuple(self, config: Any) -> Any:
        return await self._wait(self._get_tuple(config))

    async def _get_tuple(self, config: Any) -> Any:
        thread, ns, checkpoint = _names(config)
        root = await self._root(thread)
        if root is None:
            return None
        if checkpoint is not None:
            [found] = await self._records.get(_checkpoint_id(root, ns, checkpoint))
        else:
            found = await anext(self._records.search(f"{root}:c.{escaped(ns)}."), None)
        return None if found is None else await self._tuple(root, thread, found)

    async def _root(self, thread: str) -> str | None:
        newest = await self._records.newest(f"{THREAD}-{escaped(thread)}")
        return newest.id if newest is not None and newest.state == "pending" else None

    async def _tuple(self, root: str, thread: str, found: Promise) -> Any:
        record = self._records.decode(found.value, StoredCheckpoint)
        checkpoint = self._load(record.checkpoint)
        checkpoint["channel_values"] = await self._values(root, record.ns, checkpoint["channel_versions"])
        name = back_again(found.id.rpartition(".")[2])
        base = load("langgraph.checkpoint.base", EXTRA)
        return base.CheckpointTuple(
            config=_config(thread, record.ns, name),
            checkpoint=checkpoint,
            metadata=self._load(record.metadata),
            parent_config=None if record.parent is None else _config(thread, record.ns, record.parent),
            pending_writes=await self._writes(root, record.ns, name),
        )

    async def _values(self, root: str, ns: str, versions: Mapping[str, Any]) -> dict[str, Any]:
        ids = [_blob_id(root, ns, channel, version) for channel, version in versions.items()]
        values: dict[str, Any] = {}
        for channel, promise in zip(versions, await self._records.get(*ids) if ids else [], strict=True):
            if promise is not None:
                stored = self._records.decode(promise.value, Stored)
                dumped = await self._records.whole(promise.id, stored)
                if dumped[0] != _empty[0]:
                    values[channel] = self.serde.loads_typed(dumped)
        return values

    async def _writes(self, root: str, ns: str, checkpoint: str) -> list[tuple[str, str, Any]]:
        found: dict[tuple[str, int], tuple[StoredWrite, Any]] = {}
        async for promise in self._records.search(_writes_id(root, ns, checkpoint)):
            record = self._records.decode(promise.value, StoredWrite)
            dumped = await self._records.whole(promise.id, record.stored)
            found[record.task, record.number] = record, self.serde.loads_typed(dumped)
        ordered = sorted(found.values(), key=lambda each: (each[0].path, each[0].task, each[0].number))
        return [(write.task, write.channel, value) for write, value in ordered]

    def list(
        self,
        config: Any,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[Any]:
        async def collect() -> Sequence[Any]:
            return [each async for each in self._list(config, filter or {}, before, limit)]

        yield from self._block(collect())

    async def alist(
        self,
        config: Any,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        before: Any = None,
        limit: int | None = None,
    ) -> AsyncIterator[Any]:
        async def collect() -> Sequence[Any]:
            return [each async for each in self._list(config, filter or {}, before, limit)]

        for each in await self._wait(collect()):
            yield each

    async def _list(
        self, config: Any, wanted: Mapping[str, Any], before: Any, limit: int | None
    ) -> AsyncIterator[Any]:
        earlier_than = None if before is None else _names(before)[2]
        left = -1 if limit is None else limit
        async for root, thread in self._threads(config):
            ns = None if config is None else config["configurable"].get("checkpoint_ns")
            checkpoint = None if config is None else _names(config)[2]
            prefix = f"{root}:c." if ns is None else f"{root}:c.{escaped(ns)}."
            async for promise in self._records.search(prefix):
                name = back_again(promise.id.rpartition(".")[2])
                is_late = earlier_than is not None and name >= earlier_than
                if left == 0 or is_late or checkpoint not in (None, name):
                    continue
                metadata = self._load(self._records.decode(promise.value, StoredCheckpoint).metadata)
                if all(metadata.get(key) == value for key, value in wanted.items()):
                    left -= 1
                    yield await self._tuple(root, thread, promise)

    async def _threads(self, config: Any) -> AsyncIterator[tuple[str, str]]:
        if config is not None:
            thread = _names(config)[0]
            root = await self._root(thread)
            if root is not None:
                yield root, thread
            return
        tags = {"langgraph": "thread"}
        async for promise in self._records.search(f"{THREAD}-", state="pending", tags=tags):
            yield promise.id, self._records.bridge.payloads.decode(promise.param, str)

    # --- threads ---------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        self._block(self._delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._wait(self._delete_thread(thread_id))

    async def _delete_thread(self, thread: str) -> None:
        root = await self._root(str(thread))
        if root is not None:
            await self._records.ask([self._records.ending(root)])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._block(self._copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._wait(self._copy_thread(source_thread_id, target_thread_id))

    async def _copy_thread(self, source: str, target: str) -> None:
        """Checkpoints last: nobody finds one whose values are not there yet."""
        root = await self._root(str(source))
        if root is None:
            return
        copy, begun = await self._begin(str(target))
        await self._records.ask(begun)
        for letter in "pbwc":
            async for promise in self._records.search(f"{root}:{letter}."):
                value = self._records.bridge.payloads.decode(promise.value)
                await self._records.ask([self._records.settled(promise.id.replace(root, copy, 1), value)])

    # --- values ----------------------------------------------------------------------------------------

    def _dump(self, value: Any) -> Stored:
        return Stored(*self.serde.dumps_typed(value))

    def _load(self, stored: Stored) -> Any:
        return self.serde.loads_typed((stored.kind, stored.data))

    def _block(self, work: Any) -> Any:
        _check_place(work)
        return self._records.block(work)

    async def _wait(self, work: Any) -> Any:
        _check_place(work)
        return await self._records.wait(work)


def _check_place(work: Any) -> None:
    if in_workflow():
        work.close()
        raise CheckpointsInWorkflow(
            "A workflow records what its graph does, so it cannot use a checkpointer that calls the node"
        )


def _names(config: Any) -> tuple[str, str, str | None]:
    """Of a config: the thread, the namespace, and the checkpoint if it says one."""
    given = config["configurable"]
    checkpoint = given.get("checkpoint_id")
    return str(given["thread_id"]), given.get("checkpoint_ns", ""), checkpoint or None


def _config(thread: str, ns: str, checkpoint: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}}


def _checkpoint_id(root: str, ns: str, checkpoint: str) -> str:
    return f"{root}:c.{escaped(ns)}.{newest_first(checkpoint)}"


def _blob_id(root: str, ns: str, channel: str, version: Any) -> str:
    return f"{root}:b.{escaped(ns)}.{escaped(channel)}.{escaped(str(version))}"


def _writes_id(root: str, ns: str, checkpoint: str) -> str:
    return f"{root}:w.{escaped(ns)}.{escaped(checkpoint)}."


@cache
def saver_class() -> Any:
    base = load("langgraph.checkpoint.base", EXTRA).BaseCheckpointSaver
    return type("HoldfastSaver", (HoldfastSaver, base), {})
