"""The page in a browser: the list of jobs, a submitted pipeline, and what a token may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.cli.browser import opened_page, printed_urls, running_browser
from tests.support.cli.servers import ServedFolder, served_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Response

pytestmark = pytest.mark.slow

MODULE_S = 900
"""The time after which a server of these tests ends, whatever happens."""

MARKUP = "<img src=x onerror=document.title='attacked'>"

FAILING = """\
name: failing
sources:
  numbers: {generate: {rows: 3, columns: {x: id}}}
steps:
  halves: {from: numbers, map: {python: failing.py:halve, returns: {y: bigint}}}
sinks:
  out: {from: halves, files: {path: failing-out}}
settings: {restart: {strategy: none}}
"""

HALVE = f"""\
def halve(rows):
    raise ValueError("{MARKUP}")
"""

MISTAKEN = """\
name: mistaken
sources:
  numbers: {generate: {rate: 100/s, columns: {x: id}}}
steps:
  large: {from: numbers, where: y > 7}
sinks:
  out: {from: large, files: {path: mistaken-out}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFolder]:
    with served_folder(tmp_path_factory.mktemp("served"), MODULE_S) as folder:
        folder.write("steady")
        folder.write("failing", FAILING)
        (folder.path / "failing.py").write_text(HALVE)
        folder.start("--http", "0", "--read-only-token")
        folder.until_checkpoint("steady")
        yield folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


def test_jobs_are_listed_and_filtered(served: ServedFolder, browser: Browser) -> None:
    with opened_page(browser, printed_urls(served)[0]) as page:
        row = page.locator("tr.job", has_text="steady")
        row.get_by_text("running").wait_for()
        row.get_by_text("/s").first.wait_for()
        assert "token" not in page.url
        page.keyboard.press("/")
        page.keyboard.type("fail")
        row.wait_for(state="detached")
        page.locator("tr.job", has_text="failing").wait_for()


def test_markup_in_a_failure_is_text(served: ServedFolder, browser: Browser) -> None:
    with opened_page(browser, printed_urls(served)[0]) as page:
        page.locator("tr.job", has_text="failing").get_by_text(MARKUP).wait_for()
        page.locator("tr.job", has_text="failing").click()
        page.locator(".problem", has_text=MARKUP).wait_for()
        assert page.locator("img").count() == 0
        assert page.title() == "failing · headrace"


def test_a_mistake_is_shown_at_its_place(
    served: ServedFolder, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "mistaken.yaml"
    file.write_text(MISTAKEN)
    with opened_page(browser, printed_urls(served)[0]) as page:
        page.get_by_role("button", name="Submit pipeline").click()
        page.get_by_label("File of the pipeline").set_input_files(file)
        page.get_by_role("button", name="Start").click()
        shown = page.locator("dialog .problem pre")
        shown.wait_for()
        lines = shown.inner_text().splitlines()
        assert lines[0].endswith('mistaken.yaml:5:33: step "large": unknown column "y"')
        assert lines[1].index("y > 7") == lines[2].index("^")
        text = page.get_by_label("Text of the pipeline")
        text.fill(MISTAKEN.replace("y > 7", "x > 7"))
        page.get_by_role("button", name="Start").click()
        page.get_by_role("heading", name="mistaken").wait_for()
        page.locator(".node", has_text="large").wait_for()
    served.until_checkpoint("mistaken")


def test_viewers_see_no_buttons_that_change_something(
    served: ServedFolder, browser: Browser
) -> None:
    with opened_page(browser, printed_urls(served)[1]) as page:
        page.get_by_text("read only").wait_for()
        page.get_by_role("link", name="steady").first.click()
        page.locator(".node", has_text="numbers").wait_for()
        assert page.get_by_role("button").all_inner_texts() == ["?"]


def test_without_a_token_the_page_wants_one(served: ServedFolder, browser: Browser) -> None:
    owner, _ = printed_urls(served)
    with opened_page(browser, owner.partition("#")[0]) as page:
        page.get_by_label("Token or URL").fill("wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("does not accept the token").wait_for()
        page.get_by_label("Token or URL").fill(owner)
        page.get_by_role("button", name="Open").click()
        page.locator("tr.job", has_text="steady").wait_for()


def test_the_first_view_is_small(served: ServedFolder, browser: Browser) -> None:
    answers: list[Response] = []
    with opened_page(browser, "about:blank") as page:
        page.on("response", lambda answer: answers.append(answer))
        page.goto(printed_urls(served)[0])
        page.locator("tr.job", has_text="steady").wait_for()
        whole = [each.request for each in answers if not each.url.endswith("/v1/events")]
        sizes = [request.sizes()["responseBodySize"] for request in whole]
    assert 10_000 < sum(sizes) < 100_000


def test_a_job_is_stopped_as_the_page_has_shown_it(served: ServedFolder, browser: Browser) -> None:
    with opened_page(browser, printed_urls(served)[0]) as page:
        page.get_by_role("link", name="steady").click()
        page.get_by_role("button", name="Stop").click()
        dialog = page.get_by_role("dialog")
        seen = served.client.fetch_job("steady")["generation"]
        path, body = "/v1/jobs/steady/rescale", {"parallelism": 1}
        served.client.send_request("POST", path, body, seen)
        dialog.get_by_role("button", name="Stop").click()
        dialog.get_by_text("the job has changed").wait_for()
        dialog.get_by_role("button", name="Stop").click()
        served.until_status("steady", "stopped")
        page.locator(".head .status", has_text="stopped").wait_for()
