"""What `holdfast top` shows, as lines of text: the overview, a list of executions, one execution. Pure.

The words are those of the console and of docs/reference/management.md. What comes from users is made
printable, and no line is wider than the terminal.
"""

from typing import Any, Final

from holdfast.cli.durations import format_duration
from holdfast.protocol.text import printable

STATUSES: Final = (
    "pending", "waiting", "running", "suspended", "halted", "completed", "failed", "cancelled", "timed_out",
)  # fmt: skip
_BARS: Final = " ▁▂▃▄▅▆▇█"


def overview(found: Any, width: int) -> list[str]:
    lines = [f"OVERVIEW   {_node(found.get('node'))}", ""]
    for kind, title in (("executions", "Executions"), ("tasks", "Background tasks")):
        counts, more = found["counts"][kind]["counts"], found["counts"][kind].get("more", [])
        shown = [f"{name} {number}{'+' if name in more else ''}" for name, number in counts.items() if number]
        lines.append(f"{title}: {', '.join(shown) or 'none yet'}")
    if "rates" in found:
        for name in ("started", "completed", "failed"):
            row = found["rates"][name]
            lines.append(f"  {name:<10} {_chart(row)} {sum(row)} in {len(row)} min")
    lines += ["", "FAILURES"]
    causes = found.get("failures", {}).get("byName", [])
    lines += [f"  {each['count']:>6}  {each['kind']} {each['name']}" for each in causes[:5]] or ["  none"]
    lines += ["", "WAITING LONGEST"]
    lines += [_execution(each, found["now"]) for each in found["oldest"][:5]] or ["  nothing waits"]
    lines += ["", "QUEUES"]
    for each in found["queues"][:8]:
        age = f", oldest {_span(found['now'] - each['oldestAt'])}" if "oldestAt" in each else ""
        paused = ", paused" if each.get("paused") else ""
        lines.append(
            f"  {each['name']}: {each.get('pending', 0)} pending, "
            f"{each.get('running', 0)} running{age}{paused}"
        )
    if not found["queues"]:
        lines.append("  none yet")
    workers = found["workers"]
    lines += ["", "WORKERS  " + ", ".join(f"{workers[name]} {name}" for name in workers)]
    return fit(lines, width)


def executions(found: Any, now: int, chosen: int, status: str | None, width: int) -> list[str]:
    lines = [f"EXECUTIONS   {status or 'all'}, newest first", ""]
    for number, each in enumerate(found["executions"]):
        lines.append(("> " if number == chosen else "  ") + _execution(each, now).lstrip())
    if not found["executions"]:
        lines.append("  Nothing here yet.")
    return fit(lines, width)


def execution(found: Any, steps: Any, now: int, width: int) -> list[str]:
    lines = [
        f"EXECUTION {found['id']}",
        "",
        f"  {found['status']} for {_span(now - found['since'])}   {found.get('name') or ''}",
        (
            f"  attempt {found.get('attempts', 0)}   worker {found.get('worker') or 'none'}   "
            f"{found.get('group') or ''}"
        ),
    ]
    if found.get("error"):
        lines.append(f"  error: {found['error']}")
    for wait in found.get("waits") or ():
        where = f" at {wait['file']}:{wait['line']} in {wait['function']}" if wait.get("file") else ""
        lines.append(f"  waits for {wait.get('what') or wait['id']} ({wait['id']}){where}")
    lines += [f"  {name}: {found[name]}" for name in ("result", "failure") if name in found]
    lines += ["", "STEPS"]
    for each in steps["steps"]:
        took = (
            f"  {_span(each['endedAt'] - each['startedAt'])}"
            if "endedAt" in each and "startedAt" in each
            else ""
        )
        lines.append(
            f"  {each['id']}  {each.get('state', '')}  {each.get('name') or each.get('kind') or ''}{took}"
        )
    if not steps["steps"]:
        lines.append("  none yet")
    return fit(lines, width)


def fit(lines: list[str], width: int) -> list[str]:
    shown = [printable(line) for line in lines]
    return [line if len(line) <= width else f"{line[: max(0, width - 3)]}..." for line in shown]


def _execution(each: Any, now: int) -> str:
    name = each.get("name") or ""
    return f"  {each['id']}  {each['status']} for {_span(now - each['since'])}  {name}"


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


def _span(ms: int) -> str:
    return format_duration(max(0, ms))
