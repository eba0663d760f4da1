"""Random queries over tables, several steps deep: any step may read any earlier ones.

Every stream has the columns `k`, `s`, `v` and `x`, so any clause fits any stream. No step waits for
watermarks: at each checkpoint the output is the query over the rows before it. The kind of a
stream is known here only as far as clauses depend on it.

Each step is also drawn as SQL for DuckDB. Its relation has the event time of a row as
`event_time`, where rows have one of their own. Expressions are the same in both dialects, except
for those of `DUCKDB`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from headrace.core.pipeline.clauses.join_rules import RETRACTING_JOIN_TYPES
from headrace.core.types.change_columns import CHANGE
from tests.support.reference.random_pipelines import SCHEMA, SPREAD_S
from tests.support.reference.random_table_expressions import (
    BOTH,
    CHANGES_READ,
    DUCKDB,
    EXPLODE,
    HAVING,
    KEYS,
    LAST_AGGREGATES,
    ON,
    RANKINGS,
    ROWS,
    SAME,
    SELECT,
    TIED_RANKINGS,
    WHERE,
)
from tests.support.reference.random_tables import SOURCE_TABLES, TYPES

COLUMNS = "select: [k, s, v, x]"
SUMS = (
    'key: s, aggregate: {k: sum(n), v: sum(total), x: "cast(sum(total) as double)"}, '
    f"having: k <> 0, {COLUMNS}"
)


def _to_yaml(columns: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}: "{text}"' for name, text in columns.items()) + "}"


def _to_sql(columns: Mapping[str, str]) -> str:
    return ", ".join(f'{DUCKDB.get(text, text)} as "{name}"' for name, text in columns.items())


@dataclass(frozen=True, slots=True)
class TableStream:
    """A stream that steps may read."""

    name: str
    is_append: bool = False
    has_own_times: bool = False
    """Whether a row has an event time that does not depend on when it was changed."""
    may_have_key: bool = True
    """Whether its changes may be upserts."""
    may_repeat_key: bool = False
    """Whether two of its rows may have the same key, one of nulls: no sink may write it by key."""


@dataclass(slots=True)
class TableSteps:
    """The steps of a pipeline as they are drawn, as YAML and as SQL."""

    draw: st.DrawFn
    streams: list[TableStream]
    prefix: str = ""
    """The prefix of the names of steps."""
    lines: list[str] = field(default_factory=list)
    views: dict[str, str] = field(default_factory=dict)
    """The SQL of each stream, in order."""
    read: set[str] = field(default_factory=set)

    def add(
        self,
        clauses: str,
        sql: str,
        *inputs: TableStream,
        is_append: bool = False,
        has_own_times: bool = False,
        may_have_key: bool = True,
        may_repeat_key: bool = False,
    ) -> None:
        """Add a step."""
        name = f"{self.prefix}t{len(self.lines)}"
        self.lines.append(f"  {name}: {{{clauses}}}\n")
        self.views[name] = sql
        self.read.update(each.name for each in inputs)
        self.streams.append(
            TableStream(name, is_append, has_own_times, may_have_key, may_repeat_key)
        )

    def replace_last(self, clauses: str, sql: str) -> None:
        """Add a step over the last stream, which nothing else reads; `sql` begins with `from`."""
        last = self.streams.pop()
        self.add(
            f"from: {last.name}, {clauses}",
            sql.replace("LAST", last.name),
            last,
            may_repeat_key=last.may_repeat_key,
        )

    def add_any(self) -> None:
        """Draw a step over earlier streams, rather over the last ones."""
        streams, draw = self.streams, self.draw
        stream = streams[-1 - min(draw(st.integers(0, len(streams) - 1)), draw(st.integers(0, 9)))]
        same = {
            "is_append": stream.is_append,
            "has_own_times": stream.has_own_times,
            "may_have_key": stream.may_have_key,
            "may_repeat_key": stream.may_repeat_key,
        }
        start, at = f"from: {stream.name}, ", ", event_time" if stream.has_own_times else ""
        match draw(st.sampled_from(KINDS)):
            case "where":
                where = draw(st.sampled_from(WHERE))
                sql = f"select * from {stream.name} where {where}"
                self.add(f'{start}where: "{where}"', sql, stream, **same)
            case "select":
                columns = draw(st.sampled_from(SELECT))
                sql = f"select {_to_sql(columns)}{at} from {stream.name}"
                self.add(f"{start}select: {_to_yaml(columns)}", sql, stream, **same)
            case "explode":
                array = draw(st.sampled_from(EXPLODE))
                columns = SAME | {"v": "one"}
                more = f'explode: {{one: "{array}"}}, select: {_to_yaml(columns)}'
                sql = f"select *, unnest({DUCKDB[array]}) as one from {stream.name}"
                sql = f"select {_to_sql(columns)}{at} from ({sql})"
                self.add(f"{start}{more}", sql, stream, **same)
            case "aggregate":
                self._add_aggregate(stream)
            case "top":
                self._add_top(stream)
            case "dedup" if stream.has_own_times and not stream.is_append:
                self._add_dedup(stream)
            case "changes" if not stream.is_append:
                renamed = SAME | {"w": "v"}
                sql = f"select {_to_sql(renamed)} from {stream.name}"
                repeats = stream.may_repeat_key
                self.add(f"{start}select: {_to_yaml(renamed)}", sql, stream, may_repeat_key=repeats)
                self.replace_last(draw(st.sampled_from(CHANGES_READ)), "select * from LAST")
                total = "sum(coalesce(w, 0))"
                sums = f"count(*) as k, s, {total} as v, cast({total} as double) as x"
                self.replace_last(SUMS, f"select {sums} from LAST group by s")
            case "union":
                self._add_union(stream)
            case _:
                self._add_join(stream, draw(st.sampled_from(streams)))

    def _add_aggregate(self, stream: TableStream) -> None:
        draw = self.draw
        key = draw(st.sampled_from(KEYS))
        rows = {n: draw(st.sampled_from(some)) for n, some in ROWS.items() if n not in key}
        having = draw(st.sampled_from(HAVING))
        emits_empty = not key and draw(st.booleans())
        clauses = [
            f"from: {stream.name}",
            *([f"key: {_to_yaml(key)}"] if key else []),
            f"aggregate: {_to_yaml(rows)}",
            *(["emit_empty: true"] if emits_empty else []),
            *([f'having: "{having}"'] if having else []),
            COLUMNS,
        ]
        sql = _aggregate_sql(stream.name, key, rows, emits_empty=emits_empty)
        sql = f"select k, s, v, x from ({sql}) where {having or 'true'}"
        self.add(", ".join(clauses), sql, stream)

    def _add_top(self, stream: TableStream) -> None:
        draw = self.draw
        key = draw(st.sampled_from(["k", "s, k", ""]))
        ties = draw(st.sampled_from(["row_number", "rank", "dense_rank"]))
        by = draw(st.sampled_from(RANKINGS if ties == "row_number" else TIED_RANKINGS))
        most = draw(st.integers(1, 3))
        counted = "" if ties == "row_number" else f", ties: {ties}"
        clauses = f"{f'key: [{key}], ' if key else ''}top: {{n: {most}, by: [{by}]{counted}}}"
        partition = f"partition by {key} " if key else ""
        order = ", ".join(_null_order(each) for each in by.split(", "))
        sql = f"select *, {ties}() over ({partition}order by {order}) as rank"
        sql = f"select * from ({sql} from {stream.name}) where rank <= {most}"
        may_have_key = stream.may_have_key and not (stream.is_append and counted)
        self.add(f"from: {stream.name}, {clauses}", sql, stream, may_have_key=may_have_key)
        columns = SAME | {"v": draw(st.sampled_from(["v", "cast(rank as bigint)"]))}
        self.replace_last(f"select: {_to_yaml(columns)}", f"select {_to_sql(columns)} from LAST")

    def _add_dedup(self, stream: TableStream) -> None:
        key, latest = self.draw(st.sampled_from(["k", "k, s", "v"])), self.draw(st.booleans())
        keep = "keep: last, " if latest else ""
        clauses = f"dedup: {{key: [{key}], {keep}order: event_time}}"
        values = ", ".join(f"{name} asc nulls first" for name in SAME)
        order = f"partition by {key} order by event_time {'desc' if latest else 'asc'}, {values}"
        sql = f"select * from {stream.name} qualify row_number() over ({order}) = 1"
        self.add(f"from: {stream.name}, {clauses}", sql, stream, has_own_times=True)

    def _add_union(self, stream: TableStream) -> None:
        others = self.draw(st.lists(st.sampled_from(self.streams), min_size=1, max_size=2))
        inputs = [*dict.fromkeys([stream, *others])]
        timed = all(each.has_own_times for each in inputs)
        columns = f"k, s, v, x{', event_time' if timed else ''}"
        self.add(
            f"from: [{', '.join(each.name for each in inputs)}], {COLUMNS}",
            " union all ".join(f"select {columns} from {each.name}" for each in inputs),
            *inputs,
            is_append=all(each.is_append for each in inputs),
            has_own_times=timed,
            may_have_key=False,
        )

    def _add_join(self, left: TableStream, right: TableStream) -> None:
        draw = self.draw
        type = draw(st.sampled_from(TYPES))
        are_append = left.is_append and right.is_append
        if are_append and type not in RETRACTING_JOIN_TYPES:
            type = draw(st.sampled_from(sorted(RETRACTING_JOIN_TYPES)))
        may_have_key = left.may_have_key and right.may_have_key
        is_full = type == "full" and may_have_key
        may_repeat_key = is_full or left.may_repeat_key or right.may_repeat_key
        if is_full and draw(st.booleans()):
            may_repeat_key = left.may_repeat_key or right.may_repeat_key
            known = " and ".join(f"{name} is not null" for name in SAME)
            sql = f"select * from {right.name} where {known}"
            self.add(f'from: {right.name}, where: "{known}"', sql, right)
            right = self.streams.pop()
        columns = draw(st.sampled_from(BOTH))
        one_sided = type in ("semi", "anti")
        sides = f"left: {{from: {left.name}, as: a}}, right: {{from: {right.name}, as: b}}"
        at_once = ", emit: at_once" if are_append else ""
        on = draw(st.sampled_from(ON))
        join = f'join: {{{sides}, on: "{on}", type: {type}{at_once}}}'
        tables = f"{left.name} as a {type} join {right.name} as b on {on}"
        if one_sided:
            there = f"exists (select 1 from {right.name} as b where {on})"
            tables = f"{left.name} as a where {'not ' if type == 'anti' else ''}{there}"
        self.add(
            f"{join}, select: {_to_yaml(SAME if one_sided else columns)}",
            f"select {_to_sql(SAME if one_sided else columns)} from {tables}",
            left,
            right,
            may_have_key=may_have_key,
            may_repeat_key=may_repeat_key,
        )

    def add_last_aggregate(self) -> None:
        """Draw an aggregate with any functions; nothing reads it."""
        draw, stream = self.draw, self.streams[-1]
        some = st.sampled_from([*LAST_AGGREGATES])
        names = st.lists(some, min_size=1, max_size=6, unique=True)
        rows = {name: LAST_AGGREGATES[name] for name in draw(names)}
        key = draw(st.sampled_from([{}, {"k": "k"}, {"s": "s"}, {"d": "v % 2"}]))
        keyed = f"key: {_to_yaml(key)}, " if key else ""
        emits_empty = not key and draw(st.booleans())
        empty = ", emit_empty: true" if emits_empty else ""
        clauses = f"from: {stream.name}, {keyed}aggregate: {_to_yaml(rows)}{empty}"
        self.add(clauses, _aggregate_sql(stream.name, key, rows, emits_empty=emits_empty), stream)

    def add_closing_aggregates(self) -> None:
        """Aggregate the streams that no step reads, if a sink cannot write them by their key."""
        for each in [each for each in self.streams if each.name not in self.read]:
            if each.may_repeat_key:
                rows = {"n": "count(*)", "v": "sum(v)"}
                clauses = f"from: {each.name}, key: {{s: s}}, aggregate: {_to_yaml(rows)}"
                sql = _aggregate_sql(each.name, {"s": "s"}, rows, emits_empty=False)
                self.add(clauses, sql, each)

    @property
    def ends(self) -> list[str]:
        """The streams that no step reads, and the last one."""
        unread = (each.name for each in self.streams if each.name not in self.read)
        return [*dict.fromkeys([*unread, self.streams[-1].name])]


def _aggregate_sql(
    stream: str, key: Mapping[str, str], rows: Mapping[str, str], *, emits_empty: bool
) -> str:
    """Return the query of an aggregate; a group without rows is none, unless it is emitted."""
    by = ", ".join(str(at) for at in range(1, len(key) + 1))
    grouped = f"group by {by} " if key else ""
    having = "" if emits_empty else "having count(*) > 0"
    return f"select {_to_sql({**key, **rows})} from {stream} {grouped}{having}"


def _null_order(ranking: str) -> str:
    """Return a ranking with the order of nulls said: they are the least values by default."""
    if "nulls" in ranking:
        return ranking
    return f"{ranking} nulls {'last' if 'desc' in ranking else 'first'}"


KINDS = (
    *("where", "select", "explode", "aggregate", "aggregate", "aggregate", "top", "dedup"),
    *("changes", "union", "join", "join", "join", "join"),
)


@st.composite
def steps(
    draw: st.DrawFn, tables: Collection[str], *, prefix: str = "", most: int = 6
) -> TableSteps:
    """Draw the steps after `a_rows` and `b_rows`; `tables`: which of `a` and `b` are tables."""
    names = {name: f"{prefix}{name}_rows" for name in "ab"}
    drawn = TableSteps(
        draw, [TableStream(rows, name not in tables, True) for name, rows in names.items()], prefix
    )
    for name, rows in names.items():
        drawn.views[rows] = f"select k, s, v, x, event_time from {name}"
    for _ in range(draw(st.integers(1, most))):
        drawn.add_any()
    if draw(st.booleans()):
        drawn.add_last_aggregate()
    drawn.add_closing_aggregates()
    return drawn


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A pipeline from `left` and `right`, whose sinks are called as their streams, and its SQL."""

    text: str
    tables: Mapping[str, str]
    """The clause `table` of sources that are tables."""
    views: Mapping[str, str]
    """The SQL of each stream, in order, over the relations `a` and `b`."""
    ends: tuple[str, ...]


@st.composite
def queries(draw: st.DrawFn) -> TableQuery:
    """Draw a pipeline and its SQL."""
    text, tables = "sources:\n", dict[str, str]()
    first = ""
    for name, data in (("a", "left"), ("b", "right")):
        kind = draw(st.sampled_from([None, *SOURCE_TABLES, *SOURCE_TABLES]))
        schema, more = SCHEMA, ""
        if kind is not None:
            tables[name] = SOURCE_TABLES[kind]
            schema = f"{SCHEMA[:-1]}, {CHANGE}: string}}"
            more = f", on_error: skip, {tables[name]}"
        time = f"event_time: at, watermark: {{delay: {SPREAD_S}s}}"
        text += f"  {name}: {{memory: {{data: {data}}}, schema: {schema}, {time}{more}}}\n"
        first += f"  {name}_rows: {{from: {name}, {COLUMNS}}}\n"
    made = draw(steps(tables))
    sinks = "".join(f"  {n}_out: {{from: {n}, memory: {{data: {n}_out}}}}\n" for n in made.ends)
    text = f"{text}steps:\n{first}{''.join(made.lines)}sinks:\n{sinks}"
    return TableQuery(text, tables, made.views, tuple(made.ends))


def pipelines() -> st.SearchStrategy[str]:
    """Draw the text of a pipeline from `left` and `right`."""
    return queries().map(lambda query: query.text)
