"""`holdfast tree ID`: an execution's promises, drawn as the calls that made them.

All promises whose origin is the id, each under its parent. What has lost its parent is shown under the root.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.cli.durations import format_duration
from holdfast.cli.options import add_connection
from holdfast.cli.output import now_ms, print_json, print_line
from holdfast.cli.payloads import called_function
from holdfast.cli.session import Session, with_session
from holdfast.protocol import tags
from holdfast.protocol.limits import page_size_max
from holdfast.protocol.records import Millis, Promise
from holdfast.protocol.replies import PromiseReply, PromisesReply
from holdfast.protocol.requests import PromiseGet, PromiseSearch

SIGNS: Final = {
    "pending": "…",
    "resolved": "✓",
    "rejected": "✗",
    "rejected_canceled": "⊘",
    "rejected_timedout": "⏱",
}


class Branch(Struct, frozen=True):
    promise: Promise
    children: list["Branch"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_tree))
    parser.add_argument("id", help="the id of the execution")
    add_connection(parser)


async def _tree(session: Session, arguments: argparse.Namespace) -> None:
    root = (await session.ask(PromiseGet(arguments.id), PromiseReply)).promise
    search = PromiseSearch(tags={tags.ORIGIN: arguments.id}, limit=page_size_max)
    pages = await session.pages(search, PromisesReply, every=True)
    branch = grow(root, [promise for page in pages for promise in page.promises])
    if arguments.json:
        print_json(branch)
        return
    for line in draw(branch, now_ms()):
        print_line(line)


def grow(root: Promise, found: list[Promise]) -> Branch:
    known = {promise.id: promise for promise in found} | {root.id: root}
    children: defaultdict[str, list[Promise]] = defaultdict(list)
    for promise in known.values():
        if promise.id != root.id and not is_observation(promise):
            parent = promise.tags.get(tags.PARENT, "")
            children[parent if parent in known and parent != promise.id else root.id].append(promise)
    seen: set[str] = set()

    def branch(promise: Promise) -> Branch:
        seen.add(promise.id)
        young = [child for child in children[promise.id] if child.id not in seen]
        return Branch(promise, [branch(child) for child in sorted(young, key=birth)])

    return branch(root)


def birth(promise: Promise) -> tuple[Millis, int, str]:
    """Oldest first; among equals `wf:2` comes before `wf:10`."""
    return promise.created_at, len(promise.id), promise.id


def draw(branch: Branch, now: Millis, stem: str = "", joint: str = "") -> Iterator[str]:
    yield f"{joint}{label(branch.promise, now)}"
    for index, child in enumerate(branch.children):
        last = index == len(branch.children) - 1
        yield from draw(child, now, stem + ("   " if last else "│  "), stem + ("└─ " if last else "├─ "))


def label(promise: Promise, now: Millis) -> str:
    took = format_duration((promise.settled_at or now) - promise.created_at)
    state = "" if promise.state == "resolved" else f" {promise.state.removeprefix('rejected_')}"
    return f"{SIGNS[promise.state]} {promise.id} {role(promise)}{state} {took}"


def is_observation(promise: Promise) -> bool:
    """A note of an execution to itself about which completion it saw first: not a call."""
    return "holdfast:observed" in (promise.value.headers or {})


def role(promise: Promise) -> str:
    """What kind of call made it, and of which function."""
    if label := (promise.param.headers or {}).get("holdfast:op"):
        return f"({label})"
    func = called_function(promise.param)
    if tags.is_timer(promise.tags):
        return "(sleep)"
    if tags.TARGET in promise.tags:
        root = promise.tags.get(tags.PARENT, promise.id) == promise.id
        return f"({'' if root else 'rpc '}{func or promise.tags[tags.TARGET]})"
    if promise.tags.get("resonate:scope") == "local":
        return f"(run {func})" if func else "(run)"
    return "(promise)"
