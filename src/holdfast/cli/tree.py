"""`holdfast tree ID`: an execution's promises, drawn as the calls that made them.

All promises whose origin is the id, each under its parent. What has lost its parent is shown under the root,
and so is what hangs from itself. Nothing here calls itself: chains of calls may be longer than the stack.
`tree_lines.py` says what a line tells.
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.cli.options import add_connection
from holdfast.cli.output import now_ms, print_json_text, print_line
from holdfast.cli.session import CliSession, with_session
from holdfast.cli.tree_lines import label, stream_lines
from holdfast.protocol import tags
from holdfast.protocol.failures import step_of
from holdfast.protocol.limits import page_size_max
from holdfast.protocol.operations import Ran, tries_of
from holdfast.protocol.records import Millis, Promise, TaskView
from holdfast.protocol.replies import LockReply, PromiseReply, PromisesReply, StreamsReply, TasksReply
from holdfast.protocol.requests import LockGet, PromiseGet, PromiseSearch, StreamList, TaskSearch
from holdfast.workflow.journal import LABEL, OBSERVED, cancel_id


class Branch(Struct, frozen=True, omit_defaults=True):
    """A promise, what it called, and the task of one that a worker answers."""

    promise: Promise
    children: list["Branch"]
    task: TaskView | None = None
    streams: StreamsReply | None = None
    held_by: str | None = None  # of one that waits for a lock
    tries: list[Promise] | None = None  # of a step that was tried again: what counts its attempts


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_tree))
    parser.add_argument("id", help="the id of the execution")
    add_connection(parser)


async def _tree(session: CliSession, arguments: argparse.Namespace) -> None:
    branch = await read_tree(session, arguments.id)
    if arguments.json:
        print_json_text(encode(branch))
        return
    for line in draw(branch, now_ms()):
        print_line(line)


async def read_tree(session: CliSession, execution: str) -> Branch:
    root = (await session.ask(PromiseGet(execution), PromiseReply)).promise
    origin = {tags.ORIGIN: execution}
    pages = await session.pages(PromiseSearch(tags=origin, limit=page_size_max), PromisesReply, every=True)
    found = await session.pages(TaskSearch(tags=origin, limit=page_size_max), TasksReply, every=True)
    promises = [promise for page in pages for promise in page.promises]
    tasks = [task for page in found for task in page.tasks]
    talking = dict.fromkeys(it.tags.get(tags.PARENT, "") for it in promises if tags.STREAM in it.tags)
    streams = {name: await session.ask(StreamList(name), StreamsReply) for name in talking}
    waiting = {
        it.id: it.tags[tags.TICKET] for it in promises if it.state == "pending" and tags.TICKET in it.tags
    }
    locks = {name: (await session.ask(LockGet(name), LockReply)).lock for name in {*waiting.values()}}
    held = {key: locks[name].holders[0].execution for key, name in waiting.items() if locks[name].holders}
    return grow(root, promises, tasks, streams, held)


def grow(
    root: Promise,
    found: Sequence[Promise],
    tasks: Sequence[TaskView] = (),
    streams: Mapping[str, StreamsReply] | None = None,
    held: Mapping[str, str] | None = None,
) -> Branch:
    """What lies in streams is counted and not drawn: there may be very many."""
    known = {promise.id: promise for promise in found} | {root.id: root}
    known = {key: promise for key, promise in known.items() if not is_of_stream(promise)}
    tries = tries_of(known.values())
    known = {key: promise for key, promise in known.items() if not is_note_to_itself(promise, known)}
    tasks_by_id = {task.id: task for task in tasks}
    streams = streams or {}
    children: defaultdict[str, list[Promise]] = defaultdict(list)
    for promise in known.values():
        if promise.id != root.id:
            parent = promise.tags.get(tags.PARENT, "")
            children[parent if parent in known and parent != promise.id else root.id].append(promise)
    top = Branch(root, [], tasks_by_id.get(root.id), streams.get(root.id))
    seen = {root.id}
    beside = Beside(tasks_by_id, streams, held or {}, tries)
    _spread(top, children, beside, seen)
    for promise in sorted(known.values(), key=birth):
        if promise.id not in seen:  # of a circle, the oldest
            seen.add(promise.id)
            top.children.append(beside.branch(promise))
            _spread(top.children[-1], children, beside, seen)
    return top


class Beside(NamedTuple):
    """What is known beside the promises, by their ids."""

    tasks: Mapping[str, TaskView]
    streams: Mapping[str, StreamsReply]
    held: Mapping[str, str]
    tries: Mapping[str, list[Promise]]

    def branch(self, promise: Promise) -> Branch:
        key = promise.id
        own = self.tasks.get(key), self.streams.get(key), self.held.get(key), self.tries.get(key)
        return Branch(promise, [], *own)


def _spread(
    start: Branch,
    children: Mapping[str, list[Promise]],
    beside: Beside,
    seen: set[str],
) -> None:
    """Let everything grow from a branch that has not been seen."""
    growing = [start]
    while growing:
        branch = growing.pop()
        for child in sorted(children.get(branch.promise.id, ()), key=lambda child: _order(branch, child)):
            if child.id not in seen:
                seen.add(child.id)
                branch.children.append(beside.branch(child))
        growing += branch.children


def _order(parent: Branch, child: Promise) -> tuple[bool, Millis, list[str | int]]:
    """What the code asked for, as it was counted: `wf:2` before `wf:10`. Then the rest, oldest first."""
    is_counted = child.id.startswith((f"{parent.promise.id}:", f"{parent.promise.id}."))
    return (not is_counted, 0 if is_counted else child.created_at, _natural(child.id))


def birth(promise: Promise) -> tuple[Millis, list[str | int]]:
    return promise.created_at, _natural(promise.id)


def _natural(text: str) -> list[str | int]:
    """Texts and numbers by turns, so that two of them can be compared part by part."""
    return [int(part) if number % 2 else part for number, part in enumerate(_digits.split(text))]


def draw(top: Branch, now: Millis, margin: str = "") -> Iterator[str]:
    """A line for each. The worker of a step is told where it is another than that of the step before."""
    waiting = [(top, margin, margin, True)]
    while waiting:
        branch, stem, joint, tells_worker = waiting.pop()
        line = label(branch.promise, branch.task, now, branch.tries, tells_worker=tells_worker)
        yield f"{joint}{line}" + (f", held by {branch.held_by}" if branch.held_by else "")
        counts = stream_lines(branch.streams)
        for number, line in enumerate(counts, start=1):
            ends = number == len(counts) and not branch.children
            yield f"{stem}{'└─ ' if ends else '├─ '}{line}"
        changes = _changes_of_worker(branch.children)
        for number, child in enumerate(reversed(branch.children), start=1):
            ends = number == 1
            waiting.append(
                (
                    child,
                    stem + ("   " if ends else "│  "),
                    stem + ("└─ " if ends else "├─ "),
                    changes[-number],
                )
            )


def _changes_of_worker(children: Sequence[Branch]) -> list[bool]:
    last: str | None = None
    changes: list[bool] = []
    for child in children:
        ran = Ran.of(child.promise)
        changes.append(ran is not None and ran.worker != last)
        last = last if ran is None else ran.worker
    return changes


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
        rest = {
            "task": branch.task,
            "streams": branch.streams,
            "held_by": branch.held_by,
            "tries": branch.tries,
        }
        told = [b',"%s":%s' % (name.encode(), msgspec.json.encode(it)) for name, it in rest.items() if it]
        waiting.append(b"]%s}" % b"".join(told))
        for index, child in enumerate(reversed(branch.children)):
            waiting += (b",", child) if index else (child,)
    text = b"".join(parts)
    with suppress(RecursionError):
        text = msgspec.json.format(text, indent=2)
    return text.decode()


def is_of_stream(promise: Promise) -> bool:
    """An element, the record of a key, or an answer; not one that an execution keeps for itself."""
    return tags.STREAM in promise.tags or (
        tags.ANSWER in promise.tags and LABEL not in (promise.param.headers or {})
    )


def is_note_to_itself(promise: Promise, known: Mapping[str, Promise]) -> bool:
    """That it saw some completion first, that it made a call which is here as well, or what a request to
    cancel it would resolve: not a call."""
    if promise.id == cancel_id(promise.tags.get(tags.PARENT, "")):
        return promise.state != "resolved"
    if (step := step_of(promise.id)) is not None and step in known:
        return True
    return OBSERVED in (promise.value.headers or {}) or (
        promise.id.endswith("~") and promise.id[:-1] in known
    )


_digits: Final = re.compile("([0-9]+)")
