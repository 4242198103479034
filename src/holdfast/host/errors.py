"""The errors of an app: what its life, its handles and its bridges between threads and loops may raise."""

from typing import Any

from holdfast.payloads.errors import WorkerError


class AppError(WorkerError):
    """The root of the errors of this layer."""

    code = "HF5200"


class ClosedTooSoon(AppError):
    """The app was closed before the node answered or the result was known."""

    code = "HF5202"
    hint = "It may have been carried out: read the state back, or ask for it again under the same id."


class AlreadySettled(AppError):
    """The promise already has another outcome. `state` and `value` are that outcome."""

    code = "HF5204"
    hint = "The first outcome is final, and yours changed nothing."

    def __init__(self, what: str, state: str = "", value: Any = None) -> None:
        super().__init__(what)
        self.state = state
        self.value = value


class NotAnOpenPromise(AppError):
    """`app.resolve` or `app.reject` was asked to settle an execution or a background task."""

    code = "HF5205"
    hint = (
        "Only its own code settles it, so that it can clean up and compensate. To end it early, cancel it: "
        "app.handle(id).cancel() for an execution, app.task_handle(id).cancel() for a task."
    )


class OpenedBeforeFork(AppError, RuntimeError):
    """A process made by os.fork() cannot use, or open again, what its parent had open."""

    code = "HF5206"
    hint = (
        "Open the app after the fork, close it before, start the process with spawn instead of fork, or use "
        "PostgreSQL or a server."
    )


class WouldBlock(AppError, RuntimeError):
    """A call that waits was made on an event loop, where it would block everything else."""

    code = "HF5207"
    hint = (
        "Open the app with `async with app` and await: `await handle`, `await task.send_async(...)`. "
        "If you cannot do that: `await asyncio.to_thread(...)`."
    )


class CannotPickle(AppError, TypeError):
    """An app or a handle cannot be pickled, for example to pass it to another process."""

    code = "HF5209"
    hint = (
        "Import the module that declares the app in the other process, and send it the id: "
        "app.handle(id) and app.task_handle(id) find the same execution and task there."
    )


class AlreadyOpen(AppError, RuntimeError):
    """The app is open already, and something else tried to open or close it."""

    code = "HF5208"
    hint = "Open it once, where the program starts, and use it from everywhere: threads and other loops too."


class HistoryTooLong(AppError):
    """An execution has more records than are read into memory at once."""

    code = "HF5212"
    hint = "Read its records page by page: `holdfast promises search --prefix`."


class NoNodeHere(AppError):
    """The app talks to a server, and the call needs a node in this process."""

    code = "HF5213"
    hint = "Ask the server itself: it has the management API at /v1."


class OwnTransactionOpen(AppError, RuntimeError):
    """A call that waits for the node was made inside your own open SQLite transaction, after something was
    sent or started in it. The transaction locks the file, so the node cannot answer."""

    code = "HF5215"
    hint = "Commit first, or roll back. What you sent or started exists from the commit on."
