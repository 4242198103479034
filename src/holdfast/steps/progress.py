"""What a step or a background task reports of its progress: told to the node by heartbeats of its task.

1. A report leaves at once if none left within the last second; else the last one of that second does. A crash
   loses no more than that.
2. Reports wait for nobody, and what cannot be told is no reason to fail. Only an attempt that fails has its
   last report told before its end is, because the next attempt may be elsewhere.
3. The next attempt finds the last report of the one before (`hf.current().progress`).
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import _get_running_loop  # pyright: ignore[reportPrivateUsage]  # for whoever makes loops
from collections.abc import Callable
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.client.caller import ask
from holdfast.client.interface import Client
from holdfast.payloads.errors import BadProgress, StepCalledOff
from holdfast.protocol import limits
from holdfast.protocol.records import TaskRef
from holdfast.protocol.reported import ProgressUpdate
from holdfast.protocol.requests import TaskHeartbeat
from holdfast.steps.info import StepProgress

if TYPE_CHECKING:
    from holdfast.steps.step_run import StepOutcome

log = logging.getLogger("holdfast.worker")
report_every_s: Final = 1.0


def check_progress(fraction: Any, fields: dict[str, Any]) -> str | None:
    """The fields as JSON. Raises BadProgress for what cannot be told."""
    is_number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
    if fraction is not None and not (is_number and isfinite(fraction) and 0 <= fraction <= 1):
        raise BadProgress(f"progress({fraction!r}): the first argument is a number from 0 to 1")
    try:
        data = msgspec.json.encode(fields).decode() if fields else None
    except (TypeError, ValueError, OverflowError) as error:
        raise BadProgress(f"progress(): {error}") from None
    if data is not None and len(data.encode()) > limits.progress_bytes_max:
        raise BadProgress(f"progress(): its fields are larger than {limits.progress_bytes_max} bytes")
    return data


class ProgressReporter:
    """Of one step, or one attempt at a task. `step` is empty for a task."""

    def __init__(
        self,
        client: Client,
        pid: str,
        ref: TaskRef,
        step: str,
        loop: asyncio.AbstractEventLoop,
        sending: set[asyncio.Task[None]],
    ) -> None:
        self._client = client
        self._pid = pid
        self._ref = ref
        self._step = step
        self._loop = loop
        self._all_sending = sending
        self._unsent: ProgressUpdate | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self.latest: StepProgress | None = None

    def put(self, fraction: float | None, fields: dict[str, Any]) -> None:
        """On any thread."""
        data = check_progress(fraction, fields)
        self._unsent = ProgressUpdate(self._ref.id, self._step, fraction, data)
        self.latest = StepProgress(fraction, fields, datetime.now(UTC))
        if _get_running_loop() is self._loop:
            self._begin_sending()
        else:
            self._loop.call_soon_threadsafe(self._begin_sending)

    # --- on the loop -----------------------------------------------------------------------------------

    def _begin_sending(self) -> None:
        if self._timer is None and self._sending is None:
            self._send()

    def _send(self) -> None:
        self._timer = None
        if self._unsent is not None:
            update, self._unsent = self._unsent, None
            self._sending = self._loop.create_task(self._tell(update))
            self._all_sending.add(self._sending)
            self._sending.add_done_callback(self._has_sent)

    def _has_sent(self, sending: asyncio.Task[None]) -> None:
        self._sending = None
        self._all_sending.discard(sending)
        if sending.cancelled():  # whoever performs steps is closing
            self._unsent = None
            return
        self._timer = self._loop.call_later(report_every_s, self._send)

    async def _tell(self, update: ProgressUpdate) -> None:
        heartbeat = TaskHeartbeat(self._pid, [self._ref], progress=[update])
        try:
            await self._client.request([ask(heartbeat)])
        except Exception:  # the next one may get through
            log.debug("the progress of %s could not be reported", self._step or self._ref.id, exc_info=True)

    def finish(self, outcome: StepOutcome, done: Callable[[StepOutcome], None]) -> None:
        """Call `done`; after an attempt that failed, once its last report is told."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if outcome.error is None or isinstance(outcome.error, StepCalledOff):
            done(outcome)
        elif self._sending is not None:
            self._sending.add_done_callback(lambda _: self.finish(outcome, done))
        elif self._unsent is not None:
            self._send()
            self.finish(outcome, done)
        else:
            done(outcome)
