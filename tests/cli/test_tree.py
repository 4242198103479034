"""The picture of a call tree, from records alone."""

import base64

import msgspec

from holdfast.cli.tree import Branch, draw, encode, grow
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.records import NOTHING, Halted, Promise, PromiseState, TaskState, TaskView, Value


def promise(
    promise_id: str,
    parent: str,
    state: PromiseState = "resolved",
    param: Value = NOTHING,
    born: int = 0,
    **tags: str,
) -> Promise:
    entries = {"resonate:parent": parent} | {f"resonate:{name}": value for name, value in tags.items()}
    return Promise(
        promise_id, state, param, NOTHING, entries, 10_000, born, None if state == "pending" else 1_500
    )


def test_calls_hang_under_their_callers() -> None:
    root = promise("wf", "wf", "pending", plain_call("order", [], {}, 1), target="poll://any@g")
    found = [
        root,
        promise("wf:1", "wf", scope="local"),
        promise("wf:1.1", "wf:1", "rejected", scope="local", param=plain_call("charge", [], {}, 1)),
        promise("wf:2", "wf", param=plain_call("ship", [], {}, 1), target="poll://any@g", born=1),
        promise("wf:10", "wf", "rejected_timedout", born=2),
        promise("wf:3", "wf", "pending", born=2, timer="true"),
        promise("wf:4", "lost", "rejected_canceled", born=3),
    ]
    assert [*draw(grow(root, found), now=2_000)] == [
        "… wf (order) pending 2s",
        "├─ ✓ wf:1 (run) 1.5s",
        "│  └─ ✗ wf:1.1 (run charge) rejected 1.5s",
        "├─ ✓ wf:2 (rpc ship) 1.5s",
        "├─ … wf:3 (sleep) pending 2s",
        "├─ ⊘ wf:4 (promise) canceled 1.5s",
        "└─ ⏱ wf:10 (promise) timedout 1.5s",
    ]


def test_what_the_code_asked_for_comes_in_that_order_and_then_the_rest_by_age() -> None:
    root = promise("wf", "wf")
    counted = [promise(f"wf:{number}", "wf", born=20 - number) for number in (10, 2, 1)]
    deeper = [promise(f"wf:2.{number}", "wf:2") for number in (11, 9)]
    named = [promise("b-2", "wf", born=7), promise("a-10", "wf", born=9), promise("a-9", "wf", born=9)]
    lines = [*draw(grow(root, [*named, *counted, *deeper]), now=2_000)]
    ids = [line.split(" (")[0].split()[-1] for line in lines]
    assert ids == ["wf", "wf:1", "wf:2", "wf:2.9", "wf:2.11", "wf:10", "b-2", "a-9", "a-10"]


def step(promise_id: str, ran: str, state: PromiseState = "resolved", error: object = None) -> Promise:
    data = None if error is None else base64.b64encode(msgspec.json.encode(error)).decode()
    value = Value({"holdfast:ran": ran}, data)
    headers = Value({"holdfast:op": "step pay"})
    return Promise(promise_id, state, headers, value, {"resonate:parent": "wf"}, 10_000, 1_500, 1_500)


def test_a_step_shows_its_duration_attempts_worker_and_error() -> None:
    root = promise("wf", "wf")
    declined = {"__type": "error", "name": "Declined", "message": "no money\nand more", "traceback": "..."}
    found = [
        step("wf:1", "1000 0.42 1 w-1"),
        step("wf:2", "1000 12.0 1 w-1"),
        step("wf:3", "1000 61000.5 3 w-2", "rejected", declined),
        step("wf:4", "1000 2500.0 1 w-2", "rejected", "just text"),
        step("wf:5", "whatever somebody wrote", "rejected", [1]),
    ]
    assert [*draw(grow(root, found), now=2_000)][1:] == [
        "├─ ✓ wf:1 (step pay) 0.42ms on w-1",
        "├─ ✓ wf:2 (step pay) 12ms",
        "├─ ✗ wf:3 (step pay) rejected 1m1s, 3 attempts on w-2: Declined: no money",
        "├─ ✗ wf:4 (step pay) rejected 2.5s: just text",
        "└─ ✗ wf:5 (step pay) rejected",
    ]


def test_a_note_of_an_execution_to_itself_is_not_drawn() -> None:
    root = promise("wf", "wf")
    found = [promise("wf:1", "wf"), promise("wf:1~", "wf"), promise("wf:2~", "wf")]
    assert len([*draw(grow(root, found), now=2_000)]) == 3


def test_a_request_to_cancel_is_drawn_if_somebody_made_it() -> None:
    root = promise("wf", "wf")
    for state in ("pending", "rejected_canceled", "resolved"):
        lines = [*draw(grow(root, [promise("wf:1", "wf"), promise("wf:cancel", "wf", state)]), now=2_000)]
        assert any("wf:cancel" in line for line in lines) is (state == "resolved")


def test_an_execution_that_is_not_over_shows_what_its_task_does() -> None:
    def shown(state: TaskState, pid: str | None = None, halted: Halted | None = None) -> str:
        root = promise("wf", "wf", "pending")
        task = TaskView("wf", state, 1, 0, pid, halted=halted)
        return next(draw(grow(root, [], [task]), now=2_000))

    assert shown("acquired", "w-1") == "… wf (promise) running 2s on w-1"
    assert shown("suspended") == "… wf (promise) suspended 2s"
    assert shown("pending") == "… wf (promise) pending 2s"
    assert shown("halted") == "! wf (promise) halted"
    why = Halted(at=500, reason="it does something else", code="HF5101")
    assert shown("halted", halted=why) == "! wf (promise) halted 1.5s ago: it does something else [HF5101]"


def test_parents_in_a_circle_are_shown_under_the_root() -> None:
    root = promise("wf", "wf")
    found = [root, promise("a", "b", born=1), promise("b", "a"), promise("c", "c"), promise("d", "a")]
    assert [line.split(" (")[0] for line in draw(grow(root, found), now=2_000)] == [
        "✓ wf",
        "├─ ✓ c",
        "└─ ✓ b",
        "   └─ ✓ a",
        "      └─ ✓ d",
    ]


def test_a_deep_tree_is_drawn() -> None:
    root = promise("p0", "p0")
    found = [root, *(promise(f"p{n}", f"p{n - 1}") for n in range(1, 3_000))]
    assert len([*draw(grow(root, found), now=2_000)]) == 3_000
    assert encode(grow(root, found)).count('"promise"') == 3_000


def test_in_json_a_tree_is_what_it_is_in_the_picture() -> None:
    root = promise("wf", "wf")
    found = [root, *(promise(name, name[:-2]) for name in ("wf:1", "wf:2", "wf:1.1", "wf:1.2"))]
    branch = grow(root, found)
    assert msgspec.json.decode(encode(branch), type=Branch) == branch
    assert encode(branch) == msgspec.json.format(msgspec.json.encode(branch), indent=2).decode()
