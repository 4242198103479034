"""The errors of dependencies, middlewares and carried context variables."""

from holdfast.payloads.errors import WorkerError


class BadProvider(WorkerError):
    """A dependency is declared or asked for in a way that cannot work."""

    code = "HF5106"
    hint = "Provide each type or name once, and open what a child process needs inside its step."


class NotProvided(WorkerError):
    """A function asks for a dependency that this process does not provide."""

    code = "HF5107"
    hint = "Call app.provide(...) for it before the worker starts."


class BadMiddleware(WorkerError):
    """A middleware is not a generator function with one `yield`."""

    code = "HF5170"
    hint = (
        "Write a generator function with one `yield` that takes the invocation: docs/reference/middleware.md."
    )


class BadCarried(WorkerError):
    """A context variable cannot be carried: it is none, its name is taken, its value no JSON or too large."""

    code = "HF5171"
    hint = "Carry a few short values (ids, names) under different names: docs/reference/middleware.md."
