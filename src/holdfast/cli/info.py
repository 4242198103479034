"""`holdfast info ID`: what an execution or a background task is doing, and what it waits for."""

import argparse
from collections.abc import Mapping

from holdfast.cli.options import add_connection
from holdfast.cli.output import instant, print_block, print_json, print_line, print_table, shown_payload
from holdfast.cli.progress_bar import print_progress
from holdfast.cli.session import CliSession, with_session
from holdfast.cli.tree_lines import error_line
from holdfast.protocol.executions import ExecutionView, Wait
from holdfast.protocol.limits import instant_ms_max
from holdfast.protocol.replies import ExecutionReply, PromiseReply, PromisesReply, StreamReply, StreamsReply
from holdfast.protocol.requests import ExecutionGet, PromiseGet, StreamList, StreamRead
from holdfast.protocol.set_aside import message_of, set_aside_max, set_aside_search
from holdfast.protocol.streams import MAILBOX, is_published, number_of
from holdfast.protocol.tags import grace_of


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_info))
    parser.add_argument("id", help="the id of the execution or the background task")
    add_connection(parser)


async def _info(session: CliSession, arguments: argparse.Namespace) -> None:
    view = (await session.ask(ExecutionGet(arguments.id), ExecutionReply)).execution
    if arguments.json:
        print_json(ExecutionReply(view))
        return
    promise = (await session.ask(PromiseGet(arguments.id), PromiseReply)).promise
    told_at = view.timeout_at - (grace_of(view.tags) or 0)
    deadline = None if view.timeout_at >= instant_ms_max or view.settled_at else instant(told_at)
    print_block(
        [
            ("id", view.id),
            ("workflow" if view.kind == "execution" else "task", view.name),
            ("status", view.status),
            ("since", instant(view.since)),
            ("created", instant(view.created_at)),
            ("due", instant(view.due_at) if view.status == "waiting" else None),
            ("deadline", deadline),
            ("queue", view.queue or view.group),
            ("worker", view.worker),
            ("attempts", str(view.attempts)),
            ("generation", str(view.generation) if view.generation else None),
            ("crashes", str(view.crashes) if view.crashes else None),
            ("error", error_line(promise.value) if view.status == "failed" else view.error),
            ("code", view.code),
            ("tags", [f"{name}={value}" for name, value in view.tags.items() if ":" not in name] or None),
            ("param", shown_payload(promise.param)),
            ("started with" if promise.state == "pending" else "value", shown_payload(promise.value)),
        ]
    )
    print_progress(view.progress)
    streams = (await session.ask(StreamList(view.id), StreamsReply)).streams
    await _print_published(session, view.id, streams)
    if streams.get(MAILBOX):
        await _print_set_aside(session, view.id)
    _print_waits(view)
    _print_lost(view)
    print_line()
    print_line(f"`holdfast tree {view.id}` draws what it did.")


async def _print_published(session: CliSession, execution_id: str, streams: Mapping[str, int]) -> None:
    names = sorted(name for name, count in streams.items() if is_published(name) and count)
    for stream in names:
        page = await session.ask(StreamRead(execution_id, stream, last=True), StreamReply)
        for each in page.promises:
            print_line()
            print_block(
                [
                    ("published", stream.partition(".")[2]),
                    ("value", shown_payload(each.value)),
                    ("at", instant(each.settled_at)),
                ]
            )


async def _print_set_aside(session: CliSession, execution_id: str) -> None:
    """Messages that were not of the type that the code receives, the first of them."""
    found: list[tuple[int, str]] = []
    cursor: str | None = ""
    while cursor is not None and len(found) < set_aside_max:
        page = await session.ask(set_aside_search(execution_id, cursor=cursor or None), PromisesReply)
        found += [
            (number_of(message), error_line(each.value) or "")
            for each in page.promises
            if (message := message_of(each.id))
        ]
        cursor = page.cursor
    if found:
        print_line()
        rows = [[f"message {number}", error] for number, error in sorted(found)[:set_aside_max]]
        print_table(["set aside", "because"], rows)


def _what(wait: Wait) -> str:
    return (
        f"{wait.what}, held by {wait.held_by} since {instant(wait.held_since)}" if wait.held_by else wait.what
    )


def _print_lost(view: ExecutionView) -> None:
    if view.lost_claims:
        print_line()
        print_table(
            ["lost by", "held since", "until", "how", "taken over by", "at"],
            [
                [
                    claim.worker,
                    instant(claim.since) or "",
                    instant(claim.until) or "",
                    "lease lapsed" if claim.end == "lapsed" else "given back with an error",
                    claim.taken_by or "",
                    (instant(claim.taken_at) or "") if claim.taken_at else "",
                ]
                for claim in view.lost_claims
            ],
        )


def _print_waits(view: ExecutionView) -> None:
    if view.waits:
        print_line()
        print_table(
            ["waits for", "id", "at", "attempts", "again"],
            [
                [
                    _what(wait),
                    wait.id,
                    f"{wait.file}:{wait.line} in {wait.function}" if wait.file else "",
                    f"{wait.attempts}, {wait.error}" if wait.attempts else "",
                    (instant(wait.resumes_at) or "") if wait.resumes_at else "",
                ]
                for wait in view.waits
            ],
        )
