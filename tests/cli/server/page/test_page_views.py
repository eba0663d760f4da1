"""The page in a browser: the tabs of a job whose names and rows are markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headrace.cli.errors import Refusal
from tests.support.cli.browser import opened_page, printed_urls, running_browser
from tests.support.cli.servers import ServedFolder, served_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

MODULE_S = 900
"""The time after which a server of these tests ends, whatever happens."""

MARKUP = "<img src=x onerror=document.title='attacked'>"

PIPELINE = f"""\
name: hostile
sources:
  clicks:
    generate:
      rate: 500/s
      columns:
        "{MARKUP}": id % 4
        note: "concat('<script>document.title = 1</script>', id)"
        at: timestamp_millis(1767225600000 + id)
    event_time: at
steps:
  totals:
    from: clicks
    parallelism: 2
    key: "{MARKUP}"
    window: {{tumble: 1s}}
    aggregate: {{n: count(*)}}
sinks:
  out: {{from: totals, files: {{path: hostile-out}}}}
settings: {{checkpoint: {{every: 500ms}}}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFolder]:
    with served_folder(tmp_path_factory.mktemp("served"), MODULE_S) as folder:
        folder.write("hostile", PIPELINE)
        folder.start("--http", "0", "--read-only-token")
        folder.until_checkpoint("hostile")
        yield folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture
def page(served: ServedFolder, browser: Browser) -> Iterator[Page]:
    """The page with the job opened; no image and no other script has got into it."""
    with opened_page(browser, printed_urls(served)[0]) as page:
        page.get_by_role("link", name="hostile").first.click()
        page.locator(".node", has_text="totals").wait_for()
        yield page
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1
        assert page.title() == "hostile · headrace"


def test_the_graph_shows_loads_that_add_up_and_rates(page: Page) -> None:
    bars = page.locator(".node", has_text="totals").locator(".bar3")
    assert bars.count() == 2
    shares = page.locator(".node", has_text="clicks").get_by_role("img").get_attribute("aria-label")
    assert 99 <= sum(map(int, re.findall(r"\d+", shares or ""))) <= 101
    page.locator(".edge.hash text", has_text=re.compile(r"^\d+/s")).wait_for()
    page.locator(".edge.hash text.exchange", has_text="by <img").wait_for()


def test_a_part_shows_columns_subtasks_and_what_holds_its_watermark(page: Page) -> None:
    page.locator(".node", has_text="totals").click()
    panel = page.get_by_role("region", name="totals")
    panel.get_by_text(MARKUP, exact=False).first.wait_for()
    panel.get_by_text("held by split").wait_for()
    assert panel.locator("tbody tr").count() == 2
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")


def test_a_savepoint_is_taken_and_checkpoints_are_listed(page: Page, served: ServedFolder) -> None:
    page.keyboard.press("2")
    page.get_by_role("button", name="Take savepoint").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Take savepoint").click()
    made = dialog.get_by_role("status").inner_text()
    path = served.path / made.partition(": ")[2]
    assert path.is_dir()
    dialog.get_by_role("button", name="Close").last.click()
    for title in ("duration", "alignment", "increment", "whole size"):
        page.get_by_role("img", name=title).wait_for()
    page.locator("table tbody tr").first.wait_for()


def test_the_timeline_has_rates_load_processors_and_memory(page: Page) -> None:
    page.get_by_role("link", name="Timeline").click()
    for title in ("rows", "lag of the slowest watermark", "processors", "memory"):
        page.get_by_role("img", name=title).wait_for()
    page.locator("figcaption", has_text="memory").get_by_text("MB").wait_for()


def test_the_log_shows_events(page: Page) -> None:
    page.get_by_role("link", name="Log").click()
    log = page.get_by_role("log")
    log.get_by_text("start", exact=True).wait_for()
    assert log.get_by_text("checkpoint", exact=True).count() == 0
    page.get_by_text("progress and checkpoints").click()
    log.get_by_text("checkpoint", exact=True).first.wait_for()
    page.get_by_label("Filter the log").fill("launched")
    log.get_by_text("start", exact=True).wait_for(state="detached")


def test_the_pipeline_shows_settings_and_what_its_file_has_changed(
    page: Page, served: ServedFolder
) -> None:
    page.get_by_role("link", name="Pipeline").click()
    page.get_by_text("the file is what runs").wait_for()
    page.locator(".settings div", has_text="checkpoint.every").get_by_text("500ms").wait_for()
    served.write("hostile", PIPELINE.replace("500ms", "700ms"))
    page.locator(".added", has_text="700ms").wait_for()
    assert "500ms" in page.locator(".removed").inner_text()
    page.get_by_role("button", name="Upgrade to the file").wait_for()
    served.write("hostile", PIPELINE)


def test_rows_are_followed_with_a_condition(page: Page) -> None:
    page.get_by_role("link", name="Rows").click()
    page.get_by_label("Stream").select_option("clicks")
    cells = page.locator(".live tbody td:nth-child(2)")
    cells.first.wait_for()
    assert set(cells.all_inner_texts()) <= {"0", "1", "2", "3"}
    page.locator(".lead", has_text="Left out, since nothing reads them later: note").wait_for()
    page.get_by_text("rows dropped").wait_for()
    page.get_by_label("Condition").fill(f"`{MARKUP}` = 3")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_function(
        """() => {
            const cells = [...document.querySelectorAll(".live tbody td:nth-child(2)")];
            return cells.length > 0 && cells.every((cell) => cell.textContent === "3");
        }"""
    )
    page.get_by_label("Condition").fill("amont > 1")
    page.get_by_role("button", name="Apply").click()
    page.locator(".problem", has_text='unknown column "amont"').wait_for()


def test_viewers_query_the_state_of_the_newest_checkpoint(
    served: ServedFolder, browser: Browser
) -> None:
    with opened_page(browser, printed_urls(served)[1]) as page:
        page.set_default_timeout(MODULE_S * 1000 / 2)  # the process has a low priority
        page.get_by_role("link", name="hostile").first.click()
        page.get_by_role("link", name="State").click()
        # Until the tab is drawn, the links to the part are there.
        page.get_by_title("Query this state").filter(has_text="totals").click()
        page.locator("th", has_text=MARKUP).wait_for()
        page.locator(".live tbody tr").first.wait_for()
        page.get_by_label("SQL").fill("select nn from totals")
        page.get_by_role("button", name="Run").click()
        shown = page.locator(".problem pre")
        shown.wait_for()
        lines = shown.inner_text().splitlines()
        assert 'unknown column "nn"' in lines[0]
        assert lines[1].index("nn") == lines[2].index("^")
    with pytest.raises(Refusal, match="there is no job no"):
        served.client.send_request("GET", "/v1/jobs/no/state")


def test_on_a_phone_nothing_is_wider_than_the_window(
    served: ServedFolder, browser: Browser
) -> None:
    with opened_page(browser, printed_urls(served)[1], width=390) as page:
        page.get_by_role("link", name="hostile").first.wait_for()
        width = "[document.documentElement.scrollWidth, innerWidth]"
        for tab in ("", "overview", "checkpoints", "timeline", "rows", "log", "pipeline"):
            page.evaluate("hash => { location.hash = hash }", tab and f"#/job/hostile/{tab}")
            page.locator("h1", has_text="hostile" if tab else "Jobs").wait_for()
            if tab == "overview":
                page.locator(".node", has_text="totals").wait_for()
            scrolls, inner = page.evaluate(width)
            assert scrolls <= inner, tab
