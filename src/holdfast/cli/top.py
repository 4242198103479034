"""`holdfast top`: the overview, executions and one execution, live in the terminal, also over ssh.

Plain ANSI: an alternate screen, drawn again every second and on every key. Without a terminal one overview is
printed. Keys: o overview, e executions, f the next status, j k (or arrows) choose or scroll, Enter look at
it, b back, q quit.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import textwrap
from collections.abc import Generator
from typing import Any, Final

from holdfast.cli import top_screen as screen
from holdfast.cli.management import ManagementClient, asking
from holdfast.cli.options import add_connection
from holdfast.cli.output import print_line
from holdfast.client.errors import ClientError

KEYS: Final = "q quit  b back  o overview  e executions  f status  j/k choose or scroll  Enter look"
page: Final = 200


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="how often to redraw (1)")
    parser.add_argument("--once", action="store_true", help="print the overview once, and exit")
    add_connection(parser)


def _run(arguments: argparse.Namespace) -> int:
    asyncio.run(_watch(arguments))
    return 0


async def _watch(arguments: argparse.Namespace) -> None:
    async with asking(arguments) as management:
        if arguments.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            for line in screen.overview(await management.get("overview"), 160):
                print_line(line)
            return
        await Top(management, max(0.2, arguments.every)).run()


class Top:
    def __init__(self, management: ManagementClient, every_s: float) -> None:
        self._management = management
        self._every_s = every_s
        self._view = "overview"
        self._chosen = 0
        self._status: str | None = None
        self._listed: list[str] = []
        self._held = ""  # the id of the chosen one: others may come before it
        self._above = 0  # lines that are scrolled away
        self._id = ""
        self._pressed: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with _raw_terminal():
            loop.add_reader(sys.stdin.fileno(), self._read)
            try:
                while True:
                    await self._draw()
                    try:
                        async with asyncio.timeout(self._every_s):
                            key = await self._pressed.get()
                    except TimeoutError:
                        continue
                    if not self.press(key):
                        return
            finally:
                loop.remove_reader(sys.stdin.fileno())

    def _read(self) -> None:
        text = os.read(sys.stdin.fileno(), 64).decode("utf-8", "replace")
        arrows = {"\x1b[A": "k", "\x1b[B": "j"}
        for key in [arrows[text]] if text in arrows else text:
            self._pressed.put_nowait(key)

    def press(self, key: str) -> bool:
        """False: leave."""
        if key in ("q", "\x03", ""):
            return False
        if key in "oe":
            self._view, self._chosen, self._above = {"o": "overview", "e": "executions"}[key], 0, 0
            self._held = ""
        elif key == "f":
            names = (None, *screen.STATUSES)
            self._status = names[(names.index(self._status) + 1) % len(names)]
            self._view, self._chosen, self._above, self._held = "executions", 0, 0, ""
        elif key in "jk" and self._view != "executions":
            self._above = max(0, self._above + (1 if key == "j" else -1))
        elif key in "jk":
            step = 1 if key == "j" else -1
            self._chosen = min(max(0, self._chosen + step), max(0, len(self._listed) - 1))
            self._held = self._listed[self._chosen] if self._listed else ""
        elif key in "\r\n" and self._view == "executions" and self._chosen < len(self._listed):
            self._view, self._id, self._above = "execution", self._listed[self._chosen], 0
        elif key == "b":
            self._view, self._above = "executions" if self._view == "execution" else "overview", 0
        return True

    async def _draw(self) -> None:
        width, height = shutil.get_terminal_size()
        try:
            lines = await self._lines(width)
        except ClientError as error:
            lines = screen.fit([*textwrap.wrap(str(error), max(20, width)), "Trying again."], width)
        body = self.window(lines, height - 2)
        body += [""] * (height - 2 - len(body))
        text = "".join(f"{line}\x1b[K\r\n" for line in [*body, ""]) + screen.fit([KEYS], width)[0]
        sys.stdout.write(f"\x1b[H{text}\x1b[K")
        sys.stdout.flush()

    def window(self, lines: list[str], height: int) -> list[str]:
        """As much as there is room for: around the chosen one, or from where it was scrolled to."""
        room = max(1, height - screen.HEAD)
        if self._view == "executions":
            self._above = min(max(self._above, self._chosen - room + 1), self._chosen)
        self._above = min(self._above, max(0, len(lines) - screen.HEAD - room))
        head = screen.HEAD if self._view == "executions" or len(lines) > height else 0
        return [*lines[:head], *lines[head + self._above :]][:height]

    def hold(self, listed: list[str]) -> None:
        """The list has changed: what somebody chose stays chosen. Of the list as it opens, the newest is."""
        self._listed = listed
        if self._held in listed:
            self._chosen = listed.index(self._held)
        self._chosen = min(self._chosen, max(0, len(listed) - 1))

    async def _lines(self, width: int) -> list[str]:
        get: Any = self._management.get
        if self._view == "overview":
            return screen.overview(await get("overview"), width)
        now = (await get("session"))["now"]
        if self._view == "executions":
            found = await get("executions", status=self._status, limit=page)
            self.hold([each["id"] for each in found["executions"]])
            return screen.executions(found, now, self._chosen, self._status, width)
        found = await get("executions", self._id)
        return screen.execution(found, await get("executions", self._id, "steps", limit=page), now, width)


@contextlib.contextmanager
def _raw_terminal() -> Generator[None]:
    """Keys come one by one, and what was on the screen comes back at the end."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin.fileno())
    sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[2J")
    try:
        tty.setcbreak(sys.stdin.fileno())
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
