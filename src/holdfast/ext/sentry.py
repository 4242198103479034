"""Sentry: a step, a task or a workflow that fails is one event, with its id and attempt.

    sentry_sdk.init(...)
    app.use(Sentry())

1. One event when it fails for good. Attempts that another one follows are events too with `every_attempt`.
2. The error of a step that then ends its workflow is not a second event.
3. Every attempt has a scope of its own: what the function adds to it (tags, breadcrumbs) is in its event.
4. What our own loggers say of the same failures is not an event.
"""

from collections import OrderedDict
from collections.abc import Generator
from typing import Any, Final

from holdfast.ext.optional import load
from holdfast.payloads import error_values
from holdfast.steps.middleware import Invocation
from holdfast.steps.observer import EndedExecution, FailedAttempt, Observer

told_max: Final = 10_000  # executions of which the last reported error is kept
own_loggers: Final = ("holdfast.worker", "holdfast.tasks")
SCOPE: Final = "__holdfast_sentry_scope__"


class Sentry(Observer):
    def __init__(self, *, every_attempt: bool = False) -> None:
        self._sdk = load("sentry_sdk", "sentry")
        self._every_attempt = every_attempt
        self._told: OrderedDict[str, str] = OrderedDict()
        ignore_logger = load("sentry_sdk.integrations.logging", "sentry").ignore_logger
        for name in own_loggers:
            ignore_logger(name)

    def install(self, app: Any) -> None:
        app.hooks.middlewares.add(self._around, ("step", "task"))

    def _around(self, invocation: Invocation) -> Generator[None, Any, None]:
        with self._sdk.isolation_scope() as scope:
            try:
                yield
            except Exception as error:
                _keep(error, scope)
                raise

    def attempt_failed(self, failed: FailedAttempt) -> None:
        if not failed.is_final and not self._every_attempt:
            return
        if failed.kind == "step":
            self._remember(failed.execution, failed.error)
        scope = getattr(failed.error, SCOPE, None)
        tags = {
            "holdfast.execution": failed.execution,
            "holdfast.workflow" if failed.kind == "step" else "holdfast.task": failed.workflow,
            "holdfast.attempt": str(failed.attempt),
        }
        if failed.kind == "step":
            tags |= {"holdfast.step": failed.name, "holdfast.operation": failed.id}
        self._capture(failed.error, scope, tags)

    def execution_ended(self, ended: EndedExecution) -> None:
        told = self._told.pop(ended.root.id, None)
        if ended.error is not None and told != _signature(ended.error):
            tags = {"holdfast.execution": ended.root.id, "holdfast.workflow": ended.workflow}
            self._capture(ended.error, None, tags)

    def _capture(self, error: BaseException, scope: Any, tags: dict[str, str]) -> None:
        with self._sdk.isolation_scope() as here:
            if scope is not None:
                here.update_from_scope(scope)
            for name, value in tags.items():
                here.set_tag(name, value)
            self._sdk.capture_exception(error)

    def _remember(self, execution: str, error: BaseException) -> None:
        self._told[execution] = _signature(error)
        self._told.move_to_end(execution)
        while len(self._told) > told_max:
            self._told.popitem(last=False)


def _signature(error: BaseException) -> str:
    """The same error, also when it was read from its record."""
    return f"{type(error).__name__}: {error_values.text_of(error)}"


def _keep(error: BaseException, scope: Any) -> None:
    try:
        setattr(error, SCOPE, scope)
    except Exception:  # its class may not allow that
        return
