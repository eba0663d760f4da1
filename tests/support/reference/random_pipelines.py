"""Random pipelines of keyed steps, and rows for them, drawn by Hypothesis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from hypothesis import strategies as st

from headrace.core.types.change_columns import CHANGE

COLUMNS = {
    "k": pl.Int64(),
    "s": pl.String(),
    "v": pl.Int64(),
    "x": pl.Float64(),
    "at": pl.Datetime("us", "UTC"),
}
SCHEMA = "{k: bigint, s: string, v: bigint, x: double, at: timestamp}"
BEGIN = datetime(1969, 12, 31, 23, 59, 50, tzinfo=UTC)
SPREAD_S = 40
"""All events are within this number of seconds, which the watermark's delay allows for."""

ROW: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, 1, 2, -7]),
        "s": st.sampled_from([None, "", "a", "größe"]),
        "v": st.one_of(st.none(), st.integers(-5, 5)),
        "x": st.sampled_from([None, 0.0, -0.0, 0.5, -2.25, float("nan"), float("inf")]),
        "at": st.integers(0, SPREAD_S * 4).map(lambda n: BEGIN + timedelta(seconds=n / 4)),
    }
)
ROWS = st.lists(ROW, max_size=30)
SPLITS = st.lists(ROWS, min_size=1, max_size=3)

KEYS = st.sampled_from(
    [
        *(
            "",
            "key: k",
            "key: [k, s]",
            "key: {d: v % 2, k: k}",
            "key: {x: x}",
            "key: {h: hour(at)}",
        ),
        "key: {d: \"if(v = 4, raise_error('four'), v % 2)\"}",
    ]
)
AGGREGATES = {
    "n": "count(*)",
    "c": "count(v)",
    "total": "sum(v)",
    "mean": "avg(v)",
    "least": "min(s)",
    "most": "max(x)",
    "kinds": "count(distinct s)",
    "head": "first(v)",
    "tail": "last(s)",
    "all": "collect_list(v)",
    "best": "max_by(s, v)",
    "some": "count(*) filter (where v > 0)",
    "both": "sum(v) + count(*)",
    "sure": "sum(if(v < -3, raise_error('low'), v))",
    "bits": "bit_xor(v)",
    "sums": "try_sum(distinct v)",
    "line": "round(regr_slope(v, k), 6)",
    "tails": "round(kurtosis(v), 6)",
    "firsts": "max_by(s, v, 2)",
    "union": "collect_union(array(k, v))",
    "values": "collect_list(distinct s)",
    "about": "approx_count_distinct(v)",
    "middle": "median(v)",
    "shares": "percentile_approx(x, array(0.1, 0.9))",
    "weighed": "percentile(v, 0.3, k * k)",
    "usual": "mode(s)",
    "bins": "histogram_numeric(v, 3)",
    "text": "listagg(s, '-')",
    "sorted": "listagg(s) within group (order by v desc, k)",
}
TIMES = st.sampled_from(
    [
        "tumble: 5s",
        "tumble: 7s, offset: 2s",
        "slide: 6s, every: 2s",
        "slide: 5s, every: 3s",
        "slide: 2s, every: 5s",
        "slide: 6s, every: 4s, offset: 1s",
        "cumulate: 6s, every: 2s",
        "session: 1s",
        "session: 250ms",
        "global: true",
    ]
)
TRIGGERS = st.sampled_from(
    ["", ", trigger: {every: 3s}", ", trigger: {count: 2}", ", lateness: 4s"]
)
EVICT = st.sampled_from(["", "", ", evict: {last: 2}", ", evict: {within: 2s}"])
COUNTS = st.sampled_from(["count: 3", "count: 4, every: 2", "count: 2, every: 3"])
DEDUPS = (
    *("key: [k, s]", "key: x", "key: {d: v % 2}, ttl: 2s", "key: [k, s], ttl: 250ms"),
    "key: k, keep: last",
)
WHERE = st.sampled_from(
    [
        *("", "where: v > -3 or v is null", "where: s is not null"),
        "where: v is null or assert_true(v < 5) is null",
    ]
)
HAVING = st.sampled_from(["", "", "having: n > 1"])


@st.composite
def aggregating(draw: st.DrawFn, *, one_split: bool) -> list[str]:
    """Draw the clauses of a step that aggregates."""
    some = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=4, unique=True))
    names = {"n", *some}
    shown = ", ".join(f'{name}: "{AGGREGATES[name]}"' for name in sorted(names))
    kinds = ["time", "time", "running"] + ["count"] * one_split
    match draw(st.sampled_from(kinds)):
        case "running":
            window = ""
        case "count":
            window = f"window: {{{draw(COUNTS)}{draw(EVICT)}}}"
        case _:
            shape = draw(TIMES)
            never_late = shape == "global: true"
            more = draw(TRIGGERS.filter(lambda text: not (never_late and "lateness" in text)))
            window = f"window: {{{shape}{more}{draw(EVICT)}}}"
    return _skip_failures(
        [draw(WHERE), draw(KEYS), window, f"aggregate: {{{shown}}}", draw(HAVING)]
    )


def _skip_failures(clauses: list[str]) -> list[str]:
    """Add `on_error` to clauses with expressions that may fail."""
    fails = any(name in clause for clause in clauses for name in ("raise_error", "assert_true"))
    return [*clauses, "on_error: skip"] if fails else clauses


TIES = ("", ", ties: rank", ", ties: dense_rank")


@st.composite
def ranking(draw: st.DrawFn, *, one_split: bool) -> list[str]:
    """Draw the clauses of a step that ranks."""
    by = draw(st.sampled_from(["v desc", "x", "[s nulls last, v]", "v * -1 nulls last"]))
    of_time = TIMES.map(lambda shape: f"window: {{{shape}}}")
    of_count = COUNTS.map(lambda shape: f"window: {{{shape}}}") if one_split else of_time
    window = draw(st.one_of(st.just(""), of_time, of_count))
    key = draw(st.sampled_from(["", "key: k", "key: [k, s]"]))
    rows = draw(st.integers(1, 3))
    ties = "" if window else draw(st.sampled_from(TIES))
    return _skip_failures([draw(WHERE), key, window, f"top: {{n: {rows}, by: {by}{ties}}}"])


OVER = {
    "p": "lag(v)",
    "p2": "lag(s, 2, 'none')",
    "diff": "v - lag(v, 1, k)",
    "ahead": "lead(v)",
    "ahead2": "lead(x, 2, x)",
    "n": "row_number()",
    "r": "rank()",
    "d": "dense_rank()",
    "total": "sum(v)",
    "rows": "sum(v * 2) over (rows 2 preceding)",
    "around": "collect_list(v) over (rows between 1 preceding and 1 following)",
    "near": "count(*) over (range interval 2 seconds preceding)",
    "coming": "max(s) over (range between current row and interval 1 second following)",
    "gone": "min(v) over (range between interval 5 seconds preceding and interval 1 second"
    " preceding)",
    "before": "collect_set(s) over (rows between unbounded preceding and 1 preceding)",
    "past": "avg(v) over (range between unbounded preceding and interval 1 second preceding)",
    "first": "first_value(v) over (rows 1 preceding)",
    "seen": "last_value(s, true) over (rows between unbounded preceding and current row)",
    "second": "nth_value(v, 2)",
    "some": "count(*) filter (where v > 0) over (rows 3 preceding)",
    "sure": "sum(if(v < -3, raise_error('low'), v))",
}


@st.composite
def ordering(draw: st.DrawFn) -> list[str]:
    """Draw the clauses of a step that adds columns over the rows of a key."""
    some = draw(st.lists(st.sampled_from(sorted(OVER)), min_size=1, max_size=4, unique=True))
    shown = ", ".join(f'{name}: "{OVER[name]}"' for name in sorted(some))
    ttl = draw(st.sampled_from(["", "", "ttl: 2s", "ttl: 250ms"]))
    return _skip_failures([draw(WHERE), draw(KEYS), f"over: {{{shown}}}", ttl])


CHANGES = {
    "key: [k, s], aggregate: {n: count(*), t: sum(v)}": "k, s",
    "key: [k, s], aggregate: {n: count(v), t: max(v)}, having: n != 1": "k, s",
    "dedup: {key: [k, s], keep: last, order: event_time}, select: {k: k, s: s, n: v, t: x}": "k, s",
    **{
        f"key: [k, s], window: {{{window}, trigger: {{count: 2}}}}, "
        "aggregate: {n: count(*), t: min(v)}": "k, s, window_start, window_end"
        for window in ("tumble: 5s", "session: 1s", "slide: 6s, every: 3s")
    },
}
"""Clauses of steps that emit changelog rows of n and t, and the keys of these rows."""


@st.composite
def of_changes(draw: st.DrawFn) -> str:
    """Draw steps; the last one depends on the current rows of a changelog stream."""
    made, by = draw(st.sampled_from(sorted(CHANGES.items())))
    fails = ", where: assert_true(n < 3) is null, on_error: skip"
    where = draw(st.sampled_from(["", ", where: n > 1", ", where: s is not null", fails]))
    keys = ["", "key: k, ", "key: [k, s], ", "key: {j: k % 2, s: s}, "]
    if "window" in by:
        keys += ["key: window_end, ", "with: {e: hour(window_end)}, key: [e, k], "]
    many = "c: count(*), total: sum(n), least: min(t), mean: avg(n), kinds: count(distinct t)"
    if draw(st.booleans()):
        having = draw(st.sampled_from(["", ", having: c > 1"]))
        key = draw(st.sampled_from(keys))
        last = f"{key}aggregate: {{{many}}}{having}"
    else:
        order = draw(st.sampled_from(["n desc", "n", "t desc nulls first", "n % 2, t"]))
        key = draw(st.sampled_from([each for each in keys if "j:" not in each]))
        # Rows that are added and removed, as ties are ranked, are not skipped.
        ties = draw(st.sampled_from(TIES)) if where != fails else ""
        by = "" if ties else f", {by}"
        last = f"{key}top: {{n: {draw(st.integers(1, 3))}, by: [{order}{by}]{ties}}}"
    return f"  made: {{from: rows, {made}}}\n  step: {{from: made{where}, {last}}}\n"


@st.composite
def pipelines(draw: st.DrawFn, *, one_split: bool) -> str:
    """Return the text of a pipeline from `in` to `out`, both in memory."""
    if draw(st.integers(0, 4)) == 4:
        return _piped(draw(of_changes()))
    dedup = [["dedup: {key: [k, s]}"], ["dedup: {key: k, keep: last}"]] if one_split else []
    dedup += [
        _skip_failures([draw(WHERE), f"dedup: {{{what}, order: event_time}}"]) for what in DEDUPS
    ]
    step = draw(
        st.one_of(
            aggregating(one_split=one_split),
            aggregating(one_split=one_split),
            ranking(one_split=one_split),
            ordering(),
            *(st.just(clauses) for clauses in dedup),
        )
    )
    clauses = "".join(f"    {clause}\n" for clause in step if clause)
    return _piped(f"  step:\n    from: rows\n{clauses}")


def _piped(steps: str) -> str:
    return (
        f"sources:\n  rows:\n    memory: {{data: in}}\n    schema: {SCHEMA}\n"
        f"    event_time: at\n    watermark: {{delay: {SPREAD_S}s}}\n"
        f"steps:\n{steps}"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Build a frame of the rows of a source; those of a table say what they change."""
    changes = {CHANGE: pl.String()} if rows and CHANGE in rows[0] else {}
    return pl.DataFrame(rows, schema={**COLUMNS, **changes}, orient="row")
