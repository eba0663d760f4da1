"""Random queries over tables, several steps deep: any step may read any earlier ones.

Every stream has the columns `k`, `s`, `v` and `x`, so any clause fits any stream. No step waits for
watermarks: at each checkpoint the output is the query over the rows before it. The kind of a
stream is known here only as far as clauses depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from headrace.core.pipeline.clauses.join_rules import RETRACTING_JOIN_TYPES
from headrace.core.types.change_columns import CHANGE
from tests.support.reference.random_pipelines import SCHEMA, SPREAD_S
from tests.support.reference.random_tables import CODE, RETURNS, SOURCE_TABLES, TYPES

WHERE = ("v > 0", "v is not null", "s is null or x > 0", "k is null or v % 2 = 0", "k <> 2")
SELECT = (
    "k: v, s: s, v: k, x: x",
    "k: v % 2, s: s, v: v, x: x",
    "k: k, s: s, v: 'coalesce(v, 0) + 1', x: x",
    "k: k, s: 'upper(s)', v: v, x: 'if(isnan(x), null, x * -1)'",
    "k: 1, s: s, v: v, x: 'cast(k as double)'",
)
"""Columns of projections: some drop a key, some only change other columns."""
EXPLODE = ("'array(v, k)'", "'case when v > 0 then array(v, 1, v) end'", "'array(k)'")
KEYS = ("k", "s", "[k, s]", "{k: v}", "{k: v % 2}", "{k: k % 2, s: s}", "{x: x}", "")
ROWS = {
    "k": ("max(k)", "count(*)", "min(v)"),
    "s": ("min(s)", "max(s)", "'min(s) filter (where v > 0)'"),
    "v": (
        *("sum(v)", "count(*)", "count(v)", "'count(distinct s)'", "min(v)", "max(v)"),
        *("bit_xor(v)", "'sum(distinct v)'", "cast(median(v) as bigint)"),
    ),
    "x": ("max(x)", "min(x)", "avg(v)", "'avg(v) filter (where k > 0)'", "median(v)"),
}
"""Aggregates by their output column."""
HAVING = ("", "", "v > 0", "k is not null", "x <> 1")
RANKINGS = ("v desc, s, x, k", "k, v, s, x", "x desc nulls last, v, k, s", "s, k desc, v, x")
"""Orders in which only equal rows are equal."""
ON = (
    *("a.k = b.k", "a.k = b.k", "a.v = b.k", "a.v = b.v", "a.s = b.s", "a.x = b.x"),
    *("a.k = b.k and a.s = b.s", "a.k = b.k and a.v < b.v", "a.s = b.s and a.k <> b.k"),
    *("a.v = b.v and (a.s is null or b.x > 0)", "a.v % 2 = b.v % 2 and a.k = b.k"),
)
BOTH = (
    "k: a.k, s: b.s, v: b.v, x: a.x",
    "k: b.k, s: a.s, v: a.v, x: b.x",
    "k: a.k, s: 'coalesce(a.s, b.s)', v: a.v + b.v, x: b.x",
    "k: b.v, s: b.s, v: a.v, x: a.x",
)
LAST_AGGREGATES = (
    *("n: count(*)", "c: count(v)", "total: sum(v)", "mean: avg(v)", "least: min(s)"),
    *("most: max(x)", "kinds: count(distinct s)", "some: count(*) filter (where v > 0)"),
    *("both: sum(v) + count(*)", "bits: bit_xor(v)", "sums: try_sum(distinct v)"),
    *("middle: median(v)", "weighed: 'percentile(v, 0.3)'", "all: 'array_sort(collect_list(v))'"),
    *("set: 'array_sort(collect_set(s))'", "about: approx_count_distinct(v)"),
    *("shares: 'percentile_approx(v, array(0.1, 0.9))'", "any: bool_or(v > 2)"),
    *("sorted: \"listagg(s, '-') within group (order by s)\"", "spread: 'round(stddev(v), 6)'"),
    *("every: bool_and(v > 2)", "least_two: 'slice(array_sort(collect_list(k)), 1, 2)'"),
)
CHANGES_READ = (
    f"map: {{python: '{CODE}:signed', mode: row, {RETURNS}}}",
    f"map: {{python: '{CODE}:signed_batch', {RETURNS}}}",
    f"key: s, process: {{python: '{CODE}:Signed', order: arrival, {RETURNS}}}",
)
COLUMNS = "select: [k, s, v, x]"
RENAMED = "select: {k: k, s: s, v: v, x: x, w: v}"
"""The columns that the code above reads."""
SUMS = (
    "key: s, aggregate: {k: sum(n), v: sum(total), x: 'cast(sum(total) as double)'}, "
    f"having: k <> 0, {COLUMNS}"
)


@dataclass(frozen=True, slots=True)
class _Stream:
    name: str
    is_append: bool = False
    has_own_times: bool = False
    """Whether a row has an event time that does not depend on when it was changed."""


@dataclass(slots=True)
class TableSteps:
    """The steps of a pipeline as they are drawn."""

    draw: st.DrawFn
    streams: list[_Stream]
    lines: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def add(
        self, clauses: str, *inputs: _Stream, is_append: bool = False, has_own_times: bool = False
    ) -> None:
        """Add a step."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"  {name}: {{{clauses}}}\n")
        self.read.update(each.name for each in inputs)
        self.streams.append(_Stream(name, is_append, has_own_times))

    def replace_last(self, clauses: str) -> None:
        """Add a step over the last stream, which nothing else reads."""
        last = self.streams.pop()
        self.add(f"from: {last.name}, {clauses}", last)

    def add_any(self) -> None:
        """Draw a step over earlier streams, rather over the last ones."""
        streams, draw = self.streams, self.draw
        stream = streams[-1 - min(draw(st.integers(0, len(streams) - 1)), draw(st.integers(0, 9)))]
        same = {"is_append": stream.is_append, "has_own_times": stream.has_own_times}
        start = f"from: {stream.name}, "
        match draw(st.sampled_from(KINDS)):
            case "where":
                self.add(f"{start}where: '{draw(st.sampled_from(WHERE))}'", stream, **same)
            case "select":
                columns = draw(st.sampled_from(SELECT))
                self.add(f"{start}select: {{{columns}}}", stream, **same)
            case "explode":
                array = draw(st.sampled_from(EXPLODE))
                more = f"explode: {{one: {array}}}, select: {{k: k, s: s, v: one, x: x}}"
                self.add(f"{start}{more}", stream, **same)
            case "aggregate":
                self.add(f"{start}{self._draw_aggregate()}", stream)
            case "top":
                key = draw(st.sampled_from(["key: k, ", "key: [s, k], ", ""]))
                by = draw(st.sampled_from(RANKINGS))
                self.add(f"{start}{key}top: {{n: {draw(st.integers(1, 3))}, by: [{by}]}}", stream)
                v = draw(st.sampled_from(["v", "cast(rank as bigint)"]))
                self.replace_last(f"select: {{k: k, s: s, v: {v}, x: x}}")
            case "dedup" if stream.has_own_times and not stream.is_append:
                key, keep = draw(st.sampled_from(["k", "[k, s]", "v"])), draw(st.booleans())
                keep_last = "keep: last, " if keep else ""
                dedup = f"dedup: {{key: {key}, {keep_last}order: event_time}}"
                self.add(f"{start}{dedup}", stream, has_own_times=True)
            case "changes" if not stream.is_append:
                self.add(f"{start}{RENAMED}", stream)
                self.replace_last(draw(st.sampled_from(CHANGES_READ)))
                self.replace_last(SUMS)
            case "union":
                others = draw(st.lists(st.sampled_from(streams), min_size=1, max_size=2))
                inputs = [*dict.fromkeys([stream, *others])]
                names = ", ".join(each.name for each in inputs)
                is_append = all(each.is_append for each in inputs)
                timed = all(each.has_own_times for each in inputs)
                self.add(
                    f"from: [{names}], {COLUMNS}",
                    *inputs,
                    is_append=is_append,
                    has_own_times=timed,
                )
            case _:
                self._add_join(stream, draw(st.sampled_from(streams)))

    def _draw_aggregate(self) -> str:
        draw = self.draw
        key = draw(st.sampled_from(KEYS))
        there = {name for name in "ksx" if f"{name}:" in key or name in key.split(": ")[0]}
        aggregates = {n: draw(st.sampled_from(ROWS[n])) for n in ROWS if n not in there}
        shown = ", ".join(f"{name}: {text}" for name, text in aggregates.items())
        having = draw(st.sampled_from(HAVING))
        more = f", having: '{having}'" if having else ""
        return f"{f'key: {key}, ' if key else ''}aggregate: {{{shown}}}{more}, {COLUMNS}"

    def _add_join(self, left: _Stream, right: _Stream) -> None:
        draw = self.draw
        type = draw(st.sampled_from(TYPES))
        are_append = left.is_append and right.is_append
        if are_append and type not in RETRACTING_JOIN_TYPES:
            type = draw(st.sampled_from(sorted(RETRACTING_JOIN_TYPES)))
        columns = draw(st.sampled_from(BOTH))
        if type in ("semi", "anti"):
            columns = "k: k, s: s, v: v, x: x"
        sides = f"left: {{from: {left.name}, as: a}}, right: {{from: {right.name}, as: b}}"
        at_once = ", emit: at_once" if are_append else ""
        on = draw(st.sampled_from(ON))
        join = f"join: {{{sides}, on: '{on}', type: {type}{at_once}}}"
        self.add(f"{join}, select: {{{columns}}}", left, right)

    def add_last_aggregate(self) -> None:
        """Draw an aggregate with any functions; nothing reads it."""
        draw, stream = self.draw, self.streams[-1]
        some = draw(
            st.lists(st.sampled_from(LAST_AGGREGATES), min_size=1, max_size=6, unique=True)
        )
        key = draw(st.sampled_from(["", "key: k, ", "key: s, ", "key: {d: v % 2}, "]))
        aggregate = f"aggregate: {{{', '.join(some)}}}"
        self.add(f"from: {stream.name}, {key}{aggregate}", stream)


KINDS = (
    *("where", "select", "explode", "aggregate", "aggregate", "aggregate", "top", "dedup"),
    *("changes", "union", "join", "join", "join", "join"),
)


@st.composite
def pipelines(draw: st.DrawFn) -> str:
    """Return the text of a pipeline from `left` and `right`; sinks are called as their streams."""
    text, streams = "sources:\n", list[_Stream]()
    first = ""
    for name, data in (("a", "left"), ("b", "right")):
        kind = draw(st.sampled_from([None, *SOURCE_TABLES, *SOURCE_TABLES]))
        schema, more = SCHEMA, ""
        if kind is not None:
            schema = f"{SCHEMA[:-1]}, {CHANGE}: string}}"
            more = f", on_error: skip, {SOURCE_TABLES[kind]}"
        time = f"event_time: at, watermark: {{delay: {SPREAD_S}s}}"
        text += f"  {name}: {{memory: {{data: {data}}}, schema: {schema}, {time}{more}}}\n"
        first += f"  {name}_rows: {{from: {name}, select: [k, s, v, x]}}\n"
        streams.append(_Stream(f"{name}_rows", is_append=kind is None, has_own_times=True))
    steps = TableSteps(draw, streams)
    for _ in range(draw(st.integers(1, 6))):
        steps.add_any()
    if draw(st.booleans()):
        steps.add_last_aggregate()
    names = [each.name for each in steps.streams if each.name not in steps.read]
    names = [*dict.fromkeys([*names, f"t{len(steps.lines) - 1}"])]
    sinks = "".join(f"  {n}_out: {{from: {n}, memory: {{data: {n}_out}}}}\n" for n in names)
    return f"{text}steps:\n{first}{''.join(steps.lines)}sinks:\n{sinks}"
