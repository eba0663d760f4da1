"""Warnings about windows over streams of late rows, for which the rows are late again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plans import plan_of, said

FIRST = "window: {tumble: 10s, lateness: 5s, late_to: late}, aggregate: {n: count(*)}"


def text_of(step: str, first: str = FIRST, between: str = "where: id > 1") -> str:
    return f"""name: t
sources:
  a: {{generate: {{columns: {{id: id, at: timestamp_seconds(id)}}, rows: 9}}, event_time: at}}
steps:
  s: {{from: a, {first}}}
  r: {{from: late, {between}}}
  again: {{from: r, {step}, aggregate: {{m: count(*)}}}}
sinks:
  out: {{from: s, console: {{}}}}
  out2: {{from: again, console: {{}}}}
"""


@pytest.mark.parametrize(
    ("window", "warned"),
    [
        ("{tumble: 10s}", True),
        ("{tumble: 15s}", True),
        ("{tumble: 16s}", False),
        ("{tumble: 10s, lateness: 5s}", True),
        ("{tumble: 10s, lateness: 6s}", False),
        ("{slide: 15s, every: 1s}", True),
        ("{cumulate: 1h, every: 1s}", False),
        ("{session: 15s}", True),
        ("{session: 1m}", False),
        ("{tumble: 10s, time: processing}", False),
        ("{count: 3}", False),
        ("global", False),
    ],
)
def test_windows_that_wait_no_longer_than_the_first_are_warned_of(
    tmp_path: Path, window: str, warned: bool
) -> None:
    text = text_of(f"window: {window}")
    message = (
        '7: step "again": the rows of "r" were too late for windows as long as these '
        "[they are late again: use window: global, time: processing or more lateness]"
    )
    assert said(tmp_path, text) == ([message] if warned else [])
    assert plan_of(tmp_path, text)


def test_rows_before_the_watermark_are_late_again_where_they_wait_for_it(tmp_path: Path) -> None:
    text = text_of("dedup: {key: id, order: event_time}").replace(", aggregate: {m: count(*)}", "")
    assert said(tmp_path, text) == [
        '7: step "again": the rows of "r" are behind the watermark: all are late again '
        "[order: arrival accepts them]"
    ]
    assert said(tmp_path, text.replace("event_time}", "arrival}")) == []


@pytest.mark.parametrize(
    ("between", "warned"),
    [
        ("dedup: {key: id}", True),
        ("select: {id: id}", True),
        ('map: {python: "m.py:f", returns: {id: bigint}}', True),
        ('map: {python: "m.py:f", returns: {t: timestamp}, event_time: t}', False),
        ("window: {tumble: 1m}, aggregate: {n: count(*)}", False),
    ],
)
def test_rows_are_late_as_long_as_they_keep_their_time(
    tmp_path: Path, between: str, warned: bool
) -> None:
    (tmp_path / "m.py").write_text("def f(rows):\n    return rows\n")
    lines = said(tmp_path, text_of("window: {tumble: 1s}", between=between))
    assert len(lines) == warned


def test_late_rows_united_with_others_get_a_warning(tmp_path: Path) -> None:
    text = text_of("window: {tumble: 1s}", between="from: [a, late], where: id > 1")
    assert len(said(tmp_path, text.replace("from: late, from:", "from:"))) == 1


def test_windows_over_late_rows_of_windows_over_late_rows_wait_for_the_longest(
    tmp_path: Path,
) -> None:
    first = "window: {tumble: 1h, late_to: late}, aggregate: {n: count(*)}"
    text = f"""name: t
sources:
  a: {{generate: {{columns: {{id: id, at: timestamp_seconds(id)}}, rows: 9}}, event_time: at}}
steps:
  s: {{from: a, {first}}}
  b: {{from: late, window: {{tumble: 1s, late_to: later}}, aggregate: {{n: count(*)}}}}
  c: {{from: later, window: {{tumble: 1m}}, aggregate: {{n: count(*)}}}}
sinks:
  out: {{from: s, console: {{}}}}
  out2: {{from: b, console: {{}}}}
  out3: {{from: c, console: {{}}}}
"""
    assert [line.split(": the")[0] for line in said(tmp_path, text)] == [
        '6: step "b"',
        '7: step "c"',
    ]
