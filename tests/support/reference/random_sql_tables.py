"""The tables of random queries: facts, or rows that are inserted, updated and deleted.

DuckDB computes the rows of the tables so far, and the results of queries over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import polars as pl

from headrace.core.types.change_columns import CHANGE
from tests.support.reference.random_sql import SqlDrawing, write_duckdb
from tests.support.reference.random_sql_values import TABLES, TIME
from tests.support.runtime.committed_output import Values, shown

Splits = list[list[dict[str, Any]]]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = {"o": "id", "p": "oid", "c": "k"}
WORDS = ("a", "b", "u", "v", "ab", None)
CHANGES = (None, None, "insert", "update_after", "update_before", "delete")
_POLARS_TYPES = {"bigint": pl.Int64, "string": pl.String}
_NEWEST = "qualify row_number() over (partition by {key} order by {order} desc) = 1"


@dataclass(frozen=True, slots=True)
class TableKind:
    """The source and the step of a table, and its rows in DuckDB's SQL over `arrived`."""

    source: str
    step: str
    rows: str


KINDS = {
    "facts": TableKind("", "", "select * from arrived"),
    "changes": TableKind(
        ", on_error: skip, table: {key: KEY, sequence: seq}",
        "",
        f"select * from (select * from arrived where KEY is not null "
        f"{_NEWEST.format(key='KEY', order='seq')}) "
        f"where coalesce({CHANGE}, '') not in ('delete', 'update_before')",
    ),
    "latest": TableKind(
        "",
        "dedup: {key: KEY, keep: last, order: event_time}, ",
        f"select * from arrived {_NEWEST.format(key='KEY', order='arrived.at')}",
    ),
    "totals": TableKind(
        "",
        "key: KEY, aggregate: {MAXIMA, copies: count(*)}, having: copies > 1, ",
        "select KEY, MAXIMA from arrived group by KEY having count(*) > 1",
    ),
}
WEIGHTS = {"facts": 3, "changes": 4, "latest": 1, "totals": 1}


@dataclass(frozen=True, slots=True)
class RandomTables:
    """The kind and the rows of each table, and queries over them."""

    kinds: Mapping[str, str]
    splits: Mapping[str, Splits]
    """By the name of the source."""
    queries: Sequence[str]

    @classmethod
    def draw(cls, random: Random, queries: int, rows: int = 25) -> RandomTables:
        """Draw tables, and that many queries over them."""
        kinds = dict(zip(TABLES, random.choices([*WEIGHTS], [*WEIGHTS.values()], k=3), strict=True))
        splits = {f"{name}_rows": draw_splits(random, name, rows) for name in TABLES}
        facts = [name for name, kind in kinds.items() if kind == "facts"]
        return cls(kinds, splits, [SqlDrawing(random, facts).query() for _ in range(queries)])

    def list_columns(self, name: str) -> dict[str, str]:
        """Return the types of the columns of a table."""
        time = {TIME: "timestamp"} if self.kinds[name] == "facts" else {}
        return {**TABLES[name], **time}

    def write_pipeline(
        self,
        settings: str = "",
        connect: Callable[[str], str] = "memory: {{data: {}}}".format,
        tables: Iterable[str] = tuple(TABLES),
    ) -> str:
        """Return the pipeline of the queries, with the steps `q0`, `q1` and so on.

        `connect` writes the connector of the source or sink of a name; `tables` are written too.
        """
        lines = [settings, "sources:"]
        for name, columns in TABLES.items():
            types = ", ".join(f"{column}: {type}" for column, type in columns.items())
            schema = f"schema: {{{types}, seq: bigint, at: timestamp, {CHANGE}: string}}"
            time = "event_time: at, watermark: {delay: 1h}"
            more = self._fill(name, KINDS[self.kinds[name]].source)
            source = connect(f"{name}_rows")
            lines.append(f"  {name}_rows: {{{source}, {schema}, {time}{more}}}")
        lines.append("steps:")
        for name in TABLES:
            clauses = self._fill(name, KINDS[self.kinds[name]].step)
            selected = ", ".join(self.list_columns(name))
            lines.append(f"  {name}: {{from: {name}_rows, {clauses}select: [{selected}]}}")
        for at, query in enumerate(self.queries):
            lines += [f"  q{at}:", "    sql: >-", f"      {query}"]
        lines.append("sinks:")
        for name in (*tables, *(f"q{at}" for at in range(len(self.queries)))):
            lines.append(f"  {name}_out: {{from: {name}, {connect(f'{name}_out')}}}")
        return "\n".join(lines) + "\n"

    def _fill(self, name: str, text: str) -> str:
        key = KEYS[name]
        others = [column for column in TABLES[name] if column != key]
        is_sql = text.startswith("select")
        maxima = (f"max({c}) as {c}" if is_sql else f"{c}: max({c})" for c in others)
        return text.replace("KEY", key).replace("MAXIMA", ", ".join(maxima))

    @contextmanager
    def open_database(
        self, splits: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]] | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a database with the tables after all their rows, or after some of them."""
        order = "nulls_first_on_asc_last_on_desc"
        with duckdb.connect(config={"threads": 1, "default_null_order": order}) as database:
            for name in TABLES:
                rows = [row for each in (splits or self.splits)[f"{name}_rows"] for row in each]
                frame = to_frame(name, rows).with_columns(pl.col(TIME).dt.replace_time_zone(None))
                database.register("arrived", frame.to_arrow())
                sql = self._fill(name, KINDS[self.kinds[name]].rows)
                columns = ", ".join(f'"{column}"' for column in self.list_columns(name))
                database.execute(f"create table {name} as select {columns} from ({sql})")
                database.unregister("arrived")
            yield database

    def find_query(self, stream: str) -> str:
        """Return the query of a step, or that of a table itself."""
        return f"select * from {stream}" if stream in TABLES else self.queries[int(stream[1:])]

    def run(
        self, database: duckdb.DuckDBPyConnection, query: str, names: Sequence[str] = ()
    ) -> Counter[Values]:
        """Return these columns of the rows of a query as DuckDB computes them."""
        listed = ", ".join(f'"{name}"' for name in names) or "*"
        sql = f"select {listed} from ({write_duckdb(query)}) as result"
        rows = database.execute(sql).fetchall()
        return Counter(shown(map(_in_utc, row)) for row in rows)


def _in_utc(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def draw_splits(random: Random, name: str, count: int) -> Splits:
    """Draw the rows of a source, with nulls, out of order, in some splits."""
    numbers, times = random.sample(range(1000), count), random.sample(range(1000), count)
    values: dict[str, Sequence[Any]] = {"bigint": (*range(8), None), "string": WORDS}
    rows = [
        {
            **{column: random.choice(values[type]) for column, type in TABLES[name].items()},
            "seq": numbers[at],
            "at": BEGIN + timedelta(seconds=times[at]),
            CHANGE: random.choice(CHANGES),
        }
        for at in range(count)
    ]
    size = random.choice((count, count // 2, count // 3 + 1))
    return [rows[at : at + size] for at in range(0, count, size)]


def to_frame(name: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows of a source as a frame."""
    types = {column: _POLARS_TYPES[type] for column, type in TABLES[name].items()}
    schema: dict[str, Any] = {
        **types,
        "seq": pl.Int64,
        "at": pl.Datetime("us", "UTC"),
        CHANGE: pl.String,
    }
    return pl.DataFrame([*rows], schema=schema, orient="row")
