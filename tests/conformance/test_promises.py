"""promise.get, create, settle, register_callback, register_listener and search, beyond what the seeds say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire import CLIENT, FAR, RETRY_MS, T0, WORKERS, Json, Wire, ids

# -- create ------------------------------------------------------------------------------------------------


def test_a_new_promise_has_exactly_these_fields(wire: Wire) -> None:
    assert wire.create("p", tags={"k": "v"}, param={"data": "eA=="}).promise == {
        "id": "p",
        "state": "pending",
        "param": {"data": "eA=="},
        "value": {},
        "tags": {"k": "v"},
        "timeoutAt": FAR,
        "createdAt": T0,
    }


def test_param_and_tags_are_empty_by_default(wire: Wire) -> None:
    promise = wire.send("promise.create", {"id": "p", "timeoutAt": FAR}).promise
    assert (promise["param"], promise["tags"]) == ({}, {})


@pytest.mark.parametrize(
    "param",
    [
        {},
        {"data": ""},
        {"data": "eA=="},
        {"headers": {}},
        {"headers": {"a": "b"}},
        {"headers": {}, "data": "x"},
    ],
)
def test_a_param_is_stored_and_shown_as_it_was_sent(wire: Wire, param: Json) -> None:
    wire.create("p", param=param)
    assert wire.get("p").promise["param"] == param


def test_a_param_whose_data_is_null_has_no_data(wire: Wire) -> None:
    answer = wire.create("p", param={"data": None})
    assert (answer.status, answer.promise["param"]) == (200, {})


@pytest.mark.parametrize("text", ["not base64!", " eA== ", "\n", "€", "x" * 10_000])
def test_data_is_never_decoded(wire: Wire, text: str) -> None:
    assert wire.create("p", param={"data": text}).promise["param"] == {"data": text}


@pytest.mark.parametrize(
    "name",
    ["a b", "../up", "%00", "%2e%2e", "line\r\nbreak", "{{ }}", "\"'", "ünï", "\u202eabc", "a:b.c/d", "🦀"],
)
def test_any_text_can_be_an_id(wire: Wire, name: str) -> None:
    assert wire.create(name, target=WORKERS).promise["id"] == name
    assert wire.get(name).promise["id"] == name
    assert wire.task(name)["id"] == name


@pytest.mark.parametrize("key", ["__proto__", "constructor", "a.b", "", "é"])
def test_any_text_can_be_a_tag(wire: Wire, key: str) -> None:
    assert wire.create("p", tags={key: "v"}).promise["tags"] == {key: "v"}


@pytest.mark.parametrize(
    ("timer", "state"), [(None, "rejected_timedout"), ("true", "resolved"), ("True", "rejected_timedout")]
)
@pytest.mark.parametrize("timeout_at", [0, T0 - 1, T0])
def test_a_promise_created_past_its_timeout_is_born_settled(
    wire: Wire, timeout_at: int, timer: str | None, state: str
) -> None:
    tags = {} if timer is None else {"resonate:timer": timer}
    assert wire.create("p", timeout_at=timeout_at, tags=tags).promise == {
        "id": "p",
        "state": state,
        "param": {},
        "value": {},
        "tags": tags,
        "timeoutAt": timeout_at,
        "createdAt": timeout_at,
        "settledAt": timeout_at,
    }
    assert wire.stored("promises", "p")["state"] == state


def test_a_promise_born_settled_has_a_fulfilled_task_at_version_zero_and_no_message(wire: Wire) -> None:
    wire.create("t", target=WORKERS, timeout_at=T0)
    assert wire.stored("tasks", "t") == {"id": "t", "state": "fulfilled", "version": 0, "resumes": 0}
    snap = wire.snap()
    assert (snap["messages"], snap["taskTimeouts"], snap["promiseTimeouts"]) == ([], [], [])


def test_a_new_task_has_exactly_these_fields(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.task("t") == {"id": "t", "state": "pending", "version": 0, "resumes": 0}


def test_a_new_task_is_offered_now_and_again_after_the_retry_interval(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.offers("t") == [0]
    assert wire.due("t") == (0, T0 + RETRY_MS)


def test_creating_an_existing_promise_changes_nothing(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    before = wire.snap()
    wire.now = T0 + 5
    assert wire.create("t", target="poll://any@elsewhere", timeout_at=1).status == 200
    assert wire.snap() == before


def test_creating_an_existing_promise_with_a_target_makes_no_task(wire: Wire) -> None:
    wire.create("p")
    wire.create("p", target=WORKERS)
    assert wire.send("task.get", {"id": "p"}).status == 404


def key(name: str, value: str | None) -> dict[str, Any]:
    return {} if value is None else {name: value}


@pytest.mark.parametrize(
    ("stored", "presented", "status"),
    [("k", "k", 200), ("k", "other", 409), ("k", None, 200), (None, "k", 200)],
)
def test_a_create_key_conflicts_only_with_a_different_key(
    wire: Wire, stored: str | None, presented: str | None, status: int
) -> None:
    first = wire.create("p", **key("ikc", stored)).promise
    before = wire.snap()
    answer = wire.create("p", **key("ikc", presented))
    assert answer.status == status
    assert status != 200 or answer.promise == first
    assert wire.snap() == before


@pytest.mark.parametrize("value", ["", "a\r\nSet-Cookie: x", "é", "v" * 4_096])
def test_any_text_can_be_a_header(wire: Wire, value: str) -> None:
    param = {"headers": {"name": value}}
    assert wire.create("p", param=param).promise["param"] == param


# -- settle ------------------------------------------------------------------------------------------------


def test_a_settled_promise_has_exactly_these_fields(wire: Wire) -> None:
    wire.create("p")
    wire.now = T0 + 7
    assert wire.settle("p", "rejected", value={"headers": {"h": "1"}, "data": "eA=="}).promise == {
        "id": "p",
        "state": "rejected",
        "param": {},
        "value": {"headers": {"h": "1"}, "data": "eA=="},
        "tags": {},
        "timeoutAt": FAR,
        "createdAt": T0,
        "settledAt": T0 + 7,
    }


def test_a_promise_may_be_settled_without_a_value(wire: Wire) -> None:
    wire.create("p")
    assert wire.settle("p").promise["value"] == {}


def test_a_timer_may_be_settled_before_its_time(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10, tags={"resonate:timer": "true"})
    assert wire.settle("p", "rejected_canceled").promise["state"] == "rejected_canceled"


@pytest.mark.parametrize("state", ["pending", "rejected_timedout", "fulfilled", "", "RESOLVED"])
@pytest.mark.parametrize("name", ["p", "missing"])
def test_a_state_no_client_may_set_is_refused_before_any_lookup(wire: Wire, name: str, state: str) -> None:
    wire.create("p")
    before = wire.snap()
    assert wire.settle(name, state).status == 400
    assert wire.snap() == before


@pytest.mark.parametrize(
    ("stored", "presented", "status"),
    [("k", "k", 200), ("k", "other", 409), ("k", None, 200), (None, "k", 200)],
)
def test_a_settle_key_conflicts_only_with_a_different_key(
    wire: Wire, stored: str | None, presented: str | None, status: int
) -> None:
    wire.create("p")
    first = wire.settle("p", **key("iku", stored)).promise
    before = wire.snap()
    answer = wire.settle("p", "rejected", **key("iku", presented))
    assert answer.status == status
    assert status != 200 or answer.promise == first
    assert wire.snap() == before


def test_the_create_key_and_the_settle_key_are_different_things(wire: Wire) -> None:
    wire.create("p", ikc="create")
    assert wire.settle("p", iku="settle").status == 200


def test_settling_leaves_param_tags_and_times_alone(wire: Wire) -> None:
    before = wire.create("p", param={"data": "eA=="}, tags={"k": "v"}).promise
    after = wire.settle("p").promise
    for field in ("id", "param", "tags", "timeoutAt", "createdAt"):
        assert after[field] == before[field]


# -- callbacks ---------------------------------------------------------------------------------------------


def test_a_callback_is_registered_once_however_often_it_is_asked_for(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("dep")
    wire.callback("dep", "t")
    wire.callback("dep", "t")
    assert wire.snap()["callbacks"] == [{"awaiter": "t", "awaited": "dep"}]


def test_a_promise_cannot_await_itself(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.callback("t", "t").status == 400


def test_awaiting_itself_is_refused_even_when_it_does_not_exist(wire: Wire) -> None:
    assert wire.callback("missing", "missing").status == 400


def test_awaiting_a_promise_that_does_not_exist_is_404(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.callback("missing", "t").status == 404


def test_a_missing_awaited_comes_before_a_missing_awaiter(wire: Wire) -> None:
    assert wire.callback("missing", "missing-too").status == 404


def test_an_awaiter_that_does_not_exist_is_422(wire: Wire) -> None:
    wire.create("dep")
    assert wire.callback("dep", "missing").status == 422


def test_an_awaiter_without_a_target_is_422(wire: Wire) -> None:
    wire.create("dep")
    wire.create("p")
    assert wire.callback("dep", "p").status == 422


def test_a_missing_awaiter_is_422_even_when_the_awaited_is_settled(wire: Wire) -> None:
    wire.create("dep")
    wire.settle("dep")
    assert wire.callback("dep", "missing").status == 422


def test_an_awaiter_that_is_settled_registers_nothing(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t")
    wire.fulfill("t")
    assert wire.callback("dep", "t").status == 200
    assert wire.snap()["callbacks"] == []


@pytest.mark.parametrize("state", ["pending", "acquired", "halted"])
def test_a_callback_registered_outside_a_suspension_is_counted_when_it_fires(wire: Wire, state: str) -> None:
    wire.create("t", target=WORKERS)
    wire.create("dep")
    if state == "acquired":
        wire.acquire("t")
    if state == "halted":
        wire.halt("t")
    wire.callback("dep", "t")
    wire.settle("dep")
    task = wire.task("t")
    assert (task["state"], task["resumes"]) == (state, 1)


def test_a_callback_registered_while_acquired_still_wakes_a_later_suspension(wire: Wire) -> None:
    wire.create("asked")
    wire.create("other")
    wire.acquired("t")
    wire.callback("asked", "t")
    wire.suspend("t", "other")
    wire.settle("asked")
    assert wire.task("t")["state"] == "pending"


# -- listeners ---------------------------------------------------------------------------------------------


def test_listening_to_a_promise_that_does_not_exist_is_404(wire: Wire) -> None:
    assert wire.listen("missing").status == 404


@pytest.mark.parametrize("address", ["", "nowhere", "poll://uni@clients"])
def test_a_bad_address_is_refused_before_any_lookup(wire: Wire, address: str) -> None:
    assert wire.listen("missing", address).status == 400


@pytest.mark.parametrize(
    "address",
    [
        "poll://any@group",
        "poll://any@group/id",
        "poll://uni@group/id",
        "poll://any@two words",
        "poll://uni@Mixed Case/Some Id",
        "http://localhost:9000/hook",
        "https://example.com/hook?x=1",
    ],
)
def test_a_listener_may_live_at_any_deliverable_address(wire: Wire, address: str) -> None:
    wire.create("p")
    assert wire.listen("p", address).status == 200
    assert wire.snap()["listeners"] == [{"id": "p", "address": address}]


def test_an_address_listens_once_however_often_it_asks(wire: Wire) -> None:
    wire.create("p")
    wire.listen("p")
    wire.listen("p")
    assert wire.snap()["listeners"] == [{"id": "p", "address": CLIENT}]


def test_a_listener_is_told_and_forgotten(wire: Wire) -> None:
    wire.create("p")
    wire.listen("p")
    settled = wire.settle("p", value={"data": "eA=="}).promise
    assert wire.messages(CLIENT) == [{"kind": "unblock", "head": {}, "data": {"promise": settled}}]
    assert wire.snap()["listeners"] == []


# -- search ------------------------------------------------------------------------------------------------


@pytest.fixture
def five(wire: Wire) -> Wire:
    """e, d, c, b, a in order of birth; a and b resolved; c canceled; tags by letter."""
    for name in "edcba":
        tags = {"letter": name, "half": "first" if name < "c" else "second"}
        wire.create(name, tags=tags)
    wire.settle("a")
    wire.settle("b")
    wire.settle("c", "rejected_canceled")
    return wire


def found(wire: Wire, **query: object) -> list[str]:
    answer = wire.send("promise.search", query)
    assert answer.status == 200, answer
    return ids(answer.data["promises"])


def test_a_search_without_conditions_finds_everything_by_id(five: Wire) -> None:
    assert found(five) == list("abcde")


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ("pending", "de"),
        ("resolved", "ab"),
        ("rejected", ""),
        ("rejected_canceled", "c"),
        ("rejected_timedout", ""),
    ],
)
def test_a_search_finds_by_state(five: Wire, state: str, names: str) -> None:
    assert found(five, state=state) == list(names)


def test_a_search_finds_promises_that_have_all_the_tags(five: Wire) -> None:
    assert found(five, tags={"half": "first"}) == ["a", "b"]
    assert found(five, tags={"half": "first", "letter": "b"}) == ["b"]
    assert found(five, tags={"half": "second", "letter": "b"}) == []


def test_a_search_by_origin_finds_what_has_it_wherever_it_lies(wire: Wire) -> None:
    oak = {"resonate:origin": "oak"}
    for name in ("oak", "oak:1", "oak:1.1", "oak.a", "birch", "oaks", "a", "z:1"):
        wire.create(name, tags=oak if name != "birch" else {"resonate:origin": "birch"})
    wire.create("oak:2", tags={"resonate:origin": "birch"})
    wire.create("oak:3")
    wire.settle("oak:1")
    everything = ["a", "oak", "oak.a", "oak:1", "oak:1.1", "oaks", "z:1"]
    assert found(wire, tags=oak) == everything
    assert found(wire, tags=oak, state="resolved") == ["oak:1"]
    assert found(wire, tags=oak, prefix="oak:") == ["oak:1", "oak:1.1"]
    assert found(wire, tags={"resonate:origin": "birch"}) == ["birch", "oak:2"]
    pages: list[str] = []
    cursor: str | None = None
    while cursor is not None or not pages:
        page = wire.send("promise.search", {"tags": oak, "limit": 2} | ({"cursor": cursor} if cursor else {}))
        pages += [promise["id"] for promise in page.data["promises"]]
        cursor = page.data.get("cursor")
    assert pages == everything


def test_a_search_joins_its_conditions(five: Wire) -> None:
    assert found(five, state="pending", tags={"half": "second"}) == ["d", "e"]


def test_a_search_finds_by_the_beginning_of_the_id(wire: Wire) -> None:
    for name in ("order.1", "order.2", "orders", "other", "Order.1"):
        wire.create(name)
    assert found(wire, prefix="order.") == ["order.1", "order.2"]


@pytest.mark.parametrize("prefix", ["%", "_", "a%", "*", "[a-e]", "a' OR 1=1", "%" * 1_000, "(a+)+$", "\\"])
def test_a_prefix_is_plain_text(five: Wire, prefix: str) -> None:
    assert found(five, prefix=prefix) == []


def test_a_prefix_of_special_characters_finds_ids_that_begin_so(wire: Wire) -> None:
    wire.create("50%_off")
    wire.create("500 off")
    assert found(wire, prefix="50%_") == ["50%_off"]


def test_pages_follow_each_other_without_gap_or_overlap(five: Wire) -> None:
    first = five.send("promise.search", {"limit": 2})
    assert (ids(first.data["promises"]), first.data["cursor"]) == (["a", "b"], "b")
    second = five.send("promise.search", {"limit": 2, "cursor": "b"})
    assert (ids(second.data["promises"]), second.data["cursor"]) == (["c", "d"], "d")
    last = five.send("promise.search", {"limit": 2, "cursor": "d"})
    assert ids(last.data["promises"]) == ["e"]
    assert "cursor" not in last.data


def test_a_full_last_page_has_no_cursor(five: Wire) -> None:
    assert "cursor" not in five.send("promise.search", {"limit": 5}).data


def test_a_cursor_need_not_be_an_id(five: Wire) -> None:
    assert found(five, cursor="bb") == ["c", "d", "e"]
    assert found(five, cursor="zzz") == []


def test_a_page_counts_what_matches_and_not_what_was_looked_at(five: Wire) -> None:
    answer = five.send("promise.search", {"state": "pending", "limit": 1})
    assert (ids(answer.data["promises"]), answer.data["cursor"]) == (["d"], "d")


def test_a_page_has_a_hundred_promises_by_default(wire: Wire) -> None:
    for number in range(101):
        wire.create(f"p{number:03}")
    answer = wire.send("promise.search", {})
    assert (len(answer.data["promises"]), answer.data["cursor"]) == (100, "p099")


@pytest.mark.parametrize("limit", [1, 1_000])
def test_the_smallest_and_the_largest_page_are_allowed(five: Wire, limit: int) -> None:
    assert five.send("promise.search", {"limit": limit}).status == 200


@pytest.mark.parametrize("limit", [0, -1, 1_001, 10**9])
@pytest.mark.parametrize("kind", ["promise.search", "task.search", "schedule.search"])
def test_a_page_outside_the_limits_is_refused(wire: Wire, kind: str, limit: int) -> None:
    assert wire.send(kind, {"limit": limit}).status == 400


def test_a_search_orders_ids_by_their_characters(wire: Wire) -> None:
    names = ["Z", "a", "a.1", "a.10", "a.2", "é", "z", "🦀", "\uffee"]
    for name in reversed(names):
        wire.create(name)
    assert found(wire) == sorted(names, key=lambda name: name.encode())


def test_a_search_sees_a_timeout_nobody_wrote_down(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10)
    wire.create("timer", timeout_at=T0 + 10, tags={"resonate:timer": "true"})
    wire.now = T0 + 10
    assert found(wire, state="pending") == []
    assert found(wire, state="rejected_timedout") == ["p"]
    assert found(wire, state="resolved") == ["timer"]
