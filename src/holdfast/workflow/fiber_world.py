"""The world of an execution, as its fibers see it: what they may ask for and what they may know.

It owns nothing: `execution.py` drives the fibers, and makes anew for each generation what is used here.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.protocol import limits, tags
from holdfast.protocol.errors import TooManyStreams
from holdfast.protocol.generations import generation_of
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import Reply, StreamsReply
from holdfast.protocol.streams import ANSWER_HEADER, MAILBOX
from holdfast.runtime import Future, Report, Scheduler
from holdfast.runtime.inbox import Inbox, is_taken
from holdfast.runtime.teardown import let_go
from holdfast.steps.here import StepClaim
from holdfast.steps.info import ExecutionInfo, describe
from holdfast.steps.middleware import Entered, Kind
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.conversation import NextMessage
from holdfast.workflow.logs import said, tell
from holdfast.workflow.operations import Action
from holdfast.workflow.progress_end import EndingProgress


class FiberWorld:
    id: str
    name: str
    promise: Promise
    scheduler: Scheduler
    worker_context: WorkerContext
    _progress: EndingProgress
    _inbox: Inbox | None
    _streams: frozenset[str]  # what the code of this generation has emitted to
    _received: list[tuple[Future[Any], Callable[[], object]]]
    _claim: StepClaim | None

    @property
    def version(self) -> int:
        """At which it is claimed here."""
        raise NotImplementedError

    def issue(self, operation: object, /) -> str:
        return self._progress.issue(operation)

    def report(self, report: Report, /) -> None:
        self.worker_context.report(self.id, report)

    def elapsed_s(self) -> float:
        return self._progress.elapsed_s()

    @property
    def inbox(self) -> Inbox:
        """The messages to this execution."""
        if self._inbox is None:
            read = generation_of(self.promise).read
            self._inbox = Inbox(
                self.scheduler, partial(NextMessage, self.id, self._wanted_message), self._set_aside, read
            )
            self._progress.after_drain = self._answer_received
        return self._inbox

    def write_at_end(self, action: Action) -> None:
        """With the commit that ends the generation, which must be the next thing that the code does."""
        self._progress.add_unwritten([action])

    def asks_for_lock(self, ticket: str, name: str) -> None:
        self._progress.tickets[ticket] = name

    def lets_go_of_lock(self, ticket: str) -> None:
        self._progress.tickets.pop(ticket, None)

    def emits_to(self, stream: str) -> None:
        """The name that is one too many is refused at the call. Every replay counts the same; what steps and
        earlier generations have emitted to is known to the node alone."""
        if stream not in self._streams:
            if len(self._streams) >= limits.streams_max:
                most = limits.streams_max
                raise TooManyStreams(f"The execution {self.id!r} has {most} streams, which is the limit")
            self._streams |= {stream}

    def _wanted_message(self) -> Any:
        return self.inbox.wanted

    def received(self, reader: Future[Any], answer: Callable[[], object]) -> None:
        """A question was taken by a reader that does not answer: `answer` does, after the drain, unless the
        reader has lost it again."""
        self._received.append((reader, answer))

    def _answer_received(self) -> None:
        received, self._received = self._received, []
        for reader, answer in received:
            if is_taken(reader):
                answer()

    def _set_aside(self, element: Promise, error: Exception) -> None:
        answer = (element.value.headers or {}).get(ANSWER_HEADER)
        if self._progress.set_aside(element, error, answer):
            message = f"{element.id} was set aside: {said(error)}"
            tell(logging.WARNING, "set aside", message, promise=element.id, **self._fields)

    def _tell_unread(self, reply: Reply) -> None:
        """The code has received messages, and has returned before the last one."""
        if self._inbox is not None and isinstance(reply.data, StreamsReply):
            unread = reply.data.streams.get(MAILBOX, 0) - self._inbox.taken
            if unread > 0:
                message = f"{self.name} {self.id} has ended, and {unread} message(s) to it were not read"
                tell(logging.WARNING, "unread", message, **self._fields)

    def _let_go_of_generation(self) -> None:
        """It is over: cut what leads back to it, so that it is freed without the garbage collector."""
        let_go(self.scheduler)
        self._progress.after_drain = None
        if self._inbox is not None:
            self._inbox.let_go()

    @property
    def _fields(self) -> dict[str, Any]:
        return {"execution": self.id, "workflow": self.name}

    def leaving(self, kind: Kind, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entered | None:
        """The code starts, sends or tells something."""
        context = self.worker_context
        more = {"execution": self.id, "workflow": self.name, "is_replay": self.is_replaying}
        return context.hooks.leaving(kind, name, "", args, kwargs, context.payloads, **more)

    def is_patched(self, name: str) -> bool | None:
        return self._progress.is_patched(name)

    @property
    def has_many_records(self) -> bool:
        return self._progress.has_many_records

    @property
    def is_replaying(self) -> bool:
        return self._progress.is_replaying

    @property
    def info(self) -> ExecutionInfo:
        """Who drives it."""
        return self.claim.info

    @property
    def claim(self) -> StepClaim:
        """What its steps are performed under: made once for each claim."""
        if self._claim is None:
            context, info = self.worker_context, describe(self.promise, self.name, self.version)
            runner = context.runner
            self._claim = StepClaim(
                info,
                runner.loop,
                context.client,
                context.payloads,
                pid=context.pid,
                sending=runner.sending,
                run=self.promise.tags.get(tags.RUN),
            )
        return self._claim
