"""The picture of a call tree, from records alone."""

import msgspec

from holdfast.cli.payloads import invocation
from holdfast.cli.tree import Branch, draw, encode, grow
from holdfast.protocol.records import NOTHING, Promise, PromiseState, Value


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
    root = promise("wf", "wf", "pending", invocation("order", [], {}, 1), target="poll://any@g")
    found = [
        root,
        promise("wf:1", "wf", scope="local"),
        promise("wf:1.1", "wf:1", "rejected", scope="local", param=invocation("charge", [], {}, 1)),
        promise("wf:2", "wf", param=invocation("ship", [], {}, 1), target="poll://any@g", born=1),
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
        "├─ ⏱ wf:10 (promise) timedout 1.5s",
        "└─ ⊘ wf:4 (promise) canceled 1.5s",
    ]


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
