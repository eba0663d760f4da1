"""Conditions and matches that nothing passes, and others of which that is no cause."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.diagnosis.findings import Finding
from tests.core.diagnosis.test_diagnosis import (
    LOOKUP,
    NAMES,
    SOURCE,
    WINDOWS,
    diagnosed,
    every_second,
)

HAVING = "aggregate: {n: count(*)}, having: n > 99"


def test_having_that_is_never_true_for_windows(tmp_path: Path) -> None:
    """Rows are in state all the time, but not because their windows wait."""
    text = WINDOWS.replace("aggregate: {n: count(*)}", HAVING)
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 60)
    assert [*found] == ["having_passes_nothing n"]
    assert found["having_passes_nothing n"].message.endswith("passed `having: n > 99`")
    assert found["having_passes_nothing n"].setting == "`having:` of step n"


def test_having_that_is_never_true_for_a_running_aggregate(tmp_path: Path) -> None:
    text = WINDOWS.replace("window: {tumble: 10s}, aggregate: {n: count(*)}", HAVING)
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 60)
    assert [*found] == ["having_passes_nothing n"]


def test_windows_that_have_not_ended_are_not_dropped(tmp_path: Path) -> None:
    text = WINDOWS.replace("tumble: 10s", "tumble: 1h").replace("aggregate: {n: count(*)}", HAVING)
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 60)
    assert [*found] == ["windows_wait n"]


PAIRS = """
sources:
  s: {memory: {data: in}, schema: {at: timestamp, key: bigint, x: bigint}, event_time: at}
  t: {memory: {data: other}, schema: {at: timestamp, key: bigint, x: bigint}, event_time: at}
steps:
  pairs: {join: {left: s, right: t, on: %s, type: %s}%s, select: {x: s.x}}
sinks: {out: {from: pairs, memory: {data: out}}}
"""


def joined(folder: Path, on: str, type: str = "inner", rest: str = "") -> dict[str, Finding]:
    """Return the findings of a join of two sources, which have the keys 0 to 6 in turn."""
    memory = InMemoryData({"in": {"a": every_second(100)}, "other": {"a": every_second(100)}})
    return diagnosed(folder, PAIRS % (on, type, rest), memory, 60)


@pytest.mark.parametrize("rest", ["", ", window: {tumble: 5s}"])
def test_join_whose_sides_never_match(tmp_path: Path, rest: str) -> None:
    found = joined(tmp_path, "s.key = t.key + 100", rest=rest)
    assert [*found] == ["nothing_matches pairs"]
    none = found["nothing_matches pairs"]
    assert "found a match on `s.key = t.key + 100`; it reads s (" in none.message
    assert ("`window:`" in none.setting) == bool(rest)


def test_joins_that_emit_rows_without_a_match_or_wait_for_their_windows(tmp_path: Path) -> None:
    assert joined(tmp_path, "s.key = t.key") == {}
    assert joined(tmp_path, "s.key = t.key + 100", "anti", ", window: {tumble: 5s}") == {}
    assert joined(tmp_path, "s.key = t.key + 100", rest=", window: {tumble: 1h}") == {}


def test_join_with_windows_that_have_not_ended_waits_for_them(tmp_path: Path) -> None:
    text = """
sources:
  s: {memory: {data: in}, schema: {at: timestamp, key: bigint, x: bigint}, event_time: at}
steps:
  n: {from: s, key: key, window: {tumble: 1h}, aggregate: {most: max(x)}}
  pairs: {join: {left: s, right: n, on: s.key = n.key, within: 2h}, select: {x: s.x}}
sinks: {out: {from: pairs, memory: {data: out}}}
"""
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 60)
    assert [*found] == ["windows_wait n"]


def test_lookup_that_knows_no_row(tmp_path: Path) -> None:
    memory = InMemoryData(
        {"in": {"a": every_second(100)}},
        tables={"names": LookupTableData(NAMES.with_columns(key=pl.lit(99)))},
    )
    text = LOOKUP.replace("retries: 50", "on_miss: drop")
    found = diagnosed(tmp_path, text, memory, 30)
    assert [*found] == ["nothing_matches named"]
    assert "`on_miss: null`" in found["nothing_matches named"].setting
    assert diagnosed(tmp_path, text.replace("drop", "null"), memory, 30) == {}


def matched(folder: Path, pattern: str, within: str) -> dict[str, Finding]:
    """Return the findings on a pattern over a row each second, whose x is always 1."""
    text = f"""{SOURCE}
steps:
  m:
    from: s
    key: key
    match: {{pattern: {pattern}, define: {{b: x > 1}}, within: {within}, emit: {{n: count(*)}}}}
sinks: {{out: {{from: m, memory: {{data: out}}}}}}
"""
    return diagnosed(folder, text, InMemoryData({"in": {"a": every_second(100)}}), 60)


def test_pattern_that_no_rows_complete(tmp_path: Path) -> None:
    found = matched(tmp_path, "a b", "10s")
    assert [*found] == ["nothing_matches m"]
    assert "60 rows completed the pattern `a b`" in found["nothing_matches m"].message
    assert "`pattern:` of step m, with its `define`" in found["nothing_matches m"].setting
    assert matched(tmp_path, "a b?", "10s") == {}


def test_pattern_that_waits_for_its_time_to_pass(tmp_path: Path) -> None:
    found = matched(tmp_path, "a -> not b", "1h")
    assert [*found] == ["windows_wait m"]
    assert "`a -> not b` is complete 1h after its first row" in found["windows_wait m"].message
    assert found["windows_wait m"].setting == "`within:` of step m"
