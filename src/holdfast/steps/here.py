"""What a function may know of the step or the task that it is performed for, and how it emits.

A driver gives a step its id and the claim that it is performed under; the attempt that runs here is found in
one context variable (`runtime/step.py`). All else is made when somebody asks for it: most functions never do.

1. A step keeps the claim it began with, and so its token.
2. A step has one emitter, whatever threads it emits from.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Task
from threading import Lock
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.interface import Client
from holdfast.payloads.payloads import Payloads
from holdfast.runtime.step import Step, attempt_here
from holdfast.steps.emitter import Emitter
from holdfast.steps.info import ExecutionInfo, StepProgress

_first_emit: Final = Lock()


class StepClaim(Struct, frozen=True):
    """The claim of an execution or a task, shared by all steps that are performed under it.

    `execution`: whose streams they emit to, if not those of the claimed one. Without a client they have none.
    `run`: of an execution that was started again under its id, whose steps are not those of the first run.
    """

    info: ExecutionInfo
    loop: AbstractEventLoop | None = None
    client: Client | None = None
    payloads: Payloads | None = None
    execution: str | None = None
    pid: str = ""
    sending: set[Task[None]] | None = None  # by their emitters: ended with the runner
    run: str | None = None

    def make_emitter(self, step: Step) -> Emitter | None:
        if self.client is None or self.payloads is None or self.loop is None:
            return None
        info = self.info
        return Emitter(
            self.client,
            self.payloads,
            info.id,
            info.token,
            self.execution or info.id,
            step.id or info.id,
            info.generation or None,
            self.loop,
            self.pid,
            set[Task[None]]() if self.sending is None else self.sending,
        )


def info_of(step: Step) -> ExecutionInfo | None:
    """Of its first attempt; of a task, whose steps have no id of their own, as it is."""
    claim: StepClaim | None = step.claim
    if claim is None:
        return None
    told = _progress_of(step)
    if step.id is None:
        return claim.info if told is None else replace(claim.info, progress=told)
    key = step.id if claim.run is None else f"{step.id}@{claim.run}"
    return replace(claim.info, step=key, attempt=1, progress=told)


def _progress_of(step: Step) -> StepProgress | None:
    """What this attempt has told last, or else the one before."""
    emitter: Emitter | None = step.emitter
    if emitter is not None and emitter.reporter is not None:
        return emitter.reporter.latest
    found: StepProgress | None = step.progress
    return found


def emitter_of(step: Step) -> Emitter | None:
    if step.emitter is None and step.claim is not None:
        with _first_emit:
            if step.emitter is None:
                step.emitter = step.claim.make_emitter(step)
    found: Emitter | None = step.emitter
    return found


def step_here() -> Step | None:
    found = attempt_here.get(None)
    return None if found is None else found[0]


def info_here() -> ExecutionInfo | None:
    """What the code that runs here is part of, if that is a step or a task."""
    found = attempt_here.get(None)
    info = None if found is None else info_of(found[0])
    if found is None or info is None or info.step is None or found[1] == 1:
        return info
    return replace(info, attempt=found[1])


def current_attempt() -> int:
    """1 in the first attempt of a step, 2 in the second, and so on; 1 where no step is running."""
    found = attempt_here.get(None)
    return 1 if found is None else found[1]
