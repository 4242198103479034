"""The errors of dependencies: what is provided, and what is asked for."""

from holdfast.payloads.errors import WorkerError


class BadProvider(WorkerError):
    """A dependency is declared or asked for in a way that cannot work."""

    code = "HF5106"
    hint = "Provide each type or name once, and open what a child process needs inside its step."


class NotProvided(WorkerError):
    """A function asks for a dependency that this process does not provide."""

    code = "HF5107"
    hint = "Call app.provide(...) for it before the worker starts."
