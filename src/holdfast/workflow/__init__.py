"""One execution: operations, journal, replay, what it writes; and the functions that a workflow calls."""
