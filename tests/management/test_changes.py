"""The change feed: what is told, to whom, and what happens to a reader that was away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.node import changes
from holdfast.node.changes import UNKNOWN, ChangeFeed, Changes
from holdfast.server.serving import Running, running
from holdfast.server.settings import Settings
from tests.management.change_reader import Change, reading
from tests.management.client import Api
from tests.postgres import database_url
from tests.server.http import call, create


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Running]:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    store = stores[request.param] if request.param in stores else database_url()
    async with running(Settings(port=0, store=store)) as found:
        yield found


def names(kind: str, wanted: str) -> Any:
    def fits(event: Change) -> bool:
        found = event.data.get(kind, [])
        return wanted in (each[0] if isinstance(each, list) else each for each in found)

    return fits


async def test_what_changes_is_told_with_its_kind_its_status_and_its_name(server: Running) -> None:
    async with reading(server.url) as reader:
        hello = await reader.next()
        assert hello is not None
        assert hello.name == "hello"
        app = hf.App(server.url)

        @app.workflow
        async def approve() -> str:
            return await hf.promise(str, timeout="1h")

        async with app:
            app.start(approve, id="order-17")
            suspended = await reader.until(
                lambda event: (
                    ["order-17", "execution", "suspended", "approve"] in event.data.get("executions", [])
                )
            )
            assert suspended.name == "changes"
            await Api(server.url).post("promises/order-17:1/resolve", {"value": "yes"})
            await reader.until(
                lambda event: (
                    ["order-17", "execution", "completed", "approve"] in event.data.get("executions", [])
                )
            )


async def test_queues_schedules_and_promises_of_nobody_are_told(server: Running) -> None:
    async with reading(server.url) as reader:
        await reader.next()
        await Api(server.url).post("queues/mail/pause")
        await reader.until(names("queues", "mail"))
        await call(server.url, "promise.create", create("approval-7"))
        await reader.until(names("promises", "approval-7"))
        schedule: Any = {
            "id": "nightly",
            "cron": "0 3 * * *",
            "promiseId": "n-{{.timestamp}}",
            "promiseTimeout": 1000,
            "promiseParam": {},
            "promiseTags": {},
        }
        await call(server.url, "schedule.create", schedule)
        await reader.until(names("schedules", "nightly"))


async def test_whoever_comes_back_hears_what_changed_meanwhile(server: Running) -> None:
    async with reading(server.url) as reader:
        await reader.next()
        await call(server.url, "promise.create", create("first"))
        seen = await reader.until(names("promises", "first"))
    await call(server.url, "promise.create", create("meanwhile"))
    async with reading(server.url, after=seen.id) as reader:
        back = await reader.next()
        assert back is not None
        assert back.name == "hello"
        await reader.until(names("promises", "meanwhile"))


async def test_whoever_names_an_event_that_nobody_remembers_is_told_to_read_again(server: Running) -> None:
    for unknown in ("elsewhere.1-5", "nonsense", "-", "a-99999999999999999999"):
        async with reading(server.url, after=unknown) as reader:
            event = await reader.next()
            assert event is not None
            assert event.name == "reload", unknown


async def test_a_prefix_token_hears_only_of_its_prefix() -> None:
    settings = Settings(port=0, store="memory:", tokens=("admin-token", "acme acme-token"))
    async with (
        running(settings) as server,
        reading(server.url, "acme-token") as tenant,
        reading(server.url, "admin-token") as admin,
    ):
        await tenant.next()
        await admin.next()
        for name in ("acme-1", "other-1", "acme2", "acme-2"):
            await call(server.url, "promise.create", create(name), auth="admin-token")
        await admin.until(names("promises", "acme-2"))
        await tenant.until(names("promises", "acme-2"))
        told = {each for event in tenant.seen for each in event.data.get("promises", [])}
        assert told == {"acme-1", "acme-2"}
        all_told = {each for event in admin.seen for each in event.data.get("promises", [])}
        assert all_told == {"acme-1", "other-1", "acme2", "acme-2"}


async def test_more_than_can_be_named_is_told_as_more(server: Running) -> None:
    async with reading(server.url) as reader:
        await reader.next()
        count = changes.named_max + 100
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(call(server.url, "promise.create", create(f"p{number}")))
        await call(server.url, "promise.create", create("last"))
        told: set[str] = set()
        more = False
        while "last" not in told and not more:
            event = await reader.next()
            assert event is not None
            named = event.data.get("promises", [])
            assert len(named) <= changes.named_max
            told.update(named)
            more = event.data.get("more", False)
            assert not (more and named)  # whoever hears of more reads everything again
        assert more or told >= {f"p{number}" for number in range(count)}


async def test_what_another_process_writes_to_the_same_file_is_told(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/h.db"
    async with running(Settings(port=0, store=store)) as server, reading(server.url) as reader:
        await reader.next()
        other = hf.App(store, worker=False)
        async with other:
            await other.start("approve", id="elsewhere").started()
            await reader.until(lambda event: event.data.get("more", False))


async def test_what_another_node_of_a_cluster_commits_is_told_by_name() -> None:
    store = database_url()
    async with (
        running(Settings(port=0, store=store)) as one,
        running(Settings(port=0, store=store)) as other,
        reading(one.url) as reader,
    ):
        await reader.until(lambda event: event.data.get("more", False))  # from now on the other one knows
        number = 0

        async def keep_creating() -> None:
            nonlocal number
            while True:
                number += 1
                await call(other.url, "promise.create", create(f"there-{number}"))
                await asyncio.sleep(0.05)

        creating = asyncio.create_task(keep_creating())
        try:
            event = await reader.until(lambda event: "promises" in event.data)
        finally:
            creating.cancel()
        assert all(name.startswith("there-") for name in event.data["promises"])


async def test_commits_tell_nothing_while_nobody_reads(server: Running) -> None:
    assert not server.node.observed.feed.is_read
    await call(server.url, "promise.create", create("unheard"))
    assert server.node.observed.feed.number == 0


async def test_a_stream_of_changes_ends_when_the_server_stops() -> None:
    settings = Settings(port=0, store="memory:")
    async with running(settings) as server, reading(server.url) as reader:
        await reader.next()
        server.app.stop()
        assert await reader.next() is None


# --- the feed itself ------------------------------------------------------------------------------------


async def settle(feed: ChangeFeed) -> None:
    async with asyncio.timeout(60):
        await feed.arrival()


async def test_frames_are_bounded_and_whoever_is_behind_them_reads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "frames_max", 3)
    monkeypatch.setattr(changes, "first_s", 0.0)
    monkeypatch.setattr(changes, "rest_s", 0.0)
    feed = ChangeFeed()
    feed.open()
    start = feed.name_of(feed.number)
    for number in range(5):
        feed.note(Changes({f"x{number}": UNKNOWN}))
        await settle(feed)
    assert feed.number == 5
    assert feed.after(0) is None
    assert feed.number_of(start) is None
    assert feed.number_of(feed.name_of(2)) == 2
    kept = feed.after(2)
    assert kept is not None
    assert [frame.number for frame in kept] == [3, 4, 5]


async def test_a_commit_that_began_before_somebody_read_counts_as_more() -> None:
    feed = ChangeFeed()
    feed.note(None)
    feed.open()
    feed.note(None)
    await settle(feed)
    frames = feed.after(0)
    assert frames is not None
    assert frames[0].changes.more


async def test_readers_that_come_after_all_have_left_for_long_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = ChangeFeed()
    feed.open()
    name = feed.name_of(feed.number)
    feed.close()
    feed.open()
    assert feed.number_of(name) == 0
    monkeypatch.setattr(changes, "linger_s", -1.0)
    feed.close()
    feed.open()
    assert feed.number_of(name) is None


def test_a_known_status_is_not_replaced_by_an_unknown_one() -> None:
    found = Changes({"a": ("execution", "running", "pay")})
    found.add(Changes({"a": UNKNOWN, "b": UNKNOWN}))
    assert found.executions == {"a": ("execution", "running", "pay"), "b": UNKNOWN}


def test_no_more_than_so_many_are_named() -> None:
    found = Changes()
    found.add(Changes({f"x{number}": UNKNOWN for number in range(changes.named_max + 1)}))
    assert found.count == changes.named_max
    assert found.more


def is_full(feed: ChangeFeed) -> bool:
    """As it is now."""
    return feed.is_full


async def test_a_frame_that_is_full_asks_commits_for_no_names_and_the_next_one_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "first_s", 0.0)
    monkeypatch.setattr(changes, "rest_s", 0.0)
    monkeypatch.setattr(changes, "busy_rest_s", 3_600.0)
    feed = ChangeFeed()
    feed.open()
    feed.note(Changes({"a": UNKNOWN}))
    await settle(feed)
    assert not is_full(feed)
    feed.note(Changes({f"x{number}": UNKNOWN for number in range(changes.named_max + 1)}))
    assert is_full(feed)
    feed.note(None)  # a commit that was not asked for names
    await settle(feed)
    assert feed.number == 2
    assert not is_full(feed)
    feed.note(Changes({"b": UNKNOWN}))
    for _ in range(20):
        await asyncio.sleep(0)
    assert feed.number == 2
    feed.stop()


async def test_the_first_few_changes_after_a_silence_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "first_s", 0.0)
    monkeypatch.setattr(changes, "rest_s", 3_600.0)
    feed = ChangeFeed()
    feed.open()
    for number in range(1 + changes.quick_max):
        feed.note(Changes({"a": UNKNOWN}))
        await settle(feed)
        assert feed.number == number + 1
    feed.note(Changes({"a": UNKNOWN}))
    for _ in range(20):
        await asyncio.sleep(0)
    assert feed.number == 1 + changes.quick_max
    feed.stop()


async def test_reading_while_much_changes_is_not_told_as_a_change(server: Running) -> None:
    """Else pages would read forever, each because of the others."""
    async with reading(server.url) as reader:
        await reader.next()
        server.node.observed.feed.note(None)  # full from the start
        for _ in range(5):
            await Api(server.url).get("executions")
        await reader.until(lambda event: event.data.get("more") is True)
        number = server.node.observed.feed.number
        for _ in range(5):
            await Api(server.url).get("executions")
        assert not server.node.observed.feed.is_full
        assert server.node.observed.feed.number == number


async def test_frames_come_more_rarely_while_changes_never_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "first_s", 0.0)
    monkeypatch.setattr(changes, "rest_s", 0.02)
    monkeypatch.setattr(changes, "busy_rest_s", 0.2)
    feed, loop = ChangeFeed(), asyncio.get_running_loop()
    feed.open()
    began = loop.time()
    while feed.number < 8 + changes.quick_max:
        feed.note(Changes({"a": UNKNOWN}))
        await asyncio.sleep(0)
    assert loop.time() - began >= 0.02 * (1.5 + 1.5**2 + 1.5**3 + 1.5**4 + 1.5**5)
    feed.stop()
