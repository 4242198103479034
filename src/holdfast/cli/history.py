"""`holdfast history ID`: a whole execution as JSON, to keep and to replay."""

import argparse
from pathlib import Path

import msgspec

from holdfast.cli.failures import UsageError
from holdfast.cli.options import add_connection
from holdfast.cli.output import print_json, print_line
from holdfast.cli.session import CliSession, with_session
from holdfast.host.looking import LookClient
from holdfast.payloads.payloads import Payloads


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=with_session(_history))
    parser.add_argument("id", help="the id of the execution")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there instead of printing it")
    add_connection(parser)


async def _history(session: CliSession, arguments: argparse.Namespace) -> None:
    history = await LookClient(session.caller, Payloads(), {}).history(arguments.id)
    if arguments.output is None:
        print_json(history)
        return
    _write(arguments.output, msgspec.json.format(msgspec.json.encode(history), indent=2))
    print_line(f"{arguments.output}: {len(history['records'])} records of {arguments.id}")


def _write(file: str, text: bytes) -> None:
    try:
        Path(file).write_bytes(text + b"\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
