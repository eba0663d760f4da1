"""The stream of a real server: its jobs, and the figures of one that is killed and comes again."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.control.event_parser import parse_events
from tests.support.cli.openapi import answer_of, wrong
from tests.support.cli.servers import ServedFolder, served_folder, until

LONGEST_S = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ServedFolder]:
    with served_folder(tmp_path) as folder:
        yield folder


@contextmanager
def reading(
    port: int, token: str, body: Mapping[str, object]
) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    """Read a stream: its events."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_S)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/events", json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200
    try:
        yield parse_events(answer)
    finally:
        connection.close()


def find(events: Iterator[tuple[str, dict[str, Any]]], *kinds: str) -> dict[str, Any]:
    """The next event of one of these kinds."""
    return next(data for kind, data in events if kind in kinds)


def printed_urls(home: ServedFolder) -> list[tuple[str, str]]:
    """The ports and tokens that the server has printed."""
    return re.findall(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", home.printed())


def test_viewers_see_a_job_that_is_killed_and_runs_again(home: ServedFolder) -> None:
    home.write("a")
    server = home.start("--http", "0", "--read-only-token")
    job = home.until_checkpoint("a")
    _, (port, viewer) = until(lambda: len(u := printed_urls(home)) == 2 and u)
    wanted = {"jobs": True, "job": "a"}
    with (
        reading(int(port), viewer, wanted) as events,
        reading(int(port), viewer, {"job": "none"}) as others,
    ):
        assert find(others, "error")["code"] == "not_running"
        assert [each["name"] for each in find(events, "jobs")["jobs"]] == ["a"]
        figures = find(events, "job")
        assert (figures["name"], figures["findings"]["status"]) == ("a", "running")
        assert figures["statistics"]["parts"]["numbers"]["rows_in"] > 0
        for path, name in (("/v1/jobs", ""), ("/v1/jobs/{name}", "a"), ("/v1/history", "")):
            answer = home.client.send_request("GET", path.replace("{name}", name))
            assert list(wrong(answer, answer_of(path, "GET", 200))) == []
        os.kill(job["pid"], signal.SIGKILL)
        assert find(events, "error")["code"] in ("not_running", "silent")
        assert find(events, "job")["statistics"]["parts"]["numbers"]["kind"] == "source"
        assert home.end(server) == 0
        assert [kind for kind, _ in others] == []
        assert {kind for kind, _ in events} <= {"job", "jobs", "error"}


def test_a_job_says_on_its_own_stream_that_it_ends(home: ServedFolder) -> None:
    home.write("a")
    server = home.start("--http", "0")
    home.until_checkpoint("a")
    ((port, token),) = until(lambda: printed_urls(home))
    with reading(int(port), token, {"job": "a"}) as events:
        find(events, "job")
        assert home.run("stop", "a").returncode == 0
        error = find(events, "error")
        assert (error["code"], error["message"]) == ("ended", "a was stopped")
        assert find(events, "error")["code"] == "not_running"
    assert home.end(server) == 0
