"""A store for LangGraph whose items are promises: what `holdfast.ext.langgraph.store` makes.

An item's value is the param of a pending promise. To replace it, that promise is settled and the next one is
created, in one commit; to delete it, it is settled. langgraph_records.py has the ids.

1. Of two who replace an item at the same time each gets its turn: the later one replaces the other's.
2. A batch reads before it writes, as LangGraph's own store does. Each write is a commit of its own.
3. There is no index for meanings (`query` is passed over) and no time to live.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from secrets import token_hex
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.app import App
from holdfast.client.errors import Refused
from holdfast.ext.agent_steps import in_workflow
from holdfast.ext.errors import CheckpointsInWorkflow
from holdfast.ext.langgraph_checkpoints import EXTRA
from holdfast.ext.langgraph_records import GraphRecords, escaped, number_of, numbered
from holdfast.ext.optional import load
from holdfast.protocol.errors import KeyConflict
from holdfast.protocol.records import Promise

ITEM: Final = "langgraph-s"


class StoredItem(Struct, frozen=True, omit_defaults=True):
    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: int | None = None  # in ms, by the node's clock; of the first one its own


class HoldfastStore:
    """Beside `BaseStore`."""

    supports_ttl = False

    def __init__(self, app: App) -> None:
        self._records = GraphRecords(app)

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        work = self._batch([*ops])
        _check_place(work)
        return self._records.block(work)

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        work = self._batch([*ops])
        _check_place(work)
        return await self._records.wait(work)

    async def _batch(self, ops: list[Any]) -> list[Any]:
        base = load("langgraph.store.base", EXTRA)
        results: list[Any] = [None] * len(ops)
        puts: dict[tuple[Any, str], Any] = {}
        for place, op in enumerate(ops):
            if isinstance(op, base.GetOp):
                results[place] = await self._get(tuple(op.namespace), op.key)
            elif isinstance(op, base.SearchOp):
                results[place] = await self._search(op)
            elif isinstance(op, base.ListNamespacesOp):
                results[place] = await self._namespaces(op)
            else:
                puts[op.namespace, op.key] = op
        for op in puts.values():
            await self._put(tuple(op.namespace), op.key, op.value)
        return results

    async def _get(self, namespace: tuple[str, ...], key: str) -> Any:
        newest = await self._records.newest(_item_id(namespace, key))
        return None if newest is None or newest.state != "pending" else self._item(newest)

    async def _put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any] | None) -> None:
        base, mine = _item_id(namespace, key), token_hex(8)
        while True:
            newest = await self._records.newest(base)
            is_there = newest is not None and newest.state == "pending"
            ending = [self._records.ending(newest.id)] if newest is not None and is_there else []
            if value is None:
                await self._records.ask(ending)
                return
            began = None if newest is None or not is_there else self._created_at(newest)
            number = 1 if newest is None else number_of(newest.id) + 1
            stored = StoredItem([*namespace], key, value, began)
            tags = {"langgraph": "item"}
            created = self._records.open_promise(numbered(base, number), stored, tags, mine)
            try:
                await self._records.ask([*ending, created])
            except Refused as refused:  # somebody else was faster: then that is the one to replace
                if refused.reply_code != KeyConflict.code:
                    raise
            else:
                return

    async def _search(self, op: Any) -> list[Any]:
        found: list[Any] = []
        wanted = op.offset + op.limit
        conditions: dict[str, Any] = {**(op.filter or {})}
        async for promise in self._open(tuple(op.namespace_prefix)):
            item = self._item(promise, "SearchItem")
            if all(_fits(item.value.get(name), asked) for name, asked in conditions.items()):
                found.append(item)
            if len(found) >= wanted:
                break
        return found[op.offset : wanted]

    async def _namespaces(self, op: Any) -> list[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        async for promise in self._open(()):
            namespace = tuple(self._records.decode(promise.param, StoredItem).namespace)
            if all(_matches(each, namespace) for each in op.match_conditions or ()):
                found.add(namespace if op.max_depth is None else namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _open(self, prefix: tuple[str, ...]) -> AsyncIterator[Promise]:
        begin = "".join(f"{escaped(label)}-" for label in prefix)
        async for promise in self._records.search(f"{ITEM}-{begin}", state="pending"):
            yield promise

    def _created_at(self, promise: Promise) -> int:
        began = self._records.decode(promise.param, StoredItem).created_at
        return promise.created_at if began is None else began

    def _item(self, promise: Promise, kind: str = "Item") -> Any:
        record = self._records.decode(promise.param, StoredItem)
        return getattr(load("langgraph.store.base", EXTRA), kind)(
            namespace=tuple(record.namespace),
            key=record.key,
            value=record.value,
            created_at=datetime.fromtimestamp(self._created_at(promise) / 1000, UTC),
            updated_at=datetime.fromtimestamp(promise.created_at / 1000, UTC),
        )


def _check_place(work: Any) -> None:
    if in_workflow():
        work.close()
        raise CheckpointsInWorkflow(
            "A workflow cannot call the server: use the store inside a node of the graph, which is a step"
        )


def _item_id(namespace: tuple[str, ...], key: str) -> str:
    return f"{ITEM}-{''.join(f'{escaped(label)}-' for label in namespace)}-{escaped(key)}"


def _matches(condition: Any, namespace: tuple[str, ...]) -> bool:
    """`*` stands for any label."""
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(asked in ("*", label) for asked, label in zip(path, part, strict=True))


def _fits(value: Any, asked: Any) -> bool:
    """A filter: a value that is equal, or `{"$gte": 3}` and the like; inside objects too."""
    if not isinstance(asked, Mapping):
        return bool(value == asked)
    conditions = cast(Mapping[str, Any], asked)
    if not any(name.startswith("$") for name in conditions):
        if not isinstance(value, Mapping):
            return False
        inside = cast(Mapping[str, Any], value)
        return all(_fits(inside.get(name), each) for name, each in conditions.items())
    return all(_compare(name, value, each) for name, each in conditions.items())


def _compare(name: str, value: Any, asked: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == asked) is (name == "$eq")
    if name not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unknown operator {name!r}: use $eq, $ne, $gt, $gte, $lt, $lte")
    if value is None:
        return False
    is_greater = bool(value > asked) if name.startswith("$gt") else bool(value < asked)
    return is_greater or (name.endswith("e") and bool(value == asked))


@cache
def store_class() -> Any:
    return type("HoldfastStore", (HoldfastStore, load("langgraph.store.base", EXTRA).BaseStore), {})
