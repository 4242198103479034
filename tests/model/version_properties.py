"""Property 118: the versions of an id never repeat while the tree of its execution is there.

A promise knows the version that a task under its id has had: as its task, or in the tag
`holdfast:next-version` of something without a task. That never goes down. It is never forgotten, and a task
that is created again begins above it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.snapshot import Snapshot

NEXT_VERSION = "holdfast:next-version"


def latest_version(s: Snapshot, promise_id: str) -> int | None:
    """The highest version that a task of this id has had, as far as the snapshot tells."""
    if promise_id in s.tasks:
        version: int = s.tasks[promise_id]["version"]
        return version
    tags: dict[str, str] = s.promises[promise_id]["tags"] if promise_id in s.promises else {}
    return int(tags[NEXT_VERSION]) - 1 if NEXT_VERSION in tags else None


def version_steps(a: Snapshot, b: Snapshot) -> Iterator[str]:
    for promise_id, old in a.promises.items():
        before = latest_version(a, promise_id)
        if before is None or b.promises.get(promise_id) is old:
            continue
        after = latest_version(b, promise_id)
        if after is None:
            yield f"118 {promise_id}: its version {before} is forgotten"
            continue
        is_new = promise_id in b.tasks and (
            promise_id not in a.tasks or b.promises[promise_id]["createdAt"] != old["createdAt"]
        )
        if after < before or (is_new and after == before):
            yield f"118 {promise_id}: from version {before} to {after}"
