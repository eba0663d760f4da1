"""Lookups by HTTP with secrets, which only the requested server may see."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.splits import Failure
from tests.support.tables.http_server import Answer, serving
from tests.support.tables.lookups import IDS, SCHEMA, Asking

GARBAGE = b"HTTP/1.1 abc opensesame\r\n\r\n"


def asking(folder: Path, url: str, after: str = "", more: str = "") -> Asking:
    """Build a lookup with secrets in its URL and headers."""
    lookup = f"""
http:
  url: "{url}/{{id}}?q=opensesame"
  headers: {{X-Api-Key: opensesame{more}}}
on: {{id: customer}}
add: {{name: string, tier: int}}
retries: 0
"""
    return Asking(folder, lookup, SCHEMA, after)


def failure(job: Asking) -> Failure:
    """Return the failure of the job."""
    outcome, _ = job.run(IDS.head(1))
    assert outcome.failure is not None
    assert "sesame" not in str(outcome.failure)
    return outcome.failure


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((302, "/4?q=opensesame"), "redirects more than 10 times"),
        ((302, "http://[bad?token=opensesame"), "redirects to an invalid URL"),
        ((302, "http://localhost:99999/opensesame"), "redirects to an invalid URL"),
        ((302, "http://opensesame.localhost/"), "redirects to another server"),
        ((302, "ftp://h/opensesame"), "redirects to another server"),
        ((0, GARBAGE), "answered with something that is not HTTP"),
        ((0, b""), "closed the connection before it answered"),
        ((401, None), "answered 401 Unauthorized"),
        ((200, b"<html>/4?q=opensesame"), "answered with invalid JSON"),
        ((200, {"name": "x", "tier": "opensesame"}), "tier"),
    ],
)
def test_what_goes_wrong_is_reported_without_secrets(
    tmp_path: Path, answer: Answer, said: str
) -> None:
    with serving(lambda path: answer) as site:
        job = asking(tmp_path, site.url)
        message = failure(job).message
        assert message.startswith(site.url.removeprefix("http://"))
        assert said in message


def test_dead_letters_have_no_secrets(tmp_path: Path) -> None:
    with serving(lambda path: (302, path)) as site:
        job = asking(tmp_path, site.url, "on_error: {to: bad}")
        job.sinks = "dead: {from: bad, memory: {data: dead}}"
        outcome, _ = job.run(IDS.head(1))
        assert outcome.failure is None
        (row,) = pl.concat(job.memory.outputs["dead"]).rows()
        assert "redirects" in str(row)
        assert "sesame" not in str(row)


def test_headers_go_to_no_other_server(tmp_path: Path) -> None:
    with serving(lambda path: (200, {"name": "x"})) as other:
        with serving(lambda path: (307, f"{other.url}{path}")) as site:
            error = failure(asking(tmp_path, site.url))
        assert error.is_final
        assert error.message.endswith("which is not followed (lookup of id = 4)")
        assert error.hint == f"write the URL that it redirects to; it begins with {other.url}"
        assert not other.asked


def test_redirects_within_a_server_are_followed(tmp_path: Path) -> None:
    def answer(path: str) -> Answer:
        return (301, f"/v2{path}") if not path.startswith("/v2") else (200, {"name": "x"})

    with serving(answer) as site:
        at = site.url.replace("//", "//me:pw@")
        job = asking(tmp_path, at)
        outcome, _ = job.run(IDS.head(1))
        assert outcome.failure is None
        assert job.rows() == [(0, 4, "x", None)]
        assert site.asked == ["/4?q=opensesame", "/v2/4?q=opensesame"]
        assert [each["X-Api-Key"] for each in site.headers] == ["opensesame"] * 2
        assert len({each["Authorization"] for each in site.headers}) == 1


def test_where_nobody_listens_is_reported_without_secrets(tmp_path: Path) -> None:
    with serving(lambda path: (200, None)) as site:
        pass
    assert "cannot be reached: connection refused" in failure(asking(tmp_path, site.url)).message
