"""Lookups by HTTP, with a real server: requests, answers, and server failures."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.failures import ConnectorError
from headrace.core.plan.explain import explain
from headrace.core.types.data_types import TIMESTAMP, to_polars
from tests.support.tables.http_server import Answer, Site, serving, slow
from tests.support.tables.lookups import IDS, SCHEMA, Asking

MANY = pl.DataFrame({"n": range(40), "customer": range(40)})


def asking(folder: Path, site: Site, *more: str, after: str = "", add: str = "[name]") -> Asking:
    """Build a lookup by HTTP."""
    lines = (
        f'http: {{url: "{site.url}/c/{{id}}"}}',
        "on: {id: customer}",
        f"add: {add}",
        *more,
    )
    return Asking(folder, "\n".join(lines), SCHEMA, after)


def by_number(path: str) -> Answer:
    """Answer for even customers only."""
    number = int(path.rpartition("/")[2])
    return (404, {"error": "no"}) if number % 2 else (200, {"name": f"n{number}"})


def test_each_key_is_requested_and_404_is_a_miss(tmp_path: Path) -> None:
    with serving(by_number) as site:
        job = asking(tmp_path, site)
        outcome, _ = job.run(IDS, IDS)
        assert outcome.failure is None
        assert job.rows()[:4] == [(0, 4, "n4"), (1, 5, None), (2, None, None), (3, 6, "n6")]
        assert set(site.asked) == {"/c/4", "/c/5", "/c/6"}
        assert job.look() == f"{site.url}/c/{{id}}, a server answers there"


def test_a_key_is_requested_and_reported_with_its_year_in_full(tmp_path: Path) -> None:
    far = pl.Series("at", [2**63 - 1]).cast(to_polars(TIMESTAMP)).to_frame()
    with serving(lambda path: (404, None)) as site:
        lookup = f'http: {{url: "{site.url}/{{id}}"}}\non: {{id: at}}\nadd: [name]\non_miss: fail'
        outcome, _ = Asking(tmp_path, lookup, "{at: timestamp}").run(far)
        assert outcome.failure is not None
        message = "the table has no row for id = +294247-01-10T04:00:54.775807Z"
        assert outcome.failure.message == message
        assert site.asked == ["/%2B294247-01-10T04%3A00%3A54.775807Z"]


def test_what_answers_may_look_like(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {
        "4": (200, [{"name": "list", "tier": 1}]),
        "5": (200, []),
        "6": (200, b'{\n "name": {"first": "A"},\n "tier": 7, "more": 1}\n'),
        "7": (204, None),
        "8": (200, None),
    }
    rows = pl.DataFrame({"n": range(5), "customer": range(4, 9)})
    with serving(lambda path: answers[path[3:]]) as site:
        job = asking(tmp_path, site, add="{name: string, tier: int}")
        outcome, _ = job.run(rows)
        assert outcome.failure is None
        assert [row[2:] for row in job.rows()] == [
            ("list", 1),
            (None, None),
            ('{"first": "A"}', 7),
            (None, None),
            (None, None),
        ]


def test_a_row_and_its_columns_may_be_inside_of_an_answer(tmp_path: Path) -> None:
    lookup = """
http:
  url: "{url}/x?q={{who}}"
  headers: {{Authorization: "${{env:TOKEN:-abc}}"}}
  row: data.customer
on: {{who: "concat(name, '&')"}}
add: {{city: {{column: address.city}}, zip: {{column: address.zip, type: bigint}}}}
"""
    answer = {"data": {"customer": {"address": {"city": "Ulm", "zip": 89073}}}}
    with serving(lambda path: (200, answer)) as site:
        job = Asking(tmp_path, lookup.format(url=site.url), "{name: string}")
        outcome, _ = job.run(pl.DataFrame({"name": ["a b/ä"]}))
        assert outcome.failure is None
        assert job.rows() == [("a b/ä", "Ulm", 89073)]
        assert site.asked == ["/x?q=a%20b%2F%C3%A4%26"]
        assert site.headers[0]["Authorization"] == "abc"
        assert "abc" not in explain(job.plan())


def test_no_more_calls_are_made_at_a_time_than_the_user_says(tmp_path: Path) -> None:
    with serving(lambda path: slow(0.01, by_number(path))) as site:
        job = asking(tmp_path, site, "concurrency: 3")
        outcome, _ = job.run(MANY)
        assert outcome.failure is None
        assert [row[2] for row in job.rows()] == [None if n % 2 else f"n{n}" for n in range(40)]
        assert site.most_at_once == 3


def test_a_request_to_a_failing_server_is_retried(tmp_path: Path) -> None:
    tries: list[str] = []

    def answer(path: str) -> Answer:
        tries.append(path)
        return (503, None) if len(tries) < 3 else by_number(path)

    with serving(answer) as site:
        job = asking(tmp_path, site, "concurrency: 1")
        outcome, _ = job.run(IDS.head(1))
        assert outcome.failure is None
        assert job.rows() == [(0, 4, "n4")]
        assert site.asked == ["/c/4"] * 3


def test_a_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    with serving(lambda path: site.hang() if path == "/c/5" else by_number(path)) as site:
        job = asking(tmp_path, site, "timeout: 200ms", "retries: 1", after="on_error: skip")
        start = time.monotonic()
        outcome, counts = job.run(IDS)
        assert time.monotonic() - start < 300
        assert outcome.failure is None
        assert [row[0] for row in job.rows()] == [0, 2, 3]
        assert (counts.rows_in, counts.rows_out, counts.bad_rows) == (4, 3, 1)
        assert site.asked.count("/c/5") == 2


def test_what_a_server_refuses_is_not_requested_again_and_reported(tmp_path: Path) -> None:
    with serving(lambda path: (401, None)) as site:
        outcome, _ = asking(tmp_path, site).run(IDS.head(1))
        assert outcome.failure is not None
        where = site.url.removeprefix("http://")
        assert outcome.failure.message == f"{where} answered 401 Unauthorized (lookup of id = 4)"
        assert len(site.asked) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"<html>", "answered with invalid JSON"),
        ([1, 2], "answered with 2 rows for a key"),
        ({"name": "x", "tier": "gold"}, "tier"),
    ],
)
def test_an_answer_that_is_none_is_reported(tmp_path: Path, answer: object, said: str) -> None:
    with serving(lambda path: (200, answer)) as site:
        job = asking(tmp_path, site, "retries: 0", add="{name: string, tier: int}")
        outcome, _ = job.run(IDS.head(1))
        assert outcome.failure is not None
        assert said in outcome.failure.message


def test_an_unreachable_server_is_reported_at_check_and_run(tmp_path: Path) -> None:
    with serving(by_number) as site:
        pass
    job = asking(tmp_path, site, "retries: 0")
    with pytest.raises(ConnectorError, match=r"cannot reach 127\.0\.0\.1"):
        job.look()
    outcome, _ = job.run(IDS.head(1))
    assert outcome.failure is not None
    assert outcome.failure.is_transient, "it may be back at the next attempt"
