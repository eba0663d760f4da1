"""Random queries over tables: joins by any columns, unions, aggregates and tops of their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from headrace.core.pipeline.clauses.join_rules import RETRACTING_JOIN_TYPES
from headrace.core.types.change_columns import CHANGE
from tests.support.reference.random_pipelines import SCHEMA, SPREAD_S

TABLES = {
    "facts": "",
    "latest": "dedup: {key: KEY, keep: last, order: event_time}",
    "totals": "key: KEY, aggregate: {v: max(v), x: max(x), s: min(s), at: max(at)}",
    "some": "key: KEY, aggregate: {v: sum(v), x: max(x), s: max(s), at: min(at)}, having: v > 0",
}
"""Tables over the rows of a source, by name; `latest` has all columns, the others need `k`."""

ON = st.sampled_from(
    [
        *("a.k = b.k", "a.v = b.k", "a.v = b.v", "a.s = b.s", "a.x = b.x"),
        *("a.k = b.k and a.v < b.v", "a.v = b.v and (a.s is null or b.x > 0)"),
        "a.v % 2 = b.v % 2 and a.s = b.s",
    ]
)
TYPES = ("inner", "left", "right", "full", "semi", "anti")
BOTH = "select: {k: a.k, v: a.v, w: b.v, s: b.s, x: a.x, j: b.k}"
ALONE = "select: {k: k, v: v, w: v, s: s, x: x, j: k}"
BY_ROW = "select: [k, v, w, s, x, j]"
WITHOUT_KEY = [
    BY_ROW,
    "select: {w: w, s: s}",
    "where: v > 0, select: {w: w, k: k}",
    "with: {both: 'array(k, w)'}, select: {both: both}",
    "explode: {one: 'array(v, w)'}, select: {one: one, k: k}",
]
BY_KEY = [
    "key: s, aggregate: {n: count(*), total: sum(v), mean: avg(w), c: count(w)}",
    "key: w, aggregate: {n: count(*), most: max(v), least: min(s), kinds: count(distinct k)}",
    "key: {d: v % 2}, aggregate: {n: count(*), f: min(s)}, having: n > 1",
    "key: k, aggregate: {n: count(*), total: sum(w)}, having: total > 1",
    "aggregate: {n: count(*), total: sum(v), most: max(x)}",
    "aggregate: {n: count(*), total: sum(v)}, emit_empty: true, having: n < 9",
    "key: k, aggregate: {mid: median(v), p: 'percentile(x, array(0.1, 0.9))', xs: sum(distinct v), "
    "kinds: 'count(distinct s, w)', few: min(x) filter (where v > 1), set: collect_set(s)}",
    "key: k, top: {n: 2, by: [v desc, w, s, x, j]}",
    "key: s, top: {n: 1, by: [k, v, w, x, j]}",
]
BY_TIME = [
    "dedup: {key: s, order: event_time}",
    "dedup: {key: [w, k], keep: last, order: event_time}",
]
BY_WINDOW = [
    "key: s, window: {tumble: 10s}, aggregate: {n: count(*), total: sum(v), most: max(w)}",
    "window: {slide: 9s, every: 3s}, aggregate: {n: count(*), kinds: count(distinct k)}",
    "key: k, window: {cumulate: 20s, every: 5s}, aggregate: {least: min(v), n: count(*)}",
    "key: w, window: {slide: 2s, every: 5s}, aggregate: {n: count(*)}, having: n > 1",
    "key: s, window: {tumble: 20s}, top: {n: 2, by: [v desc, w, k, x, j]}",
    "key: s, window: {session: 3s}, aggregate: {n: count(*), total: sum(v), most: max(w)}",
    "window: {session: 1s}, aggregate: {n: count(*)}, having: n > 1",
    "key: k, window: {session: 5s}, top: {n: 2, by: [v desc, w, s, x, j]}",
    "key: s, window: {global: true}, aggregate: {n: count(*), least: min(v)}",
    "key: s, window: {tumble: 9s, evict: {last: 2}}, aggregate: {n: count(*), total: sum(v)}",
    "key: k, window: {tumble: 9s, evict: {within: 2s}}, aggregate: {n: count(*), most: max(v)}",
]
BY_LATE_WINDOW = [
    "key: k, window: {tumble: 10s, lateness: 1m}, aggregate: {n: count(*), total: sum(v)}",
    "window: {slide: 9s, every: 3s, lateness: 1m}, aggregate: {n: count(*), most: max(w)}",
    "key: w, window: {cumulate: 20s, every: 5s, lateness: 1m}, aggregate: {n: count(*)}",
    "key: s, window: {session: 2s, lateness: 1m}, aggregate: {n: count(*), total: sum(v)}",
    "key: k, window: {session: 4s, lateness: 1m}, aggregate: {n: count(*)}, having: n > 1",
    "key: s, window: {tumble: 9s, lateness: 1m, trigger: {every: 2s}}, aggregate: {n: count(*)}",
    "window: {slide: 9s, every: 4s, lateness: 1m, trigger: {every: 3s}}, aggregate: {n: sum(v)}",
    "key: v, window: {global: true, trigger: {every: 3s}}, aggregate: {n: count(*), c: count(w)}",
]
"""Windows that can fire again, and take all changes."""
CODE = Path(__file__).parents[1] / "user_code" / "table_changes.py"
RETURNS = "changes: true, returns: {s: string, n: bigint, total: bigint}"
OF_CHANGES = [
    f"map: {{python: '{CODE}:signed', mode: row, {RETURNS}}}",
    f"map: {{python: '{CODE}:signed_batch', {RETURNS}}}",
    f"key: s, process: {{python: '{CODE}:Signed', order: arrival, {RETURNS}}}",
]
"""Clauses of a last step whose rows have no key, have one, depend on the times of its input, are
windows of it, or are facts about changes.
"""
LASTS = (WITHOUT_KEY, BY_KEY, BY_TIME, BY_WINDOW, BY_LATE_WINDOW, OF_CHANGES)


SOURCE_TABLES = {
    "by sequence": "table: {key: [k], sequence: v}",
    "by place": "table: {key: [k]}",
    "by two columns": "table: {key: [k, s], sequence: v * 2}",
}
"""Sources that are tables; `_change` says what a row does."""
CHANGES = st.sampled_from([None, None, "insert", "update_after", "update_before", "delete"])


@st.composite
def table(
    draw: st.DrawFn, source: str, name: str, *, can_be_facts: bool, is_table: bool = False
) -> str:
    """Draw a step that makes a table of a source's rows."""
    condition = draw(st.sampled_from(["v is not null", "v > 0", "(x is null or x > 0)"]))
    columns = "select: [k, s, v, x, at]"
    if is_table:
        return f"  {name}: {{from: {source}, where: '{condition}', {columns}}}\n"
    kind = draw(st.sampled_from([*TABLES][0 if can_be_facts else 1 :]))
    key = draw(st.sampled_from(["k", "v", "[k, s]"])) if kind == "latest" else "k"
    clauses = TABLES[kind].replace("KEY", key)
    text = f"  {name}_rows: {{from: {source}, {clauses or 'where: true'}}}\n"
    return f"{text}  {name}: {{from: {name}_rows, where: '{condition}', {columns}}}\n"


@st.composite
def steps(
    draw: st.DrawFn,
    lasts: Sequence[Sequence[str]] = LASTS,
    tables: Collection[str] = (),
) -> str:
    """Draw the steps after the sources `a` and `b`; the last is called `step`.

    `tables` are the sources that are tables.
    """
    type = draw(st.sampled_from((*TYPES, "union")))
    at_once = type in RETRACTING_JOIN_TYPES and draw(st.booleans())
    is_left_table = draw(st.booleans())
    may_be_facts = at_once or not is_left_table or "b" in tables
    mine = draw(table("a", "mine", can_be_facts=may_be_facts, is_table="a" in tables))
    may_be_facts = at_once or is_left_table
    theirs = draw(table("b", "theirs", can_be_facts=may_be_facts, is_table="b" in tables))
    clauses = draw(st.sampled_from(lasts))
    last = f"  step: {{from: joined, {draw(st.sampled_from(clauses))}}}\n"
    if clauses is OF_CHANGES:
        sums = "key: s, aggregate: {n: sum(n), total: sum(total)}, having: n <> 0"
        last = f"{last.replace('step:', 'facts:')}  step: {{from: facts, {sums}}}\n"
    if type == "union":
        return f"{mine}{theirs}  joined: {{from: [mine, theirs], {ALONE}}}\n{last}"
    if type == "full" and "b" not in tables and BY_ROW in last:
        # A sink cannot write rows of both sides with null keys by the key of the join.
        theirs = theirs.replace("{from: b, ", "{from: b, where: k is not null, ")
        theirs = theirs.replace("where: k is not null, where: true", "where: k is not null")
    columns = ALONE if type in ("semi", "anti") else BOTH
    sides = "left: {from: mine, as: a}, right: {from: theirs, as: b}"
    # Rows of a join by keys have no times of their own, but may be given one.
    needs_time = clauses in (BY_TIME, BY_WINDOW, BY_LATE_WINDOW)
    is_timed = needs_time and draw(st.booleans())
    on = "a.x = b.x" if needs_time and not is_timed else draw(ON)
    if is_timed:
        at = "at" if columns is ALONE else "coalesce(a.at, b.at)"
        columns = f"{columns[:-1]}, at: '{at}'}}"
        last = last.replace("from: joined", "from: timed")
        last = f"  timed: {{from: joined, event_time: at}}\n{last}"
    emit = ", emit: at_once" if at_once else ""
    join = f"join: {{{sides}, on: '{on}', type: {type}{emit}}}"
    joined = f"  joined: {{{join}, {columns}}}\n"
    return f"{mine}{theirs}{joined}{last}"


@st.composite
def pipelines(draw: st.DrawFn, lasts: Sequence[Sequence[str]] = LASTS) -> str:
    """Return the text of a pipeline from `left` and `right` to `out`, all in memory."""
    sources, tables = "sources:\n", set[str]()
    for name, data in (("a", "left"), ("b", "right")):
        schema, more = SCHEMA, ""
        if kind := draw(st.sampled_from([None, None, *SOURCE_TABLES])):
            tables.add(name)
            schema = f"{SCHEMA[:-1]}, {CHANGE}: string}}"
            more = f", on_error: skip, {SOURCE_TABLES[kind]}"
        sources += f"  {name}: {{memory: {{data: {data}}}, schema: {schema}, TIME{more}}}\n"
    made = draw(steps(lasts, tables))
    # A row that is removed from a closed window is late, so windows close at the end.
    closes = "window:" in made and "lateness:" not in made
    delay = SPREAD_S + 1 if closes else SPREAD_S
    sources = sources.replace("TIME", f"event_time: at, watermark: {{delay: {delay}s}}")
    return f"{sources}steps:\n{made}sinks:\n  out: {{from: step, memory: {{data: out}}}}\n"


def add_changes(
    data: st.DataObject, text: str, rows: Sequence[dict[str, Any]], source: str
) -> None:
    """Draw what each row of a source changes, if the source is a table."""
    lines = (line for line in text.splitlines() if line.startswith(f"  {source}: {{memory"))
    if any("table: {" in line for line in lines):
        changes = data.draw(st.lists(CHANGES, min_size=len(rows), max_size=len(rows)))
        for row, change in zip(rows, changes, strict=True):
            row[CHANGE] = change
