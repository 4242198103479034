"""What `holdfast top` shows, as lines of text: the overview, a list of executions, one execution. Pure.

The words are those of the console and of docs/reference/management.md. What comes from users is made
printable, and no line is wider than the terminal.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from holdfast.cli.durations import format_duration
from holdfast.protocol.text import printable

STATUSES: Final = (
    "pending", "waiting", "running", "suspended", "halted", "completed", "failed", "cancelled", "timed_out",
)  # fmt: skip
HEAD: Final = 2  # lines above the list of executions
_BARS: Final = " ▁▂▃▄▅▆▇█"
_cell_chars_max: Final = 48
_cell_chars_min: Final = 12
_ENDED: Final = ("completed", "failed", "cancelled", "timed_out", "expired")
_RESTS: Final = ("sleep", "timer")
WAITS: Final = {"sleep": "timer", "receive": "message", "call": "execution", "retry": "next try of"}


def overview(found: Any, width: int) -> list[str]:
    now = found["now"]
    lines = [f"OVERVIEW   {_node(found.get('node'))}", ""]
    if found.get("problems"):
        lines += ["NEEDS ATTENTION", *_table([_problem(each, now) for each in found["problems"]]), ""]
    for kind, title in (("executions", "Executions"), ("tasks", "Background tasks")):
        counts, more = found["counts"][kind]["counts"], found["counts"][kind].get("more", [])
        shown = [
            f"{_word(name)} {number}{'+' if name in more else ''}"
            for name, number in counts.items()
            if number
        ]
        lines.append(f"{title}: {', '.join(shown) or 'none yet'}")
    if "rates" in found:
        for name in ("started", "completed", "failed"):
            row = found["rates"][name]
            lines.append(f"  {f'{sum(row)} {name} in {len(row)} min':<27} {_chart(row)}")
    lines += ["", "WAITING LONGEST"]
    lines += _table([_execution(each, now) for each in found["oldest"][:5]]) or ["  nothing waits"]
    lines += ["", "FAILURES"]
    causes = found.get("failures", {})
    by_name = [(str(each["count"]), f"{each['kind']} {each['name']}") for each in causes.get("byName", [])]
    by_code = [
        (str(each["count"]), f"{each['kind']} error {each['code']}") for each in causes.get("byCode", [])
    ]
    lines += _table([*by_name[:5], *by_code[:5]]) or ["  none"]
    lines += ["", "QUEUES", *(_table([_queue(each, now) for each in found["queues"][:8]]) or ["  none yet"])]
    due = [
        (each["id"], each.get("cron", ""), f"due in {_span(each['nextRunAt'] - now)}")
        for each in found.get("schedules", [])[:5]
    ]
    lines += ["", "SCHEDULES DUE NEXT", *(_table(due) or ["  none"])]
    workers = found["workers"]
    lines += ["", "WORKERS  " + ", ".join(f"{workers[name]} {name}" for name in workers)]
    return fit(lines, width)


def executions(found: Any, now: int, chosen: int, status: str | None, width: int) -> list[str]:
    rows = _table([_execution(each, now) for each in found["executions"]], width // 3)
    lines = [f"{'>' if number == chosen else ' '} {row.lstrip()}" for number, row in enumerate(rows)]
    more = ", there are more" if found.get("cursor") else ""
    title = f"EXECUTIONS   {_word(status or 'all')}, newest first{more}"
    return fit([title, "", *(lines or ["  Nothing here yet."])], width)


def execution(found: Any, steps: Any, now: int, width: int) -> list[str]:
    lines = [
        f"EXECUTION {found['id']}",
        "",
        f"  {_lasted(found, now)}   {found.get('name') or ''}",
        (
            f"  attempt {found.get('attempts', 0)}   worker {found.get('worker') or 'none'}   "
            f"{found.get('queue') or found.get('group') or ''}"
        ),
    ]
    if found.get("obstacle"):
        lines.append(f"  {_obstacle(found['obstacle'], now)}")
    if found.get("dueAt"):
        ends = "may be taken" if found["status"] == "waiting" else "lease lapses"
        lines.append(f"  {ends} in {_span(found['dueAt'] - now)}")
    if found.get("error"):
        lines.append(f"  error: {found['error']}")
    for wait in found.get("waits") or ():
        lines.append(f"  waits for {_wait(wait, now)}")
        if wait.get("error"):
            lines.append(f"    tried {wait.get('attempts', 0)}x, the last error: {wait['error']}")
        if wait.get("heldBy"):
            lines.append(f"    held by {wait['heldBy']} for {_span(now - wait['heldSince'])}")
        if wait.get("file"):
            lines.append(f"    at {wait['file']}:{wait['line']} in {wait['function']}")
    if "result" in found:
        lines.append(f"  result: {json.dumps(found['result'], ensure_ascii=False)}")
    if "failure" in found:
        lines.append(f"  failure: {_failure(found['failure'])}")
    lines += ["", f"STEPS{', the first of them' if steps.get('cursor') else ''}"]
    lines += _table([_step(each, now) for each in steps["steps"]]) or ["  none yet"]
    return fit(lines, width)


def _lasted(found: Any, now: int) -> str:
    if found["status"] not in _ENDED or "settledAt" not in found:
        return f"{_word(found['status'])} for {_span(now - found['since'])}"
    took = found["settledAt"] - found.get("createdAt", found["settledAt"])
    return f"{_word(found['status'])} {_span(now - found['settledAt'])} ago, took {_span(took)}"


def _failure(found: Any) -> str:
    """As the console says it: the class and the message; anything else as it is."""
    if isinstance(found, dict) and "message" in found:
        kind = found.get("name") or found.get("type") or "error"  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
        return f"{kind}: {found['message']}"
    return json.dumps(found, ensure_ascii=False)


def fit(lines: list[str], width: int) -> list[str]:
    shown = [printable(line) for line in lines]
    return [line if len(line) <= width else f"{line[: max(0, width - 3)]}..." for line in shown]


def _table(rows: Sequence[Sequence[str]], most: int = _cell_chars_max) -> list[str]:
    """Columns of one width each; of what is long, so much as there is room for."""
    most = max(_cell_chars_min, min(most, _cell_chars_max))
    shown = [[printable(cell) for cell in row] for row in rows]
    shown = [
        [*(f"{cell[: most - 3]}..." if len(cell) > most else cell for cell in row[:-1]), *row[-1:]]
        for row in shown
    ]
    wide = [max(len(row[at]) for row in shown) for at in range(len(shown[0]))] if shown else []
    return ["  " + "  ".join(map(str.ljust, row, wide)).rstrip() for row in shown]


def _execution(each: Any, now: int) -> tuple[str, ...]:
    waits = each.get("waits") or ()
    about = f"waits for {_wait_words(waits[0])}" if waits else ": ".join(_error_of(each))
    if not about and each["status"] == "pending":
        about = f"waits for worker of {_place(each)}"
    elif not about and each.get("crashes"):
        about = f"waits for next try; its worker died {_times(each['crashes'])}"
    lasted = _span(now - each["since"])
    since = f"{lasted} ago" if each["status"] in _ENDED else f"for {lasted}"
    return each["id"], _word(each["status"]), since, each.get("name") or "", about


def _error_of(each: Any) -> list[str]:
    return [str(each[name]) for name in ("code", "error") if each.get(name)]


def _place(each: Any) -> str:
    return f"queue {each['queue']}" if each.get("queue") else f"group {each.get('group') or 'default'}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _obstacle(found: Any, now: int) -> str:
    """Why it does not go on, in the words of the console."""
    kind, workers = found["kind"], f"{found.get('workers', 0)} workers of the {_place(found)}"
    words: dict[str, str] = {
        "paused": f"The {_place(found)} is paused",
        "unserved": f"No worker serves the {_place(found)} now",
        "undeclared": f"None of the {workers} has declared the task {found.get('name')}",
        "drained": f"All {workers} are drained",
        "busy": f"All {workers} had no free slot when they last reported",
    }
    if kind == "limit":
        per = f" in {_span(found['perMs'])}" if "perMs" in found else " at a time"
        key = f", of the key {found['key']}" if "key" in found else ""
        return f"{found['used']} of {found['most']}{per}{key}, in the {_place(found)}"
    if kind == "lost":
        return f"Its worker is {found['state']}: last heard of {_span(now - found['seenAt'])} ago"
    return words.get(kind, str(kind))


def _problem(each: Any, now: int) -> tuple[str, ...]:
    words: str = "no worker" if each["kind"] == "unserved" else each["kind"]
    if words == "crashing" and each.get("error"):
        words = "cannot run"
    which = each.get("id") or next(
        (f"{name} {each[name]}" for name in ("queue", "group", "schedule") if name in each), ""
    )
    since = f"for {_span(now - each['since'])}" if "since" in each else ""
    return words, which, since, each.get("error") or (f"{each['pending']} wait" if "pending" in each else "")


def _queue(each: Any, now: int) -> tuple[str, ...]:
    age = f"oldest {_span(now - each['oldestAt'])}" if "oldestAt" in each else ""
    waiting, running = f"{each.get('pending', 0)} pending", f"{each.get('running', 0)} running"
    return each["name"], waiting, running, age, "paused" if each.get("paused") else ""


def _word(status: str) -> str:
    return status.replace("_", " ")


def _wait_words(wait: Any) -> str:
    """In a list, as the console says it."""
    kind, _, name = (wait.get("what") or "promise").partition(" ")
    kind = "retry" if wait.get("resumesAt") else kind
    return f"{WAITS.get(kind, kind)} {'number ' if kind == 'message' else ''}{name}".rstrip()


def _wait(wait: Any, now: int) -> str:
    what = wait.get("what") or "promise"
    lasted = f", for {_span(now - wait['since'])}" if wait.get("since") else ""
    ends = wait.get("resumesAt") or wait.get("dueAt")
    is_rest = bool(wait.get("resumesAt")) or what in _RESTS
    word = "due" if is_rest else "times out"
    return f"{_wait_words(wait)} ({wait['id']}){lasted}{f', {word} in {_span(ends - now)}' if ends else ''}"


def _step(each: Any, now: int) -> tuple[str, ...]:
    took = each["tookMs"] if "tookMs" in each else now - each["beganAt"]
    tried = each.get("attempts", 0)
    state = "next try" if "resumesAt" in each else each.get("state", "")
    more = f"in {_span(each['resumesAt'] - now)}" if "resumesAt" in each else each.get("code") or ""
    return (
        each["id"],
        state,
        _span(took),
        each.get("name") or each.get("kind") or "",
        (f"{tried} attempts {more}" if tried > 1 else more),
    )


def _node(node: Any) -> str:
    if node is None:
        return ""
    times = node["commitMs"]
    took = (
        f", commits {times['p50']} ms (p99 {times['p99']} ms), {times['groupSize']} requests each"
        if "p50" in times
        else ""
    )
    return f"holdfast {node['version']} on {node['store']}{took}"


def _chart(row: list[int]) -> str:
    most = max(row, default=0) or 1
    return "".join(_BARS[-(-number * (len(_BARS) - 1) // most)] for number in row)


def _span(ms: float) -> str:
    return format_duration(max(0, ms))
