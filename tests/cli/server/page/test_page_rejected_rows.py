"""The page in a browser: samples of bad and late rows, and the graph of a job that does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.browser import opened_page, printed_urls, running_browser
from tests.support.cli.servers import served_folder

pytestmark = pytest.mark.slow

SECRET = "s3cret-0f9a"
MARKUP = "<img src=x onerror=document.title='attacked'>"
PIPELINE = """\
name: rejecting
sources:
  orders:
    files: {path: "in/*.jsonl", watch: 200ms}
    schema: {customer: string, amount: double, at: timestamp}
    event_time: at
    watermark: {delay: 0s, idle: 1s}
    on_error: skip
steps:
  named: {from: orders, with: {kind: "concat('k', customer)"}}
  totals: {from: named, key: kind, window: {tumble: 10s}, aggregate: {total: sum(amount)}}
sinks:
  out: {from: totals, files: {path: out}}
settings: {checkpoint: {every: 300ms}}
"""


def write_orders(folder: Path, name: str, *records: str) -> None:
    """Add a file, which appears at once."""
    (folder / f"{name}.tmp").write_text("".join(f"{each}\n" for each in records))
    (folder / f"{name}.tmp").rename(folder / "in" / f"{name}.jsonl")


def order(customer: str, second: int) -> str:
    at = f"2026-01-01T00:00:{second:02}Z"
    return json.dumps({"customer": customer, "amount": 1, "at": at})


def test_samples_of_bad_and_late_rows_and_the_graph_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SECRET_KIND", SECRET)
    (tmp_path / "in").mkdir()
    damaged = f'{{"customer": "{MARKUP} {SECRET}"'
    write_orders(tmp_path, "a", order("ada", 0), damaged, order("x", 40))
    with served_folder(tmp_path) as folder, running_browser() as browser:
        folder.write("rejecting", PIPELINE)
        folder.start("--http", "0", "--read-only-token")
        folder.until_checkpoint("rejecting")
        with opened_page(browser, printed_urls(folder)[1]) as page:
            page.get_by_role("link", name="rejecting").first.click()
            page.locator(".node", has_text="orders").click()
            sample = page.locator(".rejected li", has_text=MARKUP)
            sample.wait_for()
            assert "wanted a JSON object" in sample.inner_text()
            assert "****" in sample.inner_text()
            write_orders(tmp_path, "b", order("bob", 1))
            page.locator(".node", has_text="totals").click()
            late = page.locator(".rejected li", has_text="bob")
            late.wait_for()
            assert "late, the watermark was at 2026-01-01 00:00:40" in late.inner_text()
            assert SECRET not in page.content()
            assert page.locator("img").count() == 0
            assert folder.run("stop", "rejecting").returncode == 0
            page.get_by_text("The job is not running.").wait_for()
            page.locator(".node", has_text="totals").get_by_text("rows").wait_for()
            assert page.locator(".node").count() == 4
