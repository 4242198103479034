"""What must be found after a kill: all that `committing_child` has said, and nothing by halves."""


def check_acknowledged(lines: list[str], promises: dict[str, str], tasks: dict[str, str]) -> None:
    """The states of all promises and tasks, by id, against the lines that were heard."""
    for line in lines:
        what, name = line.split()
        assert f"{name}.a" in promises, f"{line} was lost"
        assert what != "settled" or promises[f"{name}.a"] == "resolved", f"{line} was lost"
        assert what != "held" or tasks[f"{name}.b"] == "acquired", f"{line} was lost"
    halves = {name[:-2] for name in promises}
    assert all(f"{half}.a" in promises and f"{half}.b" in promises for half in halves), "half an array"
    assert {f"{half}.b" for half in halves} == tasks.keys(), "a promise without its task"
