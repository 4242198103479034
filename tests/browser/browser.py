"""A real Chromium, and pages in it that watch themselves.

1. Whatever a page writes as an error to its console, throws, or is refused by the Content-Security-Policy,
   is kept and fails the test, unless the test said that it would come.
2. A request to another origin fails the test.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request

from tests.browser.installation import axe, chromium

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
wide = (1360, 860)
narrow = (390, 800)
patience_ms = 60_000

_REPORTS_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
_RUN_AXE = """
async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.flatMap((each) => each.nodes.map((node) =>
    `${each.id}: ${each.help} at ${node.target.join(" ")} ${node.failureSummary}`));
}
"""


def launch(playwright: Playwright, *flags: str) -> Browser:
    return playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, *flags], headless=True)


class Watched:
    """A page of the console and what went wrong in it."""

    def __init__(self, page: Page, console: str) -> None:
        self.page = page
        self.console = console
        self.origin = re.match(r"https?://[^/]+", console)[0]  # type: ignore[index]
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self._expected: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.wrong.append(f"thrown: {error}"))
        page.on("request", self._on_request)

    def expect_wrong(self, *patterns: str) -> None:
        """These errors belong to what the test does."""
        self._expected += patterns

    def open(self, place: str = "") -> Page:
        """A view, by what follows the `#/` of its address."""
        self.page.goto(f"{self.console}#/{place}")
        return self.page

    def violations(self) -> list[str]:
        """What axe-core's rules find."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(axe.read_text("utf-8"))
        found: list[str] = self.page.evaluate(_RUN_AXE)
        return found

    def check(self) -> None:
        """Nothing went wrong since the last check."""
        unexpected = [
            each for each in self.wrong if not any(re.search(pattern, each) for pattern in self._expected)
        ]
        self.wrong.clear()
        assert not unexpected, unexpected

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.wrong.append(f"another origin: {request.url}")


def open_context(
    browser: Browser, size: tuple[int, int] = wide, scheme: Literal["light", "dark"] = "light", **more: Any
) -> BrowserContext:
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, accept_downloads=True, **more)
    context.set_default_timeout(patience_ms)
    context.add_init_script(_REPORTS_VIOLATIONS)
    return context


@contextmanager
def watched(
    browser: Browser,
    console: str,
    *,
    size: tuple[int, int] = wide,
    scheme: Literal["light", "dark"] = "light",
    **more: Any,
) -> Iterator[Watched]:
    """A page in a context of its own; its errors are checked at the end."""
    context = open_context(browser, size, scheme, **more)
    try:
        found = Watched(context.new_page(), console)
        yield found
        found.check()
    finally:
        context.close()
