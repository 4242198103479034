"""A disk that forgets: everything SQLite writes is recorded, and any instant can be cut off.

`RecordingVfs` passes all file operations on and keeps a log of them. `disk_at` rebuilds what a disk may hold
when power fails at one point of the log: writes that were synced are there; each later one may be there,
missing, or torn at a sector. The shared-memory index of the write-ahead log never reaches a disk.
"""

import random
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

SECTOR_BYTES = 512


class Write(Struct, frozen=True):
    file: str
    offset: int
    data: bytes


class Truncate(Struct, frozen=True):
    file: str
    size: int


class Sync(Struct, frozen=True):
    file: str


class Delete(Struct, frozen=True):
    file: str


class Ack(Struct, frozen=True):
    """A caller was told that everything up to here is safe."""

    number: int


Event = Write | Truncate | Sync | Delete | Ack


class RecordingVfs(apsw.VFS):
    def __init__(self, name: str) -> None:
        self.log: list[Event] = []
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        return _RecordingFile(self.log, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.log.append(Delete(Path(filename).name))
        super().xDelete(filename, syncdir)


class _RecordingFile(apsw.VFSFile):
    def __init__(self, log: list[Event], name: Any, flags: list[int]) -> None:
        self._log = log
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(text).name
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._log.append(Write(self._name, offset, bytes(data)))
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._log.append(Truncate(self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._log.append(Sync(self._name))


def disk_at(log: list[Event], point: int, chance: random.Random) -> dict[str, bytes]:
    """What the disk may hold when power fails right after `point` events."""
    past = log[:point]
    last_sync = {event.file: index for index, event in enumerate(past) if isinstance(event, Sync)}
    files: dict[str, bytearray] = {}
    for index, event in enumerate(past):
        if isinstance(event, Ack | Sync):
            continue
        if isinstance(event, Delete):
            files.pop(event.file, None)
        elif index < last_sync.get(event.file, -1):
            _apply(files, event)
        else:
            _apply_in_part(files, event, chance)
    return {name: bytes(content) for name, content in files.items()}


def _apply(files: dict[str, bytearray], event: Write | Truncate) -> None:
    content = files.setdefault(event.file, bytearray())
    if isinstance(event, Truncate):
        del content[event.size :]
        return
    end = event.offset + len(event.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[event.offset : end] = event.data


def _apply_in_part(files: dict[str, bytearray], event: Write | Truncate, chance: random.Random) -> None:
    fate = chance.random()
    if fate < 0.4:
        return
    if fate < 0.7 and isinstance(event, Write) and len(event.data) > SECTOR_BYTES:
        kept = chance.randrange(1, len(event.data) // SECTOR_BYTES + 1) * SECTOR_BYTES
        event = Write(event.file, event.offset, event.data[:kept])
    _apply(files, event)
