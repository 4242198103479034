"""What an id says about the execution that it belongs to."""


def root_of(record_id: str) -> str:
    """The id of the execution that an id belongs to: the part before its first colon or full stop."""
    return record_id.partition(":")[0].partition(".")[0]


def lies_within(record_id: str, root: str) -> bool:
    """Is it the root itself, or below it: `root:3`, `root.a`?"""
    return record_id.startswith(root) and record_id[len(root) : len(root) + 1] in ("", ":", ".")
