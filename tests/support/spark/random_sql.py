"""Random queries as steps over streams, compared with Spark's result of the same text.

`python -m tests.support.spark.random_sql COUNT SEED` runs more of them.

`o` and `p` are facts, `c` is a table whose rows change; Spark has the rows that are there in the
end. The stream is run with batches of any size, and its output applied.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.plan import nodes
from tests.support.runtime.committed_output import ended, shown
from tests.support.runtime.memory_pipelines import (
    bounds_of,
    cut,
    job_of_plan,
    plan_of,
    run_simulated,
)
from tests.support.spark.session import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = {
    "o": {"id": "bigint", "k": "string", "v": "bigint"},
    "p": {"oid": "bigint", "w": "bigint", "tag": "string"},
    "c": {"k": "string", "city": "string", "n": "bigint"},
}
TYPES = {"bigint": pl.Int64, "string": pl.String}
AGGREGATES = ("count(*)", "count({n})", "sum({n})", "min({s})", "max({n})", "count(distinct {s})")


@dataclass(frozen=True, slots=True)
class Source:
    """What follows `from`, and the columns that may be named, of each type."""

    text: str
    numbers: tuple[str, ...]
    strings: tuple[str, ...]
    has_where: bool = False


class SqlDrawing:
    """Draws queries; all that is random comes from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._named = 0

    def query(self) -> str:
        """Return a query."""
        kind = self.random.choice(("rows", "rows", "groups", "groups", "distinct", "sets", "top"))
        text, _, _ = self._select(kind, depth=2)
        return text

    def _select(self, kind: str, depth: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Return a query with its columns that are numbers, and those that are strings."""
        if kind == "sets":
            return self._sets(depth)
        source = self._source(depth)
        if kind == "groups":
            return self._groups(source)
        items = [(f"n{at}", self._number(source)) for at in range(self.random.randint(1, 2))]
        items += [(f"s{at}", self._string(source)) for at in range(self.random.randint(1, 2))]
        listed = ", ".join(f"{text} as {name}" for name, text in items)
        names = tuple(name for name, _ in items)
        word = "select distinct" if kind == "distinct" else "select"
        text = f"{word} {listed} from {source.text}{self._where(source)}"
        if kind == "top":
            # All columns are in the order: which rows are first does not depend on the rest.
            order = ", ".join(f"{name}{self._direction()}" for name in names)
            offset = self.random.choice(("", " offset 2"))
            text = f"{text} order by {order} limit {self.random.choice((1, 3, 8))}{offset}"
        numbers = tuple(name for name in names if name.startswith("n"))
        return text, numbers, tuple(name for name in names if name.startswith("s"))

    def _direction(self) -> str:
        return self.random.choice(("", " desc", " nulls last", " desc nulls first"))

    def _groups(self, source: Source) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        key, call = self._string(source), self._aggregate(source)
        more = self._aggregate(source)
        self._named += 1
        name = f"k{self._named}"
        text = f"select {key} as {name}, {call} as n0, {more} as n1 from {source.text}"
        group = self.random.choice((name, "1", key, "all"))
        text = f"{text}{self._where(source)} group by {group}"
        if self.random.random() < 0.4:
            text = f"{text} having {self._count(source)} > {self.random.randint(0, 3)}"
        return text, ("n0", "n1"), (name,)

    def _sets(self, depth: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        word = self.random.choice(("union", "intersect", "except"))
        word += self.random.choice(("", " all"))
        sides = []
        for _ in range(2):
            source = self._source(depth - 1)
            items = f"{self._number(source)} as n0, {self._string(source)} as s0"
            sides.append(f"select {items} from {source.text}{self._where(source)}")
        return f" {word} ".join(sides), ("n0",), ("s0",)

    def _source(self, depth: int) -> Source:
        choice = self.random.random()
        if depth and choice < 0.25:
            kind = self.random.choice(("rows", "groups", "distinct", "sets"))
            text, numbers, strings = self._select(kind, depth - 1)
            self._named += 1
            name = f"t{self._named}"
            found = (tuple(f"{name}.{each}" for each in some) for some in (numbers, strings))
            return Source(f"({text}) as {name}", next(found), next(found))
        if choice < 0.5:
            return self._table(self.random.choice(tuple(TABLES)), self.random.choice("xyz"))
        return self._join()

    def _table(self, name: str, alias: str) -> Source:
        columns = TABLES[name]
        found = (
            tuple(f"{alias}.{column}" for column, type in columns.items() if type == wanted)
            for wanted in TYPES
        )
        return Source(f"{name} as {alias}", next(found), next(found))

    def _join(self) -> Source:
        pairs = (("o", "id", "p", "oid"), ("o", "k", "c", "k"), ("p", "tag", "c", "k"))
        left, one, right, other = self.random.choice(pairs)
        a, b = self._table(left, "a"), self._table(right, "b")
        if self.random.random() < 0.3:
            (a, left, one), (b, right, other) = (
                (self._table(right, "a"), right, other),
                (self._table(left, "b"), left, one),
            )
        both = Source("", (*a.numbers, *b.numbers), (*a.strings, *b.strings))
        on = f"a.{one} = b.{other}"
        if self.random.random() < 0.2:
            listed = f"{a.text}, {b.text} where {on} and {self._condition(both)}"
            return Source(listed, *_of(both), has_where=True)
        if self.random.random() < 0.3:
            on = f"{on} and {self._condition(both)}"
        kind = self.random.choice(
            ("join", "join", "left join", "right join", "full join", "left semi join", "anti join")
        )
        seen = a if "semi" in kind or "anti" in kind else both
        text = f"{a.text} {kind} {b.text} on {on}"
        if self.random.random() < 0.3 and seen is both:
            c = self._table("c", "d")
            text = f"{text} left join {c.text} on {self.random.choice(both.strings)} = d.k"
            both = Source("", (*both.numbers, *c.numbers), (*both.strings, *c.strings))
            seen = both
        return Source(text, *_of(seen))

    def _where(self, source: Source) -> str:
        word = " and " if source.has_where else " where "
        chance = self.random.random()
        if chance < 0.4:
            return f"{word}{self._condition(source)}"
        if chance < 0.55:
            value, table = self.random.choice(source.numbers), self._table("p", "i")
            inner = f"select i.w from p as i where {self._condition(table)}"
            return f"{word}{value} in ({inner})"
        if chance < 0.7:
            name = self.random.choice(("exists", "not exists"))
            of = self.random.choice(source.strings)
            return f"{word}{name} (select 1 from c as j where j.k = {of} and j.n > 1)"
        if chance < 0.85:
            value, table = self.random.choice(source.numbers), self._table("p", "i")
            call = self.random.choice(("max(i.w)", "min(i.w) + 1", "count(*)", "count(i.w)"))
            where = self._condition(table)
            if self.random.random() < 0.5:
                where = f"{where} and i.tag = {self.random.choice(source.strings)}"
            return f"{word}{value} < (select {call} from p as i where {where})"
        return ""

    def _condition(self, source: Source) -> str:
        return self.random.choice(
            (
                f"{self._number(source)} > {self.random.randint(0, 6)}",
                f"({self._string(source)} = 'b' or {self._number(source)} is null)",
                f"{self._string(source)} in ('a', 'b', 'u')",
                f"not ({self._number(source)} % 3 = 1)",
            )
        )

    def _number(self, source: Source) -> str:
        column = self.random.choice(source.numbers)
        return self.random.choice((column, column, f"{column} + 1", f"coalesce({column}, 7)"))

    def _string(self, source: Source) -> str:
        column = self.random.choice(source.strings)
        return self.random.choice((column, column, f"upper({column})", f"concat({column}, 'x')"))

    def _aggregate(self, source: Source) -> str:
        text = self.random.choice(AGGREGATES)
        return text.format(n=self._number(source), s=self._string(source))

    def _count(self, source: Source) -> str:
        return self.random.choice(("count(*)", f"count({self._number(source)})"))


def _of(source: Source) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return source.numbers, source.strings


def draw_rows(random: Random, name: str, count: int) -> pl.DataFrame:
    """Return rows of a table, with nulls, and with an event time that rises."""
    words = ("a", "b", "u", "v", None)
    data: dict[str, list[Any]] = {
        column: [
            random.choice((*range(8), None)) if type == "bigint" else random.choice(words)
            for _ in range(count)
        ]
        for column, type in TABLES[name].items()
    }
    if name == "c":
        data["k"] = [random.choice(words[:4]) for _ in range(count)]
    data["at"] = [BEGIN + timedelta(seconds=at) for at in range(count)]
    types = {column: TYPES[type] for column, type in TABLES[name].items()}
    return pl.DataFrame(data, schema={**types, "at": pl.Datetime("us", "UTC")})


def write_pipeline(sql: str) -> str:
    """Return the pipeline of a query."""
    sources = [
        f"  {'moves' if name == 'c' else name}: {{memory: {{data: {name}}}, schema: {{"
        + ", ".join(f"{column}: {type}" for column, type in columns.items())
        + ", at: timestamp}, event_time: at}"
        for name, columns in TABLES.items()
    ]
    steps = "  c: {from: moves, dedup: {key: k, keep: last, order: event_time}}"
    sinks = "".join(f"  x{n}: {{from: {n}, memory: {{data: x{n}}}}}\n" for n in TABLES)
    return (
        "sources:\n" + "\n".join(sources) + f"\nsteps:\n{steps}\n  q:\n    sql: >-\n      {sql}\n"
        f"sinks:\n  out: {{from: q, memory: {{data: out}}}}\n{sinks}"
    )


def run_stream(sql: str, rows: dict[str, pl.DataFrame], seed: int) -> Counter[tuple[Any, ...]]:
    """Return the final rows of a query as a step of a stream."""
    size = (2, 7, 100)[seed % 3]
    memory = InMemoryData({name: {"0": cut(frame, size)} for name, frame in rows.items()})
    with TemporaryDirectory() as folder:
        text = write_pipeline(sql)
        plan = plan_of(Path(folder), text, {"memory": memory.build_connector()})
        job = job_of_plan(Path(folder), plan, memory, KernelExecutor(), bounds_of(seed))
        run_simulated(job, seed)
    sink = plan.part("out")
    assert isinstance(sink, nodes.Sink)
    stream = plan.streams[sink.input]
    return ended(memory, stream.kind, plan.streams["q"].schema.names)


def run_spark(
    spark: SparkSession, sql: str, rows: dict[str, pl.DataFrame]
) -> Counter[tuple[Any, ...]]:
    """Return Spark's rows of a query over the rows that are there in the end."""
    for name, frame in rows.items():
        own = frame if name != "c" else frame.unique("k", keep="last", maintain_order=True)
        ddl = ", ".join(f"{column} {type}" for column, type in TABLES[name].items())
        spark.createDataFrame(own.drop("at").rows(), ddl).createOrReplaceTempView(name)
    return Counter(shown(row) for row in spark.sql(sql).collect())


def compare_queries(spark: SparkSession, seed: int, count: int) -> tuple[int, list[str]]:
    """Return how many rows were equal, and what differs."""
    total, wrong = 0, list[str]()
    for at in range(count):
        random = Random(f"{seed} {at}")
        rows = {name: draw_rows(random, name, 25) for name in TABLES}
        sql = SqlDrawing(random).query()
        try:
            found = run_stream(sql, rows, at)
            wanted = run_spark(spark, sql, rows)
        except Exception as error:
            wrong.append(f"{seed} {at}: {sql}\n    {type(error).__name__}: {error}"[:1500])
            continue
        total += wanted.total()
        if found != wanted:
            more, missing = found - wanted, wanted - found
            wrong.append(f"{seed} {at}: {sql}\n    more {more}\n    missing {missing}"[:1500])
    return total, wrong


def main() -> None:
    """Compare as many queries as the arguments say."""
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    with started() as spark:
        total, wrong = compare_queries(spark, seed, count)
    print(f"{count} queries, {total} equal rows, {len(wrong)} differ")
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
