"""Streams: numbered rows of promises below an execution. Each sentence of protocol.md about them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire import (
    CLIENT,
    FAR,
    HOUR,
    MINUTE,
    SECOND,
    T0,
    WORKERS,
    A,
    Answer,
    B,
    Json,
    Wire,
    creation,
    ids,
    sub,
)

OVER = {"headers": {"holdfast-code": "HF1402"}}


def append(wire: Wire, stream: str = "in", name: str = "t", **more: Any) -> Answer:
    return wire.send("stream.append", {"id": name, "stream": stream, **more})


def tell(wire: Wire, data: str = "x", name: str = "t", **more: Any) -> Answer:
    answer = append(wire, "in", name, value={"data": data}, **more)
    assert answer.status == 200, answer
    return answer


def await_next(wire: Wire, number: int, stream: str = "in", name: str = "t") -> Answer:
    return wire.send("stream.next", {"id": name, "stream": stream, "number": number})


def read(wire: Wire, stream: str = "in", name: str = "t", **more: Any) -> Json:
    answer = wire.send("stream.read", {"id": name, "stream": stream, **more})
    assert answer.status == 200, answer
    found: Json = answer.data
    return found


def fenced(wire: Wire, kind: str, data: Json, name: str = "t", version: int = 1) -> Answer:
    """The reply inside the reply of a fence."""
    answer = wire.fence(name, kind, data, version)
    assert answer.status == 200, answer
    inner = answer.data["action"]
    return Answer(inner["kind"], inner["head"], inner["data"])


def emit(wire: Wire, stream: str, data: str = "x", name: str = "t", *, under: str | None = None) -> Answer:
    element = {"id": name, "stream": stream, "value": {"data": data}}
    return fenced(wire, "stream.append", element, under or name)


def read_up_to(wire: Wire, number: int, name: str = "t") -> Answer:
    return fenced(wire, "stream.next", {"id": name, "stream": "in", "number": number}, name)


def record_of(wire: Wire, name: str = "t") -> Json:
    [record] = [record for record in wire.snap()["streams"] if record["id"] == name]
    found: Json = record
    return found


def is_refused(answer: Answer, status: int, code: str) -> bool:
    return (answer.status, answer.head.get("code")) == (status, code)


# -- appending ---------------------------------------------------------------------------------------------


def test_an_element_is_a_resolved_promise_below_the_execution(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    answer = tell(wire, "hello")
    assert answer.data["number"] == 1
    assert answer.promise == {
        "id": "t:in.1",
        "state": "resolved",
        "param": {},
        "value": {"data": "hello"},
        "tags": {"resonate:origin": "t", "resonate:parent": "t", "holdfast:stream": "in"},
        "timeoutAt": FAR,
        "createdAt": T0,
        "settledAt": T0,
        "iku": "261",
    }
    assert wire.get("t:in.1").promise == answer.promise


def test_numbers_are_given_one_after_the_other(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert [tell(wire).data["number"] for _ in range(4)] == [1, 2, 3, 4]


def test_appends_of_one_array_get_numbers_in_its_order(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    message = {"id": "t", "stream": "in"}
    answers = wire.batch(*[("stream.append", {**message, "value": {"data": data}}) for data in "abc"])
    assert [(answer.data["number"], answer.promise["value"]["data"]) for answer in answers] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]


def test_every_execution_counts_for_itself(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("u", target=WORKERS)
    tell(wire)
    assert tell(wire, name="u").data["number"] == 1


def test_below_a_called_execution_a_full_stop_stands_before_the_stream(wire: Wire) -> None:
    wire.create("t:3", target=WORKERS, tags={"resonate:origin": "t"})
    answer = tell(wire, name="t:3")
    assert answer.promise["id"] == "t:3.in.1"
    assert answer.promise["tags"]["resonate:origin"] == "t"


def test_a_claim_does_not_preload_elements(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"resonate:branch": "t"})
    tell(wire, key="k")
    wire.create("t:1", tags={"resonate:branch": "t"})
    assert ids(wire.acquire("t").data["preload"]) == ["t:1"]


@pytest.mark.parametrize("dialect", [A, B])
def test_readers_of_both_dialects_see_elements_as_ordinary_promises(wire: Wire, dialect: str) -> None:
    wire.create("t", target=WORKERS)
    with wire.dialect(dialect):
        tell(wire, "x")
        assert wire.get("t:in.1").promise["state"] == "resolved"
        found = wire.send("promise.search", {"prefix": "t:in."}).data["promises"]
    assert ids(found) == ["t:in.1"]


def test_an_execution_can_wait_for_an_element_of_another(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    await_next(wire, 1)
    wire.acquired("u")
    assert wire.suspend("u", "t:in.1").status == 200
    tell(wire)
    assert wire.task("u")["state"] == "pending"


def test_to_what_never_was_nothing_is_appended(wire: Wire) -> None:
    assert is_refused(append(wire), 404, "HF1401")
    assert is_refused(await_next(wire, 1), 404, "HF1401")
    assert is_refused(wire.send("stream.read", {"id": "t", "stream": "in"}), 404, "HF1401")
    assert is_refused(wire.send("stream.list", {"id": "t"}), 404, "HF1401")


def test_a_promise_without_a_task_is_no_execution(wire: Wire) -> None:
    wire.create("t")
    assert is_refused(append(wire), 404, "HF1401")


def test_to_what_is_over_nothing_is_appended(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.settle("t")
    before = wire.snap()
    assert is_refused(append(wire), 409, "HF1402")
    assert wire.snap() == before


@pytest.mark.parametrize(("now", "status"), [(T0 + SECOND - 1, 200), (T0 + SECOND, 409), (T0 + HOUR, 409)])
def test_an_execution_is_over_at_the_instant_of_its_deadline(wire: Wire, now: int, status: int) -> None:
    wire.create("t", target=WORKERS, timeout_at=T0 + SECOND)
    wire.now = now
    assert append(wire).status == status
    assert await_next(wire, 2 if status == 200 else 1).status == status


def test_a_halted_execution_still_receives(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.halt("t")
    assert append(wire).status == 200


@pytest.mark.parametrize(
    "name", ["", "inn", "in.1", "out", "out.", "out.a b", "out.a.b", "value.ä", "out." + "x" * 101, "Out.x"]
)
def test_other_names_are_refused(wire: Wire, name: str) -> None:
    wire.acquired("t")
    assert is_refused(append(wire, name), 400, "HF1001")
    assert wire.fence("t", "stream.append", {"id": "t", "stream": name}).status == 400


@pytest.mark.parametrize("name", ["out.a", "value.A_b-9", "out." + "x" * 100])
def test_these_are_names(wire: Wire, name: str) -> None:
    wire.acquired("t")
    assert emit(wire, name).status == 200


def test_the_id_of_an_element_has_at_most_as_many_bytes_as_any(wire: Wire) -> None:
    name = "t" * 1_020
    wire.create(name, target=WORKERS)
    assert is_refused(append(wire, name=name), 400, "HF1001")
    fits = "u" * 1_018
    wire.create(fits, target=WORKERS)
    assert append(wire, name=fits, key="k").status == 200


def test_a_dependent_cannot_be_made_by_a_client(wire: Wire) -> None:
    tags = {"holdfast:dependent": "t"}
    assert is_refused(wire.create("p", tags=tags), 400, "HF1001")
    wire.create("t", target=WORKERS)
    asked = {"timeoutAt": FAR, "tags": tags}
    assert is_refused(append(wire, answer=asked), 400, "HF1001")


# -- keys --------------------------------------------------------------------------------------------------


def test_the_same_key_again_gets_the_first_element_and_changes_nothing(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    first = tell(wire, "a", key="k")
    before = wire.snap()
    wire.now += SECOND
    again = append(wire, value={"data": "b"}, key="k")
    assert again.data == first.data
    assert wire.snap() == before


def test_in_one_array_too(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    message = ("stream.append", {"id": "t", "stream": "in", "key": "k"})
    first, second = wire.batch(message, message)
    assert first.data == second.data
    assert record_of(wire)["counts"] == {"in": 1}


def test_the_record_of_a_key_is_a_promise_that_names_the_number(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire)
    element = tell(wire, key="evt-9").promise
    kept = wire.get("t:in~evt-9").promise
    assert (kept["state"], kept["value"], kept["tags"]) == (
        "resolved",
        {"headers": {"holdfast:number": "2"}},
        element["tags"],
    )
    assert element["ikc"] == "evt-9"


def test_a_key_of_one_stream_is_none_of_another(wire: Wire) -> None:
    wire.acquired("t")
    for stream in ("out.a", "out.b"):
        element = {"id": "t", "stream": stream, "key": "k"}
        assert fenced(wire, "stream.append", element).data["promise"]["id"] == f"t:{stream}.1"


def test_the_same_key_again_gets_its_answer_promise(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    asked = {"timeoutAt": T0 + HOUR}
    first = tell(wire, key="k", answer=asked)
    assert tell(wire, key="k", answer=asked).data == first.data
    wire.settle("t:in.1.answer", value={"data": "yes"})
    assert tell(wire, key="k").data["answer"]["value"] == {"data": "yes"}


def test_the_same_key_gets_the_first_element_when_the_execution_is_over(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    first = tell(wire, key="k")
    wire.settle("t")
    assert append(wire, key="k").data == first.data
    assert is_refused(append(wire, key="l"), 409, "HF1402")


def test_a_key_whose_record_somebody_else_wrote_is_refused(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("t:in~k")
    assert is_refused(append(wire, key="k"), 409, "HF1202")
    assert "streams" not in wire.snap()


@pytest.mark.parametrize(("size", "status"), [(256, 200), (257, 400)])
def test_a_key_has_at_most_256_bytes(wire: Wire, size: int, status: int) -> None:
    wire.create("t", target=WORKERS)
    assert append(wire, key="k" * size).status == status


# -- expectations ------------------------------------------------------------------------------------------


def test_what_is_not_as_expected_is_appended_to_by_nobody(wire: Wire) -> None:
    wire.create("t", target=WORKERS, tags={"holdfast:workflow": "shop"})
    assert append(wire, expect={"holdfast:workflow": "shop"}).status == 200
    assert is_refused(append(wire, expect={"holdfast:workflow": "other"}), 409, "HF1403")
    assert is_refused(append(wire, expect={"other": "x"}), 409, "HF1403")
    assert record_of(wire)["counts"] == {"in": 1}


def test_an_execution_is_created_and_told_in_one_array(wire: Wire) -> None:
    message = {"id": "t", "stream": "in", "value": {"data": "x"}}
    for number in (1, 2):
        created, told = wire.batch(
            ("promise.create", creation("t", target=WORKERS)), ("stream.append", message)
        )
        assert (created.status, told.status, told.data["number"]) == (200, 200, number)


# -- under a claim -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["out.tokens", "value.stage"])
def test_without_the_claim_only_in_is_appended_to(wire: Wire, stream: str) -> None:
    wire.acquired("t")
    assert is_refused(append(wire, stream), 409, "HF1407")
    assert emit(wire, stream).data["number"] == 1


def test_who_lost_the_claim_emits_nothing(wire: Wire) -> None:
    wire.acquired("t")
    wire.release("t")
    wire.acquire("t", 1)
    stale = wire.fence("t", "stream.append", {"id": "t", "stream": "out.x"}, version=1)
    assert is_refused(stale, 409, "HF1201")
    assert "streams" not in wire.snap()


def test_a_task_that_an_execution_called_emits_for_it(wire: Wire) -> None:
    wire.acquired("t")
    wire.acquired("t:1", tags={"resonate:parent": "t"})
    assert emit(wire, "out.x", under="t:1").promise["id"] == "t:out.x.1"
    wire.acquired("stranger")
    assert is_refused(emit(wire, "out.x", under="stranger"), 409, "HF1407")


def test_a_message_to_another_execution_may_be_sent_under_a_claim(wire: Wire) -> None:
    wire.acquired("t")
    wire.create("u", target=WORKERS)
    sent = fenced(wire, "stream.append", {"id": "u", "stream": "in", "key": "t:5"})
    assert sent.promise["id"] == "u:in.1"


def test_a_refusal_inside_a_fence_changes_nothing(wire: Wire) -> None:
    wire.acquired("t")
    wire.create("u", target=WORKERS)
    wire.create("taken")
    before = wire.snap()
    asked = {"timeoutAt": FAR, "id": "taken"}
    refused = fenced(wire, "stream.append", {"id": "u", "stream": "in", "answer": asked})
    assert is_refused(refused, 409, "HF1202")
    assert wire.snap() == before


# -- the next element --------------------------------------------------------------------------------------


def test_the_next_element_is_a_pending_promise(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire)
    answer = await_next(wire, 2)
    [promise] = answer.data["promises"]
    assert (promise["id"], promise["state"], promise["timeoutAt"]) == ("t:in.2", "pending", FAR)
    assert (answer.data["number"], answer.data["count"], answer.data["over"]) == (2, 1, False)
    assert await_next(wire, 2).data == answer.data


def test_an_append_settles_the_awaited_element_and_wakes(wire: Wire) -> None:
    wire.acquired("t")
    read_up_to(wire, 1)
    wire.listen("t:in.1")
    assert wire.suspend("t", "t:in.1").status == 200
    wire.now += 1
    told = tell(wire, "hello")
    assert (told.data["number"], told.promise["value"]) == (1, {"data": "hello"})
    assert (told.promise["createdAt"], told.promise["settledAt"]) == (T0, T0 + 1)
    assert wire.task("t")["state"] == "pending"
    [notice] = wire.messages(CLIENT)
    assert notice["data"]["promise"]["value"] == {"data": "hello"}
    assert wire.acquire("t", 1).data["data"]["awaited"]["id"] == "t:in.1"


def test_elements_that_are_there_come_in_one_answer(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for data in "abcd":
        tell(wire, data)
    answer = await_next(wire, 2)
    assert ids(answer.data["promises"]) == ["t:in.2", "t:in.3", "t:in.4"]
    assert (answer.data["number"], answer.data["count"]) == (2, 4)


def test_beyond_the_next_number_nothing_is_awaited(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire)
    assert is_refused(await_next(wire, 3), 400, "HF1001")
    assert is_refused(await_next(wire, 0), 400, "HF1001")


def test_of_what_is_over_elements_are_given_and_none_awaited(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire)
    wire.settle("t")
    answer = await_next(wire, 1)
    assert (ids(answer.data["promises"]), answer.data["over"]) == (["t:in.1"], True)
    assert is_refused(await_next(wire, 2), 409, "HF1402")


def test_of_a_page_as_many_are_given_as_fit(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for _ in range(4):
        tell(wire, "x" * 400_000)
    assert ids(await_next(wire, 1).data["promises"]) == ["t:in.1", "t:in.2"]
    assert ids(await_next(wire, 3).data["promises"]) == ["t:in.3", "t:in.4"]
    assert ids(read(wire, after=1)["promises"]) == ["t:in.2", "t:in.3"]


def test_an_element_that_is_larger_than_a_page_still_goes(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for _ in range(2):
        tell(wire, "x" * 1_048_576)
    assert ids(await_next(wire, 1).data["promises"]) == ["t:in.1"]


def test_a_page_has_at_most_256_elements(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    message = ("stream.append", {"id": "t", "stream": "in"})
    wire.batch(*[message] * 300)
    assert len(await_next(wire, 1).data["promises"]) == 256
    assert len(read(wire, limit=256)["promises"]) == 256
    assert len(read(wire)["promises"]) == 100
    assert wire.send("stream.read", {"id": "t", "stream": "in", "limit": 257}).status == 400


def test_who_reads_under_the_claim_says_how_far(wire: Wire) -> None:
    wire.acquired("t")
    for data in ("a", "bb", "ccc"):
        tell(wire, data)
    assert (record_of(wire)["read"], record_of(wire)["sentBytes"]) == (0, 3 * 256 + 6)
    read_up_to(wire, 3)
    assert (record_of(wire)["read"], record_of(wire)["readBytes"]) == (2, 2 * 256 + 3)
    read_up_to(wire, 2)
    assert record_of(wire)["read"] == 2
    read_up_to(wire, 4)
    assert (record_of(wire)["read"], record_of(wire)["readBytes"]) == (3, 3 * 256 + 6)


def test_who_peeks_says_how_far_and_awaits_nothing(wire: Wire) -> None:
    wire.acquired("t")
    tell(wire, "a")
    asked = {"id": "t", "stream": "in", "number": 2, "peek": True}
    seen = wire.send("stream.next", asked)
    assert (seen.data["promises"], seen.data["count"], seen.data["over"]) == ([], 1, False)
    assert record_of(wire)["read"] == 0
    fenced(wire, "stream.next", asked)
    assert record_of(wire)["read"] == 1
    assert wire.send("promise.get", {"id": "t:in.2"}).status == 404
    assert wire.send("stream.next", {**asked, "number": 1}).data["promises"][0]["id"] == "t:in.1"
    assert wire.send("stream.next", {**asked, "number": 3}).status == 400
    assert wire.send("stream.next", {**asked, "peek": 1}).status == 400


def test_bytes_are_exact_when_each_message_was_awaited(wire: Wire) -> None:
    wire.acquired("t")
    for number, data in enumerate(("a", "bb", "ccc"), 1):
        await_next(wire, number)
        tell(wire, data)
    read_up_to(wire, 3)
    assert record_of(wire)["readBytes"] == 2 * 256 + 3


def test_others_do_not_say_how_far_the_mailbox_was_read(wire: Wire) -> None:
    wire.acquired("t")
    wire.acquired("u")
    tell(wire)
    await_next(wire, 2)
    fenced(wire, "stream.next", {"id": "t", "stream": "in", "number": 2}, "u")
    assert record_of(wire)["read"] == 0


def test_reading_another_stream_says_nothing_of_the_mailbox(wire: Wire) -> None:
    wire.acquired("t")
    tell(wire)
    emit(wire, "out.x")
    fenced(wire, "stream.next", {"id": "t", "stream": "out.x", "number": 2})
    assert record_of(wire)["read"] == 0


# -- numbers that somebody else has written ----------------------------------------------------------------


def test_a_number_that_somebody_else_has_written_is_passed_over(wire: Wire) -> None:
    wire.acquired("t")
    wire.create("t:in.1", settle={"state": "resolved", "value": {"data": "mine"}})
    wire.create("t:in.2", settle={"state": "rejected"})
    assert tell(wire).data["number"] == 3
    assert ids(read(wire)["promises"]) == ["t:in.1", "t:in.2", "t:in.3"]
    read_up_to(wire, 3)
    assert (record_of(wire)["read"], record_of(wire)["readBytes"]) == (2, 0)
    read_up_to(wire, 4)
    assert record_of(wire)["readBytes"] == record_of(wire)["sentBytes"]


def test_who_awaits_such_a_number_is_given_it(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("t:in.1", settle={"state": "resolved", "value": {"data": "mine"}})
    answer = await_next(wire, 1)
    assert (ids(answer.data["promises"]), answer.data["count"]) == (["t:in.1"], 1)
    assert await_next(wire, 2).data["promises"][0]["state"] == "pending"


def test_a_promise_that_somebody_made_under_the_next_number_is_settled(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("t:in.1", tags={"mine": "yes"})
    told = tell(wire, "x")
    assert (told.data["number"], told.promise["tags"]) == (1, {"mine": "yes"})


def test_one_past_its_deadline_is_passed_over(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("t:in.1", timeout_at=T0 + SECOND)
    wire.now += SECOND
    assert tell(wire).data["number"] == 2


def test_a_hundred_numbers_are_passed_over_and_no_more(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("u", target=WORKERS)
    for name, most in (("t", 100), ("u", 101)):
        written = [
            creation(f"{name}:in.{number}", settle={"state": "resolved"}) for number in range(1, most + 1)
        ]
        wire.batch(*[("promise.create", each) for each in written])
    assert tell(wire).data["number"] == 101
    assert is_refused(append(wire, name="u"), 409, "HF1404")


# -- questions ---------------------------------------------------------------------------------------------


def test_a_question_has_a_pending_promise_for_its_answer(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    told = tell(wire, answer={"timeoutAt": T0 + HOUR})
    assert told.data["answer"] == {
        "id": "t:in.1.answer",
        "state": "pending",
        "param": {},
        "value": {},
        "tags": {
            "resonate:origin": "t",
            "resonate:parent": "t",
            "holdfast:dependent": "t",
            "holdfast:answer": "t:in.1",
        },
        "timeoutAt": T0 + HOUR,
        "createdAt": T0,
    }
    assert record_of(wire)["openAnswers"] == 1


def test_a_question_says_where_its_answer_is_wanted(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    question = append(wire, value={"headers": {"h": "1"}, "data": "x"}, answer={"timeoutAt": FAR})
    assert question.promise["value"]["headers"] == {"h": "1", "holdfast:answer": "t:in.1.answer"}
    assert wire.get("t:in.1").promise["value"] == question.promise["value"]


def test_who_asks_nothing_cannot_say_where_an_answer_is_wanted(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    headers = {"holdfast:answer": "somebody-elses"}
    assert append(wire, value={"headers": headers, "data": "x"}).promise["value"] == {"data": "x"}
    asked = append(wire, value={"headers": headers}, answer={"timeoutAt": FAR})
    assert asked.promise["value"] == {"headers": {"holdfast:answer": "t:in.2.answer"}}


def test_whoever_asks_may_choose_the_promise(wire: Wire) -> None:
    wire.acquired("t", tags={"resonate:branch": "t"})
    wire.create("u", target=WORKERS)
    own = {
        "id": "t:5",
        "timeoutAt": FAR,
        "param": {"headers": {"op": "ask"}},
        "tags": {"resonate:branch": "t"},
    }
    told = fenced(wire, "stream.append", {"id": "u", "stream": "in", "answer": own})
    answer = told.data["answer"]
    assert (answer["id"], answer["param"]) == ("t:5", {"headers": {"op": "ask"}})
    assert answer["tags"] == {
        "resonate:branch": "t",
        "holdfast:dependent": "u",
        "holdfast:answer": "u:in.1",
    }


def test_who_settles_it_has_answered(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire, answer={"timeoutAt": T0 + HOUR})
    wire.listen("t:in.1.answer")
    wire.settle("t:in.1.answer", value={"data": "42"})
    [notice] = wire.messages(CLIENT)
    assert notice["data"]["promise"]["value"] == {"data": "42"}
    assert record_of(wire)["openAnswers"] == 0
    assert wire.snap()["callbacks"] == []


def test_an_answer_that_nobody_gives_times_out(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire, answer={"timeoutAt": T0 + SECOND})
    wire.tick(T0 + SECOND)
    assert wire.get("t:in.1.answer").promise["state"] == "rejected_timedout"
    assert record_of(wire)["openAnswers"] == 0


def test_a_question_past_its_own_deadline_has_no_open_answer(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    answer = tell(wire, answer={"timeoutAt": T0}).data["answer"]
    assert (answer["state"], answer["settledAt"]) == ("rejected_timedout", T0)
    assert (record_of(wire)["openAnswers"], wire.snap()["callbacks"]) == (0, [])


def test_a_promise_that_exists_is_no_answer(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.create("q")
    assert is_refused(append(wire, answer={"timeoutAt": FAR, "id": "q"}), 409, "HF1202")
    assert is_refused(append(wire, answer={"timeoutAt": FAR, "id": "t:in.1"}), 409, "HF1202")
    assert "streams" not in wire.snap()


@pytest.mark.parametrize("tag", ["resonate:target", "resonate:invoke"])
def test_an_answer_has_no_target(wire: Wire, tag: str) -> None:
    wire.create("t", target=WORKERS)
    assert append(wire, answer={"timeoutAt": FAR, "tags": {tag: WORKERS}}).status == 400


# -- dependents --------------------------------------------------------------------------------------------


def ends(wire: Wire, how: str) -> None:
    match how:
        case "settle":
            wire.settle("t")
        case "fulfill":
            assert wire.fulfill("t").status == 200
        case _:
            wire.tick(T0 + HOUR)


@pytest.mark.parametrize("how", ["settle", "fulfill", "deadline"])
def test_open_answers_end_with_their_execution(wire: Wire, how: str) -> None:
    wire.acquired("t", timeout_at=T0 + HOUR)
    tell(wire, answer={"timeoutAt": FAR})
    wire.listen("t:in.1.answer")
    ends(wire, how)
    answer = wire.stored("promises", "t:in.1.answer")
    assert (answer["state"], answer["value"], answer["settledAt"]) == ("rejected_canceled", OVER, wire.now)
    assert [message["data"]["promise"]["id"] for message in wire.messages(CLIENT)] == ["t:in.1.answer"]
    assert wire.snap()["callbacks"] == []


@pytest.mark.parametrize("how", ["settle", "fulfill"])
def test_an_awaited_element_ends_with_its_execution(wire: Wire, how: str) -> None:
    wire.acquired("t")
    await_next(wire, 1, "out.x")
    wire.suspended("u", "other")
    wire.callback("t:out.x.1", "u")
    ends(wire, how)
    element = wire.stored("promises", "t:out.x.1")
    assert (element["state"], element["value"]) == ("rejected_canceled", OVER)
    assert wire.task("u")["state"] == "pending"


def test_past_its_own_deadline_a_dependent_has_ended_by_that(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire, answer={"timeoutAt": T0 + SECOND})
    wire.now += MINUTE
    wire.settle("t")
    answer = wire.stored("promises", "t:in.1.answer")
    assert (answer["state"], answer["settledAt"]) == ("rejected_timedout", T0 + SECOND)


def test_an_awaited_element_of_an_execution_that_times_out_has_the_same_deadline(wire: Wire) -> None:
    wire.create("t", target=WORKERS, timeout_at=T0 + SECOND)
    await_next(wire, 1)
    wire.tick(T0 + SECOND)
    assert wire.stored("promises", "t:in.1")["state"] == "rejected_timedout"


def test_a_dependent_that_has_settled_is_left_as_it_is(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire, answer={"timeoutAt": FAR})
    wire.settle("t:in.1.answer", value={"data": "42"})
    wire.settle("t")
    assert wire.get("t:in.1.answer").promise["value"] == {"data": "42"}


def test_an_element_that_was_appended_does_not_depend_any_more(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    await_next(wire, 1)
    tell(wire)
    assert wire.snap()["callbacks"] == []
    wire.settle("t")
    assert wire.get("t:in.1").promise["state"] == "resolved"


def test_in_one_array_a_dependent_comes_and_goes(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    wire.batch(
        ("stream.append", {"id": "t", "stream": "in", "answer": {"timeoutAt": FAR}}),
        ("promise.settle", {"id": "t:in.1.answer", "state": "resolved"}),
        ("stream.next", {"id": "t", "stream": "in", "number": 2}),
        ("promise.settle", {"id": "t", "state": "resolved"}),
    )
    snap = wire.snap()
    assert snap["callbacks"] == []
    assert [promise["state"] for promise in snap["promises"]] == [
        "resolved",
        "resolved",
        "resolved",
        "rejected_canceled",
    ]


def test_a_chain_of_executions_that_ask_each_other_ends_from_its_end(wire: Wire) -> None:
    wire.acquired("t")
    wire.create("u", target=WORKERS)
    fenced(wire, "stream.append", {"id": "u", "stream": "in", "answer": {"timeoutAt": FAR, "id": "t:1"}})
    assert wire.suspend("t", "t:1").status == 200
    wire.settle("u")
    assert wire.task("t")["state"] == "pending"
    assert wire.get("t:1").promise["value"] == OVER


# -- reading -----------------------------------------------------------------------------------------------


def test_reading_gives_elements_after_a_number(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    for data in "abcd":
        tell(wire, data)
    page = read(wire, after=1, limit=2)
    assert (ids(page["promises"]), page["number"], page["count"], page["over"]) == (
        ["t:in.2", "t:in.3"],
        2,
        4,
        False,
    )
    assert read(wire, after=4)["promises"] == []


def test_the_awaited_element_is_not_read(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire)
    await_next(wire, 2)
    assert ids(read(wire)["promises"]) == ["t:in.1"]


def test_the_last_element_alone_can_be_read(wire: Wire) -> None:
    wire.acquired("t")
    assert read(wire, "value.stage", last=True)["promises"] == []
    for data in "abc":
        emit(wire, "value.stage", data)
    page = read(wire, "value.stage", last=True)
    assert ([p["value"]["data"] for p in page["promises"]], page["number"], page["count"]) == (["c"], 3, 3)
    assert wire.send("stream.read", {"id": "t", "stream": "in", "last": True, "after": 1}).status == 400


def test_what_is_over_can_be_read(wire: Wire) -> None:
    wire.acquired("t")
    emit(wire, "out.x")
    wire.fulfill("t")
    page = read(wire, "out.x")
    assert (ids(page["promises"]), page["over"]) == (["t:out.x.1"], True)


def test_all_streams_of_an_execution_are_listed_with_their_counts(wire: Wire) -> None:
    wire.acquired("t")
    assert wire.send("stream.list", {"id": "t"}).data == {"streams": {}, "read": 0, "over": False}
    tell(wire)
    tell(wire)
    read_up_to(wire, 2)
    emit(wire, "value.stage")
    await_next(wire, 1, "out.x")
    assert wire.send("stream.list", {"id": "t"}).data == {
        "streams": {"in": 2, "out.x": 0, "value.stage": 1},
        "read": 1,
        "over": False,
    }


def test_reading_changes_nothing(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    tell(wire)
    before = wire.snap()
    read(wire)
    read(wire, last=True)
    read(wire, "out.never")
    wire.send("stream.list", {"id": "t"})
    assert wire.snap() == before


# -- bounds ------------------------------------------------------------------------------------------------


def test_an_execution_has_at_most_64_streams(wire: Wire) -> None:
    wire.acquired("t")
    for number in range(64):
        assert emit(wire, f"out.s{number}").status == 200
    assert is_refused(emit(wire, "out.more"), 409, "HF1405")
    assert is_refused(await_next(wire, 1, "value.more"), 409, "HF1405")
    assert emit(wire, "out.s5").status == 200


@pytest.mark.slow
def test_a_mailbox_holds_at_most_10_000_unread_messages(wire: Wire) -> None:
    wire.acquired("t")
    message = ("stream.append", {"id": "t", "stream": "in"})
    for _ in range(10):
        assert all(answer.status == 200 for answer in wire.batch(*[message] * 1_000))
    assert is_refused(append(wire), 409, "HF1404")
    read_up_to(wire, 2)
    assert append(wire).status == 200
    assert is_refused(append(wire), 409, "HF1404")


def test_a_mailbox_holds_at_most_16_mib_unread(wire: Wire) -> None:
    wire.acquired("t")
    for _ in range(15):
        tell(wire, "x" * 1_048_576)
    assert is_refused(append(wire, value={"data": "x" * 1_048_576}), 409, "HF1404")
    read_up_to(wire, 2)
    tell(wire, "x" * 1_048_576)


def test_what_the_execution_emits_is_not_bounded_by_who_reads(wire: Wire) -> None:
    wire.acquired("t")
    for _ in range(17):
        assert emit(wire, "out.x", "x" * 1_048_576).status == 200


def test_an_execution_has_at_most_1_000_open_answers(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    question = ("stream.append", {"id": "t", "stream": "in", "answer": {"timeoutAt": FAR}})
    assert all(answer.status == 200 for answer in wire.batch(*[question] * 1_000))
    assert is_refused(append(wire, answer={"timeoutAt": FAR}), 409, "HF1406")
    wire.settle("t:in.500.answer")
    assert append(wire, answer={"timeoutAt": FAR}).status == 200
    wire.settle("t")
    assert wire.get("t:in.1001.answer").promise["value"] == OVER
    assert wire.snap()["callbacks"] == []


# -- scopes ------------------------------------------------------------------------------------------------


def test_a_fence_with_a_stream_answers_in_the_shape_of_a_fence(wire: Wire) -> None:
    wire.acquired("t")
    answer = wire.send(
        "task.fence",
        {"id": "t", "version": 1, "action": sub("stream.append", {"id": "t", "stream": "out.x"})},
    )
    action = answer.data["action"]
    assert (action["kind"], action["head"]["corrId"], action["head"]["status"]) == (
        "stream.append",
        "inner",
        200,
    )
    assert answer.data["preload"] == []
