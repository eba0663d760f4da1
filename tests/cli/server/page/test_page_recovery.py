"""The page in a browser when an answer is cut off or does not come, or a job changes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.cli.browser import opened_page, printed_urls, running_browser
from tests.support.cli.servers import ServedFolder, endless, served_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

MODULE_S = 900
"""The time after which a server of these tests ends, whatever happens."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFolder]:
    with served_folder(tmp_path_factory.mktemp("served"), MODULE_S) as folder:
        folder.write("steady")
        folder.start("--http", "0", "--read-only-token")
        folder.until_checkpoint("steady")
        yield folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


def test_polling_goes_on_after_an_answer_that_is_cut_off(
    served: ServedFolder, browser: Browser
) -> None:
    with opened_page(browser, printed_urls(served)[0]) as page:
        page.route(
            "**/v1/jobs/steady/pipeline", lambda route: route.fulfill(body='{"running": '), times=1
        )
        page.get_by_role("link", name="steady").first.click()
        page.get_by_role("link", name="Pipeline").click()
        page.get_by_text("the file is what runs").wait_for()


def test_a_silent_stream_is_opened_again(served: ServedFolder, browser: Browser) -> None:
    with opened_page(browser, "about:blank") as page:
        page.clock.install()
        page.route("**/v1/events", lambda _: None, times=1)  # no answer, and no end
        with page.expect_request("**/v1/events"):
            page.goto(printed_urls(served)[0])
        page.clock.fast_forward(21_000)
        page.locator("tr.job", has_text="steady").wait_for()


def test_an_upgrade_is_repeated_after_the_job_has_changed(
    served: ServedFolder, browser: Browser
) -> None:
    with opened_page(browser, printed_urls(served)[0]) as page:
        page.get_by_role("link", name="steady").first.click()
        page.get_by_role("button", name="Upgrade").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("File of the pipeline").set_input_files(served.path / "steady.yaml")
        seen = served.client.fetch_job("steady")["generation"]
        path, body = "/v1/jobs/steady/rescale", {"parallelism": 1}
        served.client.send_request("POST", path, body, seen)
        dialog.get_by_role("button", name="Upgrade").click()
        dialog.get_by_text("the job has changed").wait_for()
        dialog.get_by_role("button", name="Upgrade").click()
        page.get_by_text("steady is upgraded").wait_for()


def test_rows_that_come_after_an_error_are_shown(served: ServedFolder, browser: Browser) -> None:
    with opened_page(browser, printed_urls(served)[1]) as page:
        page.get_by_role("link", name="steady").first.click()
        page.get_by_role("link", name="Rows").click()
        page.get_by_label("Stream").select_option("numbers")
        page.get_by_label("Condition").fill("y > 1")
        page.get_by_role("button", name="Apply").click()
        page.locator(".problem", has_text='unknown column "y"').wait_for()
        file = served.write("steady", endless("steady").replace("x: id", "x: id, y: id"))
        assert served.run("upgrade", "steady", str(file)).returncode == 0
        page.locator(".live tbody td").first.wait_for()
        assert page.locator(".problem").count() == 0
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").click()
