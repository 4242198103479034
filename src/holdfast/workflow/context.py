"""What every execution of a worker shares."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.interface import Client
from holdfast.client.listening import Settlements
from holdfast.payloads.payloads import Payloads
from holdfast.runtime import Report
from holdfast.steps.hooks import Hooks
from holdfast.steps.observer import SILENT, Observers
from holdfast.steps.providers import Provided, Providers
from holdfast.steps.runner import StepRunner
from holdfast.workflow.operations import Note
from holdfast.workflow.transacting import Transactions


def choose_now(promise_id: str, note: Note) -> Any:
    return note.choose()


class WorkerContext(Struct, frozen=True):
    """The node, the formats, the runner of steps, and this process's place in the world."""

    client: Client
    payloads: Payloads
    runner: StepRunner
    inbox: Settlements
    address: str  # where this process hears of promises
    group: str
    now: Callable[[], int]
    known_errors: Mapping[str, type[Exception]]
    report: Callable[[str, Report], None]
    provided: Provided = msgspec.field(default_factory=lambda: Provided(Providers()))
    listen_again_s: float | None = 30.0  # a lost message costs at most this
    pid: str = ""  # as the node and the log know this process
    transactions: Transactions | None = None  # performs transactional steps
    hooks: Hooks = msgspec.field(default_factory=Hooks)
    observers: Observers = SILENT  # those of `hooks`, unless nothing is to be told
    keep_generations: int = 0  # the records of so many past ones stay, where the workflow says nothing
    choose: Callable[[str, Note], Any] = choose_now  # what a note is to remember; tests choose by id
