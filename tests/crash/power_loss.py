"""A disk that forgets: everything the store writes is recorded, and any instant can be cut off.

`RecordingVfs` passes all file operations of SQLite on and keeps a log of them; `record_zeros` does the same
for what the store itself puts into SQLite's log. `disk_at` rebuilds what a disk may hold when power fails
at one point of the log: writes that were synced are there; each later one may be there, missing, or torn at a
sector. The shared-memory index of the write-ahead log never reaches a disk.
"""

import os
import random
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

NAME = "holdfast.db"
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
    """A caller was told that everything up to here is safe: so many commits."""

    number: int


Event = Write | Truncate | Sync | Delete | Ack


class RecordingVfs(apsw.VFS):
    """The default of its SQLite while it lives, so that SQLite's own dice fall as `chance` says."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.log: list[Event] = []
        self._chance = chance
        self._below = apsw.vfs_names()[0]
        super().__init__(name, self._below, makedefault=True)
        apsw.randomness(0)

    def xRandomness(self, numbytes: int) -> bytes:  # noqa: N802
        return self._chance.randbytes(numbytes)

    def record_zeros(self, file: int, data: bytes, offset: int) -> int:
        """As `os.pwrite` into SQLite's log."""
        written = os.pwrite(file, data, offset)
        self.log.append(Write(f"{NAME}-wal", offset, data[:written]))
        return written

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        if name is None:  # a scratch file, which SQLite forgets anyway
            return apsw.VFSFile(self._below, name, flags)
        return _RecordingFile(self.log, self._below, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.log.append(Delete(Path(filename).name))
        super().xDelete(filename, syncdir)


class _RecordingFile(apsw.VFSFile):
    def __init__(self, log: list[Event], below: str, name: Any, flags: list[int]) -> None:
        self._log = log
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(text).name
        super().__init__(below, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._log.append(Write(self._name, offset, bytes(data)))
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._log.append(Truncate(self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._log.append(Sync(self._name))


def disk_at(log: list[Event], point: int, chance: random.Random) -> dict[str, bytearray]:
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
    return files


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
