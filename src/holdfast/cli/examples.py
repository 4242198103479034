"""The end and the first line of each command's help: what one types most often. A test parses every line.

The examples of `serve` are on its page: its help ends with where settings come from.
"""

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "worker": (
        "holdfast worker shop.orders:app",
        "holdfast worker shop.orders:app -S http://127.0.0.1:8001 --queues mail,reports",
    ),
    "invoke": (
        "holdfast invoke order-17 --func checkout --arg tea --arg 1999 --wait",
        "holdfast invoke order-17 --func checkout --json-args '[\"tea\", 1999]' --delay 1h",
    ),
    "promises": (
        "holdfast promises resolve order-17:approval --data true",
        "holdfast promises search --prefix order-17",
    ),
    "tasks": (
        "holdfast tasks send --func send_mail --arg a@b.c --queue mail",
        "holdfast tasks list --status FAILED",
        "holdfast tasks continue order-17",
    ),
    "queues": (
        "holdfast queues pause mail",
        "holdfast queues set mail --rate 50/s --concurrency 10",
    ),
    "locks": ('holdfast locks release printer-3 order-16 --reason "its machine is gone"',),
    "check": ("holdfast check shop.orders:app",),
    "schedules": (
        "holdfast schedules create nightly --cron '0 3 * * *' --func report",
        "holdfast schedules trigger nightly",
    ),
    "list": (
        "holdfast list --status failed --since 1d",
        "holdfast list checkout --tag customer=4 --count",
    ),
    "info": ("holdfast info order-17",),
    "tree": ("holdfast tree order-17 -S sqlite:///holdfast.db",),
    "history": ("holdfast history order-17 -o order-17.json",),
    "replay": ("holdfast replay shop.orders:app order-17.json",),
    "cancel": ("holdfast cancel order-17",),
    "retry": ("holdfast retry order-17",),
    "fork": ("holdfast fork order-17 ship --as order-17-again",),
    "bulk": (
        "holdfast bulk retry checkout --status failed --since 1d --dry-run",
        "holdfast bulk cancel --tag customer=4 --wait",
    ),
    "tell": ('holdfast tell basket-17 --data \'{"type": "Add", "item": "tea"}\'',),
    "event": ('holdfast event order.paid --data \'{"order": "o-1"}\'',),
    "events": ("holdfast events order.paid",),
    "ask": ('holdfast ask basket-17 --data \'{"type": "CheckOut", "card": "4242"}\'',),
    "watch": ("holdfast watch order-17 stage",),
    "console": ("holdfast console -S sqlite:///holdfast.db",),
    "gc": ("holdfast gc --older-than 30d --dry-run",),
}


def shown(command: str) -> str | None:
    """The end of the help of a command, or None."""
    lines = EXAMPLES.get(command)
    return None if lines is None else "\n".join(("examples:", *(f"  {line}" for line in lines)))


def sentence(line: str) -> str:
    """A line of a list as the first line of a help."""
    return f"{line[0].upper()}{line[1:]}."
