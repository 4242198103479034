"""The errors of executions: what a workflow, its caller or its operator may meet."""

from holdfast.payloads.errors import WorkerError


class ReplayMismatch(WorkerError):
    """The code does not match the record. The execution is halted, and nothing is lost."""

    code = "HF5101"
    hint = (
        "Deploy code that matches what is recorded (see `patched`), then continue the task: "
        "`holdfast tasks continue ID`."
    )


class ExecutionCancelled(WorkerError):
    """The execution or promise that was awaited has been cancelled.

    Not a `Cancelled`: that is what the cancelled code itself sees. A parent that awaits a cancelled child
    fails with this, unless it catches it; it does not end as cancelled.
    """

    code = "HF5102"


class UnknownWorkflow(WorkerError):
    """A task asks for a workflow that this process does not have."""

    code = "HF5104"
    hint = "Import the module that defines it before the worker starts, or give it a group of its own."


class DuplicateWorkflow(WorkerError):
    """Two functions claim the same name and version."""

    code = "HF5105"
    hint = "Give one of them another name or version."


class NotAWorkflow(WorkerError):
    """Something else was given where a workflow is asked for."""

    code = "HF5109"
    hint = "Decorate it with @app.workflow. Inside one, hf.run(...) runs a step; a task has its .send(...)."


class BadStartOption(WorkerError, ValueError):
    """An option of a workflow that says where or when it begins, and cannot be used."""

    code = "HF5016"


class BadLock(WorkerError, ValueError):
    """A lock that cannot be requested like this, or an object that does not hold one."""

    code = "HF5150"
    hint = "See docs/reference/locks.md."


class ClaimGone(Exception):
    """This process no longer drives the execution. Never seen by user code."""


class NoAsyncioHere(WorkerError, RuntimeError):
    """Code of a workflow asked asyncio for its event loop."""

    code = "HF5112"
    hint = (
        "Use hf.sleep, hf.timeout, hf.spawn and hf.gather, and do the rest in a step: hf.run(function). "
        'Code that is written for asyncio runs in @app.workflow(loop="asyncio").'
    )


class NotInAWorkflowLoop(WorkerError, RuntimeError):
    """Code of an asyncio workflow asked its loop for I/O or a thread."""

    code = "HF5113"
    hint = "Put it into a step: hf.run(function)."


class NeverWaits(WorkerError, RuntimeError):
    """The tasks of an asyncio workflow run on and on, and none waits for anything durable."""

    code = "HF5114"
    hint = "Await the step, the timer or the event itself; a loop around asyncio.sleep(0) never ends."


class NondeterministicCall(WorkerError):
    """Under the testing kit: code of a workflow called something that is not deterministic."""

    code = "HF5115"
    hint = "If it does no harm here, say so: `with hf.unguarded():`."


class NondeterminismWarning(RuntimeWarning):
    """Code of a workflow called something that is not deterministic. The warning names the line."""


class BadDatabase(WorkerError):
    """The database of a transactional step cannot be used as it was given."""

    code = "HF5130"
    hint = (
        "Give on= a pathlib.Path, a pool, an engine, a sessionmaker, a function that connects, or the name "
        "of one that the app provides. An asynchronous database needs an async def, a synchronous one a def."
    )


class TransactionEnded(WorkerError):
    """The function of a transactional step committed or rolled back by itself. What it wrote before stays."""

    code = "HF5131"
    hint = "Let hf.transact end the transaction; use a savepoint for a part that may fail."


class CommitInDoubt(WorkerError):
    """The database went away while a transactional step was committed: it has happened, or not."""

    code = "HF5132"
    hint = "Give the step a retry: the next attempt finds out. Without one, check your own tables."
    retryable = True


class IdTaken(WorkerError):
    """Another workflow, another version or other arguments have this id already. Nothing was started."""

    code = "HF5203"
    hint = "Use a new id for each call, or leave it out; `app.handle(id)` shows what has this one."


class MessageRefused(WorkerError):
    """The execution that was asked refused the message, for this reason."""

    code = "HF5117"


class AlreadyAnswered(WorkerError):
    """A message was answered or refused twice. The first answer stands."""

    code = "HF5118"
    hint = "Answer each message once; hf.receive() answers its message with None by itself."


class BadName(WorkerError, ValueError):
    """A name that a promise or a stream of an execution cannot have."""

    code = "HF5119"
    hint = "Use 1 to 100 letters, digits, _ and -; not only digits, and not cancel, in, out or value."


class NotRunning(WorkerError, RuntimeError):
    """A function that belongs into a workflow, a step or a background task was called elsewhere."""

    code = "HF5116"
    hint = "Call it where a workflow, a step or a background task runs."


class BadEntity(WorkerError, TypeError):
    """A class cannot be an entity as it is written."""

    code = "HF5140"
    hint = (
        "State is annotated fields with defaults; calls are `async def` methods: docs/reference/entities.md."
    )


class EntityMisused(WorkerError, RuntimeError):
    """An entity was used in a place or in a way that is not possible."""

    code = "HF5141"
    hint = (
        'In a workflow: await Account("ada").deposit(5). From outside: app.entity(Account, "ada").deposit(5).'
    )


class EntityContinues(EntityMisused):
    """A method of an entity called `continue_as_new`."""

    code = "HF5143"
    hint = "Change the fields of self: they are kept. An entity continues as new by itself after each call."


class EntityStateUnread(WorkerError):
    """What is stored of an entity is not what its class has today."""

    code = "HF5142"
    hint = "Raise the version of the entity, and give its class an `upgrade` that reads the older shape."
