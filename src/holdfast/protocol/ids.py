"""What an id says about the execution that it belongs to."""


def root_of(record_id: str) -> str:
    """The id of the execution that an id belongs to: the part before its first colon or full stop."""
    return record_id.partition(":")[0].partition(".")[0]
