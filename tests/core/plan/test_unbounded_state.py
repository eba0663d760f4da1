"""Warnings about unbounded state, and about sources that hold windows back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plans import plan_of, said

FOR_EVER = 'every "id" is stored forever'


@pytest.mark.parametrize(
    ("source", "step", "message"),
    [
        ("rate: 1/s", "key: id, aggregate: {n: count(*)}", FOR_EVER),
        ("rate: 1/s", "key: id, top: {n: 1, by: id}", FOR_EVER),
        ("rate: 1/s", "dedup: {key: id}", FOR_EVER),
        ("rate: 1/s", "key: [id, x], aggregate: {n: count(*)}", "every (id, x) is stored"),
        (
            "rate: 1/s",
            "key: id, window: {global: true, trigger: {count: 2}}, aggregate: {n: count(*)}",
            "accumulate: false discards fired rows",
        ),
        (
            "rate: 1/s",
            "window: global, aggregate: {n: count(*)}",
            "a global window fires at the end, but its input has no end",
        ),
        ("rate: 1/s", "aggregate: {n: count(*)}", None),
        ("rate: 1/s", "dedup: {key: id, keep: last}", None),
        ("rate: 1/s", "dedup: {key: id, ttl: 1h, time: processing}", None),
        (
            "rate: 1/s",
            "key: id, aggregate: {n: count(*)}, ttl: {after: 1h, time: processing}",
            None,
        ),
        ("rows: 10", "key: id, aggregate: {n: count(*)}", None),
        ("rows: 10", "window: global, aggregate: {n: count(*)}", None),
    ],
)
def test_state_that_grows_for_ever_is_warned_of(
    tmp_path: Path, source: str, step: str, message: str | None
) -> None:
    text = f"""name: t
sources:
  a: {{generate: {{columns: {{id: id, x: id}}, {source}}}}}
steps:
  r: {{from: a, where: id > 1}}
  s: {{from: r, {step}}}
sinks:
  out: {{from: s, console: {{}}}}
"""
    lines = said(tmp_path, text)
    assert len(lines) == (message is not None)
    assert all(message in line for line in lines if message)
    assert plan_of(tmp_path, text)


@pytest.mark.parametrize(
    ("source", "window", "warned"),
    [
        ("path: in", "{tumble: 1s}", True),
        ("path: 'in/*.jsonl'", "{session: 1s}", True),
        ("path: 'in/*.jsonl', ordered: true", "{tumble: 1s}", False),
        ("path: in/one.jsonl", "{tumble: 1s}", False),
        ("path: in", "{tumble: 1s, time: processing}", False),
        ("path: in", "{count: 3}", False),
        ("path: in", "global", False),
    ],
)
def test_many_files_that_hold_windows_back_are_warned_of(
    tmp_path: Path, source: str, window: str, warned: bool
) -> None:
    text = f"""name: t
sources:
  a: {{files: {{{source}}}, schema: {{id: bigint, at: timestamp}}, event_time: at}}
steps:
  s: {{from: a, window: {window}, aggregate: {{n: count(*)}}}}
sinks:
  out: {{from: s, console: {{}}}}
"""
    assert said(tmp_path, text) == (
        [
            '3: source "a": the windows of "s" wait until its last file is being read '
            "[if names sort by time, say so: ordered: true]"
        ]
        if warned
        else []
    )


def test_rows_stored_until_a_delete_get_a_warning(tmp_path: Path) -> None:
    text = """name: t
sources:
  a: {generate: {columns: {id: id, x: id}, rate: 1/s}}
steps:
  s: {from: a, key: id, aggregate: {n: count(*)}, ttl: {after: 1h, time: processing}}
  t: {from: s, top: {n: 1, by: n}}
sinks:
  out: {from: t, console: {}}
"""
    (line,) = said(tmp_path, text)
    assert line == '6: step "t": the row of every id is stored until a change deletes it'


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("aggregate: {n: count(*)}", 'every "g" is stored until its last row is removed'),
        ("aggregate: {n: min(v)}", "every value is stored until a change removes its last row"),
        ("top: {n: 2, by: v}", "every row is stored until a change removes it"),
        ("top: {n: 2, by: v, ties: rank}", "every row is stored until a change removes it"),
    ],
)
@pytest.mark.parametrize("written", ["yaml", "sql"])
def test_a_ttl_limits_what_a_step_stores_of_a_table(
    tmp_path: Path, step: str, message: str, written: str
) -> None:
    clause = f"from: rows, key: g, {step}"
    if written == "sql":
        call = step.partition(": {n: ")[2].rstrip("}")
        rank = "rank" if "ties" in step else "row_number"
        query = f"select g, {call} as n from rows group by g"
        if "top" in step:
            query = f"select * from rows qualify {rank}() over (partition by g order by v) <= 2"
        clause = f"sql: '{query}'"
    text = """name: t
sources:
  rows:
    files: {path: in, watch: 1s}
    schema: {id: bigint, g: string, v: bigint, at: timestamp}
    event_time: at
    table: {key: id}
"""
    ends = "sinks:\n  out: {from: s, console: {}}\n"
    (line,) = said(tmp_path, f"{text}steps:\n  s: {{{clause}}}\n{ends}")
    assert line.startswith('9: step "s')
    assert line.endswith(f"{message} [ttl: 1h drops a key that long after its last row]")
    assert said(tmp_path, f"{text}steps:\n  s: {{{clause}, ttl: 1h}}\n{ends}") == []


def test_a_ttl_by_event_time_is_not_suggested_for_rows_that_have_none_of_their_own(
    tmp_path: Path,
) -> None:
    text = """name: t
sources:
  a: {generate: {columns: {id: id, x: id, at: timestamp_seconds(id)}, rate: 1/s}, event_time: at}
steps:
  s: {from: a, key: id, top: {n: 1, by: x}, ttl: 1h}
  t: {from: s, key: x, aggregate: {m: max(id)}}
sinks:
  out: {from: t, console: {}}
"""
    (line,) = said(tmp_path, text)
    assert line == '6: step "t": every value is stored until a change removes its last row'
