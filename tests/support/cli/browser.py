"""A browser for tests of the server's page: Debian's Chromium, without a window.

Nothing is installed: without Chromium the tests are skipped, and say which package they want.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.cli.servers import ServedFolder, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LONGEST_MS = 60_000
NAMES = ("chromium", "chromium-browser")
URL = re.compile(r"http://127\.0\.0\.1:\d+/#token=\S+")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser; the test is skipped where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("wants a browser: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened_page(browser: Browser, url: str, *, width: int = 1280) -> Iterator[Page]:
    """A page in a profile of its own; an exception in a script of the page fails the test."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    errors: list[str] = []
    try:
        page = context.new_page()
        page.set_default_timeout(LONGEST_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: _note_violation(line.text, errors))
        page.goto(url)
        yield page
    finally:
        context.close()
    assert errors == []


def _note_violation(text: str, errors: list[str]) -> None:
    """Note a script or a style that the content security policy has rejected."""
    if "Content Security Policy" in text:
        errors.append(text)


def printed_urls(folder: ServedFolder) -> tuple[str, str]:
    """The URLs of the owner and of viewers that a server prints."""
    owner, viewer = until(lambda: len(urls := URL.findall(folder.printed())) >= 2 and urls)[:2]
    return owner, viewer
