"""A real browser, without a window: the Chromium that the machine has."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, Page, sync_playwright


def chromium() -> str | None:
    """The program, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser; needs `chromium()`."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield started
        finally:
            started.close()


def tile(page: Page, name: str) -> str:
    """The content of the tile *name* of the dashboard."""
    found = page.locator("#tiles div").filter(has=page.get_by_text(name, exact=True))
    return found.locator("dd").inner_text()
