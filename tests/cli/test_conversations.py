"""`holdfast tell`, `ask`, `watch` and `tree`, against a real server and a real worker."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import holdfast as hf
from tests.processes import Outcome, Server

Run = Callable[..., Outcome]
Data = Callable[..., Any]


@pytest.fixture(scope="module")
def app(server: Server) -> Iterator[hf.App]:
    app = hf.App(server.url, group="talk")

    @app.workflow
    async def counter() -> int:
        total = 0
        async for message in hf.mailbox(int):
            if message.value < 0:
                message.refuse("too small")
                continue
            total += message.value
            await hf.publish("total", total)
            await hf.emit("added", message.value)
            message.answer(total)
            if total >= 100:
                break
        return total

    @app.workflow
    async def deaf() -> None:
        await hf.promise(name="end")

    with app:
        yield app


@pytest.fixture
def counter(app: hf.App) -> str:
    return app.start("counter", id=f"counter-{uuid4().hex}").id


def test_a_message_is_told_and_numbered(run: Run, data: Data, counter: str) -> None:
    assert run("tell", counter, "--data", "1").out == f"{counter}:in.1 is the message 1 to {counter}\n"
    first = data("tell", counter, "--data", "2", "--key", "k")
    assert (first["number"], data("tell", counter, "--data", "2", "--key", "k")) == (2, first)


def test_a_question_prints_its_answer(run: Run, data: Data, counter: str) -> None:
    assert run("ask", counter, "--data", "5", "--timeout", "30s").out == "5\n"
    assert data("ask", counter, "--data", "6")["promise"]["state"] == "resolved"


def test_a_refusal_and_a_timeout_are_failures(run: Run, app: hf.App, counter: str) -> None:
    refused = run("ask", counter, "--data", "-1")
    assert (refused.code, "too small" in refused.err) == (1, True)
    deaf = app.start("deaf", id=f"deaf-{uuid4().hex}").id
    late = run("ask", deaf, "--data", "1", "--timeout", "50ms")
    assert (late.code, "no answer in time" in late.err) == (1, True)


def test_what_is_over_and_what_never_was_is_refused(run: Run, app: hf.App, counter: str) -> None:
    app.tell(counter, 100)
    app.handle(counter).result(60)
    assert "HF1402" in run("tell", counter, "--data", "1").err
    assert "HF1401" in run("ask", "nobody", "--data", "1").err
    assert run("watch", "nobody").code == 1


def test_watching_shows_everything_until_it_is_over(run: Run, data: Data, app: hf.App, counter: str) -> None:
    for number in (1, 99):
        app.tell(counter, number)
    lines = run("watch", counter).out.splitlines()
    assert sorted(lines) == ["in 1: 1", "in 2: 99", "out.added 1: 1", "out.added 2: 99", "value.total 1: 1",
                             "value.total 2: 100"]  # fmt: skip
    assert run("watch", counter, "added", "--after", "1").out == "out.added 2: 99\n"
    assert run("watch", counter, "value.total").out.splitlines() == ["value.total 1: 1", "value.total 2: 100"]
    as_json = run("watch", counter, "total", "--json").out
    numbers = [json.loads(part)["number"] for part in as_json.replace("}\n{", "}\x00{").split("\x00")]
    assert numbers == [1, 2]


def test_watching_shows_a_text_in_one_line(run: Run, app: hf.App, counter: str) -> None:
    for message in ("one", "two\nout.added 1: 7", 100):
        app.tell(counter, message)
    shown = run("watch", counter, "in").out.splitlines()
    assert shown == ["in 1: one", "in 2: two\\x0aout.added 1: 7", "in 3: 100"]


def test_a_tree_counts_streams_and_does_not_draw_them(
    run: Run, data: Data, app: hf.App, counter: str
) -> None:
    app.tell(counter, "not a number")
    app.tell(counter, 100)
    app.handle(counter).result(60)
    lines = run("tree", counter).out.splitlines()
    assert "├─ ≡ in: 2 messages, 2 read" in lines
    assert "├─ ≡ out.added: 1" in lines
    assert "├─ ≡ value.total: 1" in lines
    [aside] = [line for line in lines if ".aside" in line]
    assert f"{counter}:in.1.aside (message set aside)" in aside
    assert not [line for line in lines if f"{counter}:in.2" in line]
    assert data("tree", counter)["streams"]["streams"] == {"in": 2, "out.added": 1, "value.total": 1}


def test_info_shows_the_messages_that_were_set_aside(run: Run, app: hf.App, counter: str) -> None:
    app.tell(counter, "not a number")
    app.tell(counter, 100)
    app.handle(counter).result(60)
    lines = run("info", counter).out.splitlines()
    [title] = [number for number, line in enumerate(lines) if line.startswith("SET ASIDE")]
    assert lines[title + 1].startswith("message 1  ")
    assert "Expected int, got str" in lines[title + 1]


def test_an_empty_key_is_refused_and_sends_nothing(run: Run, counter: str) -> None:
    refused = run("tell", counter, "--data", "1", "--key", "")
    assert (refused.code, "key" in refused.err) == (2, True)
    assert run("tell", counter, "--data", "1").out.startswith(f"{counter}:in.1 ")


def test_watching_what_is_not_there_is_a_failure(run: Run, app: hf.App, counter: str) -> None:
    assert run("watch", counter, "a b").code == 2
    app.tell(counter, 100)
    app.handle(counter).result(60)
    missing = run("watch", counter, "totel")
    assert (missing.code, f"{counter} is over, and has no stream 'totel'" in missing.err) == (1, True)


@pytest.mark.parametrize("text", ["{bad", "[1,", " {name: tea}"])
def test_what_begins_like_json_and_is_none_is_refused_and_sends_nothing(
    run: Run, app: hf.App, counter: str, text: str
) -> None:
    outcome = run("tell", counter, "--data", text)
    assert (outcome.code, outcome.out) == (2, "")
    assert "begins like JSON and is none" in outcome.err
    assert run("tell", counter, "--data", "1").out.startswith(f"{counter}:in.1 ")
