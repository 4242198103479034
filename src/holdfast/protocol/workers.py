"""What a worker tells of itself and of what it knows to run. For people: no claim depends on it."""

from typing import Any, Final, Literal

from msgspec import Struct

from holdfast.protocol.text import check_text

declared_bytes_max: Final = 262_144
report_bytes_max: Final = 65_536  # without the declarations
queues_max: Final = 1_000
told_s: Final = 15.0  # between two reports of a worker

Declared = Literal["workflow", "task", "entity"]
WorkerState = Literal["running", "draining", "drained", "stopped", "lost"]


class Declaration(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that a worker knows to run. `parameters` and `returns` are JSON schemas."""

    kind: Declared
    name: str
    version: int = 1
    group: str | None = None
    queue: str | None = None
    about: str = ""
    parameters: dict[str, Any] = {}
    positional: list[str] = []
    returns: dict[str, Any] = {}


class Slots(Struct, frozen=True):
    """How many runs there is room for, and how many there are."""

    size: int
    used: int


class WorkerReport(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a worker says every few seconds. `declared` is the digest of its declarations, which are sent
    along when the node does not know them."""

    id: str
    group: str
    started_at: int
    declared: str = ""
    queues: list[str] = []
    host: str = ""
    pid: int = 0
    python: str = ""
    holdfast: str = ""
    code_version: str = ""
    slots: dict[str, Slots] = {}
    held: int = 0
    is_stopped: bool = False
    declarations: list[Declaration] | None = None

    def __post_init__(self) -> None:
        check_text("the id of a worker", self.id)
        check_text("its group", self.group)
        for name in ("declared", "host", "python", "holdfast", "code_version"):
            check_text(name, getattr(self, name), 256, empty=True)
        if len(self.queues) > queues_max:
            raise ValueError(f"a worker may report at most {queues_max} queues")
        for queue in self.queues:
            check_text("a queue", queue)
        if self.declarations is not None and not self.declared:
            raise ValueError("declarations come with `declared`, a digest of them")


class WorkerOrders(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the node answers. `wanted`: send the declarations along."""

    drain: bool = False
    wanted: bool = False
