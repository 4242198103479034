"""`holdfast tree ID`: an execution's promises, drawn as the calls that made them.

All promises whose origin is the id, each under its parent. What has lost its parent is shown under the root,
and so is what hangs from itself. Nothing here calls itself: chains of calls may be longer than the stack.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.cli.durations import format_duration
from holdfast.cli.options import add_connection
from holdfast.cli.output import now_ms, print_line
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
        print_line(encode(branch))
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
    top = Branch(root, [])
    seen = {root.id}
    _spread(top, children, seen)
    for promise in sorted(known.values(), key=birth):
        if promise.id not in seen and not is_observation(promise):  # of a circle, the oldest
            seen.add(promise.id)
            top.children.append(Branch(promise, []))
            _spread(top.children[-1], children, seen)
    return top


def _spread(start: Branch, children: Mapping[str, list[Promise]], seen: set[str]) -> None:
    """Let everything grow from a branch that has not been seen."""
    growing = [start]
    while growing:
        branch = growing.pop()
        for child in sorted(children.get(branch.promise.id, ()), key=birth):
            if child.id not in seen:
                seen.add(child.id)
                branch.children.append(Branch(child, []))
        growing += branch.children


def birth(promise: Promise) -> tuple[Millis, int, str]:
    """Oldest first; among equals `wf:2` comes before `wf:10`."""
    return promise.created_at, len(promise.id), promise.id


def draw(top: Branch, now: Millis, margin: str = "") -> Iterator[str]:
    waiting = [(top, margin, margin)]
    while waiting:
        branch, stem, joint = waiting.pop()
        yield f"{joint}{label(branch.promise, now)}"
        last = branch.children[-1:]
        for child in reversed(branch.children):
            ends = child is last[0]
            waiting.append((child, stem + ("   " if ends else "│  "), stem + ("└─ " if ends else "├─ ")))


def encode(top: Branch) -> str:
    """As JSON, indented unless it is too deep for that."""
    parts: list[bytes] = []
    waiting: list[Branch | bytes] = [top]
    while waiting:
        branch = waiting.pop()
        if isinstance(branch, bytes):
            parts.append(branch)
            continue
        parts.append(b'{"promise":%s,"children":[' % msgspec.json.encode(branch.promise))
        waiting.append(b"]}")
        for index, child in enumerate(reversed(branch.children)):
            waiting += (b",", child) if index else (child,)
    text = b"".join(parts)
    with suppress(RecursionError):
        text = msgspec.json.format(text, indent=2)
    return text.decode()


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
