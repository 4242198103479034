"""`holdfast promises ...`"""

import argparse

from holdfast.cli.options import (
    add_creation,
    add_paging,
    add_payload,
    creation_tags,
    deadline,
    duration,
)
from holdfast.cli.output import print_json, print_more, print_promise, print_promises
from holdfast.cli.payloads import decode_payload, decode_text, payload
from holdfast.cli.session import CliSession, add_command
from holdfast.host.errors import AlreadySettled
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.records import Settlement
from holdfast.protocol.replies import PromiseReply, PromisesReply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSearch,
    PromiseSettle,
    RequestData,
)
from holdfast.workflow.same_call import is_same_value

states = ("pending", "resolved", "rejected", "rejected_canceled", "rejected_timedout")


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_command(commands, "get", "show a promise", _get).add_argument("id", help="the id of the promise")

    create = add_command(
        commands, "create", "create a promise; the same id again is the same promise", _create
    )
    create.add_argument("id", help="the id of the promise")
    add_creation(create)
    create.add_argument(
        "--delay", metavar="DURATION", type=duration, help="offer its task no earlier than after this time"
    )

    for verb, settlement in (
        ("resolve", "resolved"),
        ("reject", "rejected"),
        ("cancel", "rejected_canceled"),
    ):
        settle = add_command(commands, verb, f"settle a promise as {settlement}", _settle)
        settle.set_defaults(settlement=settlement)
        settle.add_argument("id", help="the id of the promise")
        add_payload(settle, "value")
        settle.add_argument("--key", help="an idempotency key")

    search = add_command(commands, "search", "list promises, by id", _search)
    search.add_argument("--state", choices=states, help="only in this state")
    add_paging(search)

    callback = add_command(
        commands, "register-callback", "wake a task when a promise settles", _register_callback
    )
    callback.add_argument("awaited", help="the promise")
    callback.add_argument("awaiter", help="the id of the task")

    listener = add_command(
        commands, "register-listener", "send a message when a promise settles", _register_listener
    )
    listener.add_argument("awaited", help="the promise")
    listener.add_argument("address", help="poll://uni@group/id, poll://any@group or http://...")


async def _show(session: CliSession, arguments: argparse.Namespace, data: RequestData) -> None:
    _print(await session.ask(data, PromiseReply), arguments)


def _print(reply: PromiseReply, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(reply)
    else:
        print_promise(reply.promise)


async def _get(session: CliSession, arguments: argparse.Namespace) -> None:
    await _show(session, arguments, PromiseGet(arguments.id))


async def _create(session: CliSession, arguments: argparse.Namespace) -> None:
    await _show(session, arguments, await creation(session, arguments, arguments.id))


async def creation(session: CliSession, arguments: argparse.Namespace, promise_id: str) -> PromiseCreate:
    """Its deadline and its delay count by the node's clock."""
    now = await session.now(promise_id)
    entries = creation_tags(arguments)
    if getattr(arguments, "delay", None):
        entries[tags.DELAY] = str(now + arguments.delay)
    param = payload(arguments.data, arguments.raw_data, dict(arguments.headers))
    return PromiseCreate(promise_id, deadline(arguments.timeout, now), param, entries, arguments.key)


def settlement(arguments: argparse.Namespace, promise_id: str, state: Settlement) -> PromiseSettle:
    value = payload(arguments.data, arguments.raw_data, dict(arguments.headers))
    return PromiseSettle(promise_id, state, value, arguments.key)


async def _settle(session: CliSession, arguments: argparse.Namespace) -> None:
    """What is settled already stays as it is: whoever wanted another outcome is told which one stands."""
    asked = settlement(arguments, arguments.id, arguments.settlement)
    reply = await session.ask(asked, PromiseReply)
    promise = reply.promise
    if promise.state != asked.state or not is_same_value(asked.value, promise.value, Payloads()):
        value = decode_payload(promise.value)
        shown = "" if value is None else f" with {decode_text(promise.value)[:100]}"
        raise AlreadySettled(f"{promise.id!r} is already {promise.state}{shown}", promise.state, value)
    _print(reply, arguments)


async def _search(session: CliSession, arguments: argparse.Namespace) -> None:
    search = PromiseSearch(
        arguments.state, dict(arguments.tags) or None, arguments.prefix, arguments.page, arguments.cursor
    )
    pages = await session.pages(search, PromisesReply, every=arguments.all)
    found = PromisesReply([promise for page in pages for promise in page.promises], pages[-1].cursor)
    if arguments.json:
        print_json(found)
    else:
        print_promises(found.promises)
        print_more(found.cursor)


async def _register_callback(session: CliSession, arguments: argparse.Namespace) -> None:
    await _show(session, arguments, PromiseRegisterCallback(arguments.awaited, arguments.awaiter))


async def _register_listener(session: CliSession, arguments: argparse.Namespace) -> None:
    await _show(session, arguments, PromiseRegisterListener(arguments.awaited, arguments.address))
