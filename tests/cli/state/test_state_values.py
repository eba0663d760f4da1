"""Values of every type, as the commands on state print them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.stopped_jobs import Stopped

AGGREGATES = {
    "months": ("max(make_ym_interval(1, int(k) * 0 + 2))", "INTERVAL '1-2' YEAR TO MONTH"),
    "days": ("max(interval '1 02:03:04.5' day to second)", "INTERVAL '1 02:03:04.5' DAY TO SECOND"),
    "all": ("collect_set(interval 3 months)", ["INTERVAL '3' MONTH"]),
    "pair": (
        "first(named_struct('m', interval 3 months, 'one', 1))",
        {"m": "INTERVAL '3' MONTH", "one": 1},
    ),
    "local": ("max(timestamp_ntz '2024-02-29 23:59:59.5')", "2024-02-29T23:59:59.500"),
    "clock": ("max(time '12:30:15.5')", "12:30:15.500"),
    "cents": ("max(1.25)", "1.25"),
    "bytes": ("first(x'00ff')", "00ff"),
    "entries": ("first(map('a', date '2024-02-29'))", {"a": "2024-02-29"}),
}


@pytest.fixture
def job() -> Stopped:
    """A stopped job with an aggregate of each type, over all rows."""
    columns = ", ".join(f'{name}: "{text}"' for name, (text, _) in AGGREGATES.items())
    return Stopped(Path.cwd(), f"from: rows, key: s, aggregate: {{{columns}}}", on_disk=True)


def test_show_and_query_print_values_alike(headrace: Headrace, job: Stopped) -> None:
    wanted = {name: value for name, (_, value) in AGGREGATES.items()}
    shown = headrace("state", "show", "test", "step", "--key", "a", "--json", "--home", "home")
    (row,) = json.loads(shown.out)["states"]["keys"]["rows"]
    assert {name: row[name] for name in wanted} == wanted
    names = ", ".join(AGGREGATES)
    sql = f"select {names} from step where s = 'a'"
    asked = headrace("state", "query", "test", sql, "--json", "--home", "home")
    assert json.loads(asked.out) == [wanted]


def test_queries_compute_with_intervals(headrace: Headrace, job: Stopped) -> None:
    sql = "select months + pair.m as m, typeof(days) as t, days > interval 1 day as more from step"
    asked = headrace("state", "query", "test", f"{sql} limit 1", "--json", "--home", "home")
    (row,) = json.loads(asked.out)
    assert row == {
        "m": "INTERVAL '1-5' YEAR TO MONTH",
        "t": "interval day to second",
        "more": True,
    }


def test_counted_values_are_shown(headrace: Headrace) -> None:
    latest = "  latest: {from: rows, dedup: {key: k, keep: last}}\n"
    columns = "low: min(v), n: count(*), kinds: count(distinct v + 1)"
    step = f"from: latest, key: {{odd: x > 0}}, aggregate: {{{columns}}}"
    Stopped(Path.cwd(), step, more=latest, on_disk=True)
    shown = headrace("state", "show", "test", "step", "--json", "--home", "home")
    states = json.loads(shown.out)["states"]
    assert states["keys"]["rows"]
    rows = states["values"]["rows"]
    assert {*rows[0]} == {"odd", "v", "count"}
    assert sum(row["count"] for row in rows) == sum(row["n"] for row in states["keys"]["rows"])
    asked = headrace(
        "state", "query", "test", "select * from step_values_2", "--json", "--home", "home"
    )
    assert len(json.loads(asked.out)) == len(rows)
