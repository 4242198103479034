"""Messages and addresses: who is told what, in which words, and how many times."""

from __future__ import annotations

import pytest

from tests.conformance.wire import CLIENT, MINUTE, SECOND, T0, WORKERS, A, B, Wire

OTHER = "https://example.com/hook"

# -- execute -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "poll://any@group",
        "poll://any@group/id",
        "poll://uni@group/id",
        "poll://any@Two Words",
        "http://localhost:9000",
        "https://example.com/a/b?c=d",
    ],
)
def test_an_offer_goes_to_the_target_as_it_was_written(wire: Wire, target: str) -> None:
    wire.create("t", target=target)
    assert [row["address"] for row in wire.snap()["messages"]] == [target]


BAD_ADDRESSES = [
    "",
    " ",
    "nowhere",
    "workers",
    "poll://",
    "poll://any",
    "poll://any@",
    "poll://@group",
    "poll://group",
    "poll://uni@group",
    "poll://uni@group/",
    "poll://uni@/id",
    "poll://all@group",
    "poll:any@group",
    "POLL//any@group",
    "http://",
    "https://",
    "http:/host",
    "ftp://host",
    "bash://x",
    "gcps://project/topic",
    "file:///etc/passwd",
    "javascript:alert(1)",
]


@pytest.mark.parametrize("target", BAD_ADDRESSES)
def test_a_target_that_is_no_address_is_refused(wire: Wire, target: str) -> None:
    assert wire.create("t", target=target).status == 400
    assert wire.task_create("t", target=target).status == 400
    assert wire.get("t").status == 404


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_a_listener_at_no_address_is_refused(wire: Wire, address: str) -> None:
    wire.create("p")
    assert wire.listen("p", address).status == 400
    assert wire.snap()["listeners"] == []


def test_a_bad_target_inside_a_fence_is_refused_outside(wire: Wire) -> None:
    wire.acquired("t")
    data = {"id": "x", "timeoutAt": T0 + MINUTE, "tags": {"resonate:target": "nowhere"}}
    assert wire.fence("t", "promise.create", data).status == 400


def test_one_offer_waits_for_each_task_and_the_newest_version_counts(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for version in (0, 1, 2):
        wire.acquire("t", version)
        wire.now += 2 * SECOND
        wire.release("t", version + 1)
        assert wire.offers("t") == [version + 1]


def test_a_retry_does_not_pile_up_offers(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for turn in range(1, 5):
        wire.tick(T0 + turn * MINUTE)
    assert wire.offers("t") == [0]


def test_the_head_of_a_waiting_message_is_empty(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.listen("t")
    wire.settle("t")
    assert {str(message["head"]) for message in wire.messages()} == {"{}"}


# -- unblock -----------------------------------------------------------------------------------------------


def test_one_notice_waits_for_each_promise_and_address(wire: Wire) -> None:
    for name in ("p", "q"):
        wire.create(name)
        for address in (CLIENT, OTHER):
            wire.listen(name, address)
        wire.settle(name)
    told = sorted(
        (row["address"], row["message"]["data"]["promise"]["id"]) for row in wire.snap()["messages"]
    )
    assert told == sorted((address, name) for address in (CLIENT, OTHER) for name in ("p", "q"))


def test_a_notice_carries_the_whole_settled_record(wire: Wire) -> None:
    wire.create("p", param={"data": "cA=="}, tags={"k": "v"})
    wire.listen("p")
    settled = wire.settle("p", "rejected", value={"data": "dg=="}).promise
    assert wire.messages(CLIENT)[0]["data"] == {"promise": settled}


def test_nobody_is_told_about_a_promise_that_is_pending(wire: Wire) -> None:
    wire.create("p")
    wire.listen("p")
    wire.tick(T0 + MINUTE)
    assert wire.messages() == []


# -- dialects ----------------------------------------------------------------------------------------------


def kinds(wire: Wire) -> list[str]:
    return sorted(message["kind"] for message in wire.messages())


@pytest.mark.parametrize(("creator", "kind"), [(A, "execute"), (B, "invoke")])
@pytest.mark.parametrize("other", [A, B])
def test_a_task_is_offered_in_the_dialect_of_its_creator(
    wire: Wire, creator: str, kind: str, other: str
) -> None:
    with wire.dialect(creator):
        wire.task_create("t")
    wire.version = other
    wire.now = T0 + 2 * SECOND
    wire.release("t")
    assert kinds(wire) == [kind]


@pytest.mark.parametrize(("creator", "kind"), [(A, "execute"), (B, "resume")])
@pytest.mark.parametrize("other", [A, B])
def test_a_woken_task_is_offered_in_the_dialect_of_its_creator(
    wire: Wire, creator: str, kind: str, other: str
) -> None:
    with wire.dialect(creator):
        wire.task_create("t")
    wire.version = other
    wire.create("dep")
    wire.suspend("t", "dep")
    wire.settle("dep")
    assert kinds(wire) == [kind]


@pytest.mark.parametrize(("listener", "kind"), [(A, "unblock"), (B, "notify")])
@pytest.mark.parametrize("other", [A, B])
def test_a_listener_is_told_in_the_dialect_it_registered_in(
    wire: Wire, listener: str, kind: str, other: str
) -> None:
    wire.version = other
    wire.create("p")
    with wire.dialect(listener):
        wire.listen("p")
    wire.settle("p")
    assert kinds(wire) == [kind]


def test_two_listeners_of_one_promise_may_speak_differently(wire: Wire) -> None:
    wire.create("p")
    wire.listen("p", CLIENT)
    with wire.dialect(B):
        wire.listen("p", OTHER)
    wire.settle("p")
    assert [message["kind"] for message in wire.messages(CLIENT)] == ["unblock"]
    assert [message["kind"] for message in wire.messages(OTHER)] == ["notify"]


def test_a_task_made_inside_a_fence_speaks_the_dialect_of_the_fence(wire: Wire) -> None:
    wire.task_create("t")
    with wire.dialect(B):
        wire.fence(
            "t", "promise.create", {"id": "x", "timeoutAt": T0 + MINUTE, "tags": {"resonate:target": WORKERS}}
        )
    assert kinds(wire) == ["invoke"]


def test_a_retry_after_a_wake_still_says_resume(wire: Wire) -> None:
    wire.version = B
    wire.create("dep")
    wire.task_create("t")
    wire.suspend("t", "dep")
    wire.settle("dep")
    wire.tick(T0 + MINUTE)
    assert kinds(wire) == ["resume"]


def test_the_acquire_reply_is_a_union_in_both_dialects(wire: Wire) -> None:
    for dialect in (A, B):
        wire.create(dialect, target=WORKERS)
        answer = wire.send(
            "task.acquire", {"id": dialect, "version": 0, "pid": "p", "ttl": 1}, version=dialect
        )
        assert set(answer.data) == {"task", "promise", "preload", "kind", "data"}
