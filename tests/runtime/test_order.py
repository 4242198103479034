# mypy: disable-error-code="comparison-overlap, unreachable"
"""The order of everything: strict FIFO, push don't run, one dispatch then a full drain. Exact traces."""

from __future__ import annotations

from typing import Any

from holdfast.runtime import Channel, Fiber, Future, gather, race, spawn
from holdfast.runtime.testing import Hand, promise


def test_spawn_returns_before_the_child_runs() -> None:
    trace: list[str] = []

    async def child() -> None:
        trace.append("child")

    async def root() -> None:
        spawn(child)
        trace.append("root goes on")
        await promise("x")

    Hand(root)
    assert trace == ["root goes on", "child"]


def test_fibers_first_run_in_spawn_order() -> None:
    trace: list[int] = []

    async def child(number: int) -> None:
        trace.append(number)

    async def root() -> None:
        for number in range(5):
            spawn(child, number)
        await promise("x")

    Hand(root)
    assert trace == [0, 1, 2, 3, 4]


def test_grandchildren_run_after_all_children_that_were_queued_before_them() -> None:
    trace: list[str] = []

    async def leaf(name: str) -> None:
        trace.append(name)

    async def child(name: str) -> None:
        trace.append(name)
        spawn(leaf, f"{name}.leaf")

    async def root() -> None:
        for name in "abc":
            spawn(child, name)
        await promise("x")

    Hand(root)
    assert trace == ["a", "b", "c", "a.leaf", "b.leaf", "c.leaf"]


def test_a_wake_queues_and_does_not_run() -> None:
    trace: list[str] = []
    box = Channel[int]()

    async def reader() -> None:
        await box.receive
        trace.append("reader")

    async def root() -> None:
        spawn(reader)
        await promise("go")
        box.send(1)
        trace.append("sender goes on")
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["sender goes on", "reader"]


def test_a_finishing_fiber_queues_its_waiters_and_does_not_run_them() -> None:
    trace: list[str] = []

    async def child() -> None:
        await promise("go")
        trace.append("child ends")

    async def bystander() -> None:
        await promise("go2")
        trace.append("bystander")

    async def waiter(task: Fiber[None]) -> None:
        await task
        trace.append("waiter")

    async def root() -> None:
        task = spawn(child)
        spawn(waiter, task)
        spawn(bystander)
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["child ends", "waiter"]


def test_waiters_of_one_task_wake_in_the_order_they_began_to_wait() -> None:
    trace: list[str] = []

    async def child() -> None:
        await promise("go")

    async def waiter(name: str, task: Fiber[None], gate: str) -> None:
        await promise(gate)
        await task
        trace.append(name)

    async def root() -> None:
        task = spawn(child)
        for name in "abc":
            spawn(waiter, name, task, name)
        await promise("x")

    hand = Hand(root)
    for gate in "cab":
        hand.resolve(gate)
    hand.resolve("go")
    assert trace == ["c", "a", "b"]


def test_waiters_of_one_promise_wake_together_in_registration_order() -> None:
    trace: list[str] = []

    async def waiter(name: str, future: Future[Any]) -> None:
        await future
        trace.append(f"{name} wakes")
        await promise(name)

    async def root() -> None:
        future = promise("shared")
        for name in "abc":
            spawn(waiter, name, future)
        await promise("x")

    hand = Hand(root)
    hand.resolve("shared")
    assert trace == ["a wakes", "b wakes", "c wakes"]


def test_what_a_woken_fiber_causes_runs_after_the_fibers_woken_with_it() -> None:
    trace: list[str] = []

    async def echo(name: str) -> None:
        trace.append(f"echo of {name}")

    async def waiter(name: str, future: Future[Any]) -> None:
        await future
        trace.append(name)
        spawn(echo, name)

    async def root() -> None:
        future = promise("shared")
        spawn(waiter, "a", future)
        spawn(waiter, "b", future)
        await promise("x")

    hand = Hand(root)
    hand.resolve("shared")
    assert trace == ["a", "b", "echo of a", "echo of b"]


def test_all_consequences_of_one_completion_are_over_before_the_next_is_seen() -> None:
    trace: list[str] = []

    async def relay(number: int, before: Future[Any]) -> None:
        await before
        trace.append(f"relay {number}")

    async def root() -> None:
        future: Future[Any] = promise("a")
        for number in range(3):
            future = spawn(relay, number, future)
        await promise("b")
        trace.append("b")
        await promise("x")

    hand = Hand(root)
    hand.resolve("a")
    hand.resolve("b")
    assert trace == ["relay 0", "relay 1", "relay 2", "b"]


def test_completions_are_seen_in_the_order_of_dispatch_not_of_issue() -> None:
    trace: list[str] = []

    async def waiter(name: str) -> None:
        await promise(name)
        trace.append(name)

    async def root() -> None:
        await gather([waiter(name) for name in "abcd"])

    hand = Hand(root)
    for name in "dbca":
        hand.resolve(name)
    assert trace == ["d", "b", "c", "a"]
    assert hand.done


def test_the_ping_pong_over_channels_runs_in_one_drain() -> None:
    trace: list[str] = []

    async def worker(inbox: Channel[int], outbox: Channel[int]) -> None:
        value = await inbox.receive
        trace.append("worker woke")
        outbox.send(value * 2)

    async def root() -> int:
        inbox, outbox = Channel[int](), Channel[int]()
        task = spawn(worker, inbox, outbox)
        seven = await promise("anchor")
        trace.append("anchor")
        inbox.send(seven * 6)
        trace.append("sent")
        reply = await outbox.receive
        trace.append("reply")
        await task
        trace.append("joined")
        return reply

    hand = Hand(root)
    hand.resolve("anchor", 7)
    assert hand.result() == 84
    assert trace == ["anchor", "sent", "worker woke", "reply", "joined"]


def test_joining_a_finished_task_does_not_let_others_run_in_between() -> None:
    trace: list[str] = []

    async def quick() -> None:
        trace.append("quick")

    async def other() -> None:
        trace.append("other")

    async def root() -> None:
        task = spawn(quick)
        await promise("go")
        spawn(other)
        await task
        trace.append("root")
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["quick", "root", "other"]


def test_two_fibers_alternate_through_the_queue() -> None:
    trace: list[str] = []

    async def player(name: str, inbox: list[Channel[None]], outbox: list[Channel[None]]) -> None:
        for turn in range(3):
            await inbox[turn].receive
            trace.append(f"{name}{turn}")
            outbox[turn].send(None)

    async def root() -> None:
        ping: list[Channel[None]] = [Channel() for _ in range(4)]
        pong: list[Channel[None]] = [Channel() for _ in range(3)]
        left = spawn(player, "ping", ping, pong)
        right = spawn(player, "pong", pong, ping[1:])
        ping[0].send(None)
        await gather(left, right)

    Hand(root).result()
    assert trace == ["ping0", "pong0", "ping1", "pong1", "ping2", "pong2"]


def test_the_timeout_race_of_the_seed_plays_out_as_described() -> None:
    async def root() -> Any:
        return await race(promise("api"), promise("sleep"))

    hand = Hand(root)
    assert hand.waiting == ("api", "sleep")
    hand.resolve("sleep", "timed out")
    assert hand.result() == "timed out"
    assert hand.scheduler.pending == ("api",)


def test_the_spawn_and_gather_example_of_the_seed_plays_out_as_described() -> None:
    trace: list[str] = []

    async def fetch(name: str) -> str:
        value: str = await promise(name)
        trace.append(f"{name} done")
        return value

    async def root() -> str:
        left, right = await gather(spawn(fetch, "a"), spawn(fetch, "b"))
        trace.append("main")
        return left + right

    hand = Hand(root)
    assert hand.waiting == ("a", "b")
    hand.resolve("a", "A")
    assert trace == ["a done"]
    assert hand.waiting == ("b",)
    hand.resolve("b", "B")
    assert trace == ["a done", "b done", "main"]
    assert hand.result() == "AB"


def test_a_fiber_woken_and_then_interrupted_keeps_its_one_place_in_the_queue() -> None:
    trace: list[str] = []

    async def first(box: Channel[int]) -> None:
        try:
            await box.receive
            trace.append("first: value")
        except RuntimeError:
            trace.append("first: interrupted")
        await promise("first again")
        trace.append("first: again")

    async def second(box: Channel[int]) -> None:
        await box.receive
        trace.append("second")

    async def root() -> None:
        box = Channel[int]()
        task = spawn(first, box)
        spawn(second, box)
        await promise("go")
        box.send(1)
        task.interrupt(RuntimeError("now"))
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["first: interrupted", "second"]
    hand.resolve("first again")
    assert trace == ["first: interrupted", "second", "first: again"]
