"""What an id says about the execution that it belongs to, and about who may touch it."""

from typing import Final

delimiters: Final = "-./:"


def root_of(record_id: str) -> str:
    """The id of the execution that an id belongs to: the part before its first colon or full stop."""
    return record_id.partition(":")[0].partition(".")[0]


def child_id(parent: str, number: int) -> str:
    """`root:3`, and below it `root:3.1`."""
    return f"{below(parent)}{number}"


def below(root: str) -> str:
    """What the ids of everything that an execution records begin with."""
    return f"{root}." if ":" in root else f"{root}:"


def lies_within(record_id: str, root: str) -> bool:
    """Is it the root itself, or below it: `root:3`, `root.a`?"""
    return record_id.startswith(root) and record_id[len(root) : len(root) + 1] in ("", ":", ".")


def lies_directly_below(record_id: str, parent: str) -> bool:
    """Is it a record of the parent itself, `parent:3`, and not of what that has called: `parent:3.1`?"""
    size = len(parent)
    if record_id[size : size + 1] != ("." if ":" in parent else ":") or not record_id.startswith(parent):
        return False
    return record_id.find(":", size + 1) < 0 and record_id.find(".", size + 1) < 0


def is_covered(name: str, prefix: str) -> bool:
    """Is it the prefix, or does it go on after a delimiter? `a` covers `a` and `a:1`, not `admin`."""
    edge = edge_of(prefix)
    return name.startswith(prefix) and (len(name) <= edge or name[edge] in delimiters)


def edge_of(prefix: str) -> int:
    """Where in a covered name a delimiter stands, unless it ends before: in the prefix or right behind it."""
    return len(prefix) - 1 if prefix[-1] in delimiters else len(prefix)


_flat: Final = str.maketrans(":.", "__")


def new_id(name: str, instant: int, end: str) -> str:
    """An id that nobody chose. Those that grow with time stay together in every index."""
    # The part of an id before a colon or a dot is what nodes take turns by: it shall be the name's own.
    return f"{name.translate(_flat)}-{instant:011x}{end}"
