"""Random queries over state, compared with Spark.

`python -m tests.support.spark.random_queries COUNT SEED` runs more of them.

Each query is run by Spark as SQL over the rows of random expressions, and by headrace as
`state query` runs it. Its expressions are random ones that Spark computes in one way; those that
`core/spark/expressions` has Spark run in another form are run in that form.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import polars as pl

from headrace.core.errors.value_errors import ValueTooLarge
from headrace.core.queries import parse_query, run_query, type_query
from headrace.core.spark.expressions import translate_expression
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    Type,
)
from tests.support.spark.expression_generator import Drawing, type_or_none
from tests.support.spark.random_expressions import NUMBER, Oracle, plain_values
from tests.support.spark.random_rows import MONEY, SCHEMA
from tests.support.spark.session import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = Schema((Field(NUMBER, INT), *SCHEMA))
NOW_US = 1_700_000_000_000_000
_SINGLE = (BOOLEAN, INT, BIGINT, DOUBLE, MONEY, STRING, DATE, TIMESTAMP)
_AGGREGATES = (
    "count(*)", "count({})", "count(distinct {})", "min({})", "max({})",
    "count(*) filter (where {} is not null)", "max(if({} is null, 1, 0)) + 1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RandomQuery:
    """A query as a user writes it, the same for Spark, and whether its rows have an order."""

    text: str
    spark: str
    is_ordered: bool


class QueryDrawing:
    """Draws queries; all that is random comes from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.drawing = Drawing(random)

    def query(self) -> RandomQuery:
        """A query of rows, of distinct rows, or of groups."""
        return self.random.choice((self._rows, self._rows, self._distinct, self._groups))()

    def _rows(self) -> RandomQuery:
        columns = [self._column() for _ in range(6)]
        by = self._pair(self.random.choice(_SINGLE))
        how = self.random.choice(("", " desc", " nulls last", " desc nulls first"))
        tail = f"{how}, t.{NUMBER} limit {self.random.choice((5, 48, 100))} offset 2"
        return self._build(
            columns,
            ("from t{where}", self._condition()),
            (f"order by {{}}{tail}", by),
            is_ordered=True,
        )

    def _distinct(self) -> RandomQuery:
        columns = [self._pair(self.random.choice(_SINGLE)) for _ in range(2)]
        return self._build(columns, ("from t{where}", self._condition()), word="distinct ")

    def _groups(self) -> RandomQuery:
        key = self._pair(self.random.choice(_SINGLE))
        columns = [key]
        for form in self.random.sample(_AGGREGATES, 4):
            text, said = self._pair(self.random.choice(_SINGLE))
            columns.append((form.format(text), form.format(said)))
        having = self.random.choice(("", " having count(*) > 1", " having c1 is not null"))
        by = self.random.choice(("1", "{}", "c0")) + having
        return self._build(columns, ("from t{where}", self._condition()), (f"group by {by}", key))

    def _build(
        self,
        columns: list[tuple[str, str]],
        *clauses: tuple[str, tuple[str, str]],
        word: str = "",
        is_ordered: bool = False,
    ) -> RandomQuery:
        texts = []
        for side in (0, 1):
            items = ", ".join(f"{each[side]} as c{at}" for at, each in enumerate(columns))
            rest = " ".join(
                form.replace("{where}", pair[side]).replace("{}", pair[side])
                for form, pair in clauses
            )
            texts.append(f"select {word}{items} {rest}")
        return RandomQuery(texts[0], texts[1], is_ordered)

    def _condition(self) -> tuple[str, str]:
        if self.random.random() < 0.5:
            return "", ""
        text, said = self._pair(BOOLEAN)
        return f" where {text}", f" where {said}"

    def _column(self) -> tuple[str, str]:
        while True:
            text, typed = self.drawing.column(3)
            if said := translate_expression(text, typed):
                return text, said

    def _pair(self, type: Type) -> tuple[str, str]:
        """An expression of that type, and the same for Spark."""
        while True:
            text = self.drawing.expression(type, 2)
            typed = type_or_none(text)
            said = typed and typed.type == type and translate_expression(text, typed)
            # A number alone would be a position, and a text without columns is no key.
            if said and typed and not text.lstrip("-").isdigit():
                return text, said


def compare_queries(spark: SparkSession, seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Draw this number of queries, and return the numbers of values compared, and differences."""
    random, counts, wrong = Random(seed), Counter[str](), list[str]()
    oracle, drawing = Oracle(spark, random), QueryDrawing(random)
    oracle.rows.createOrReplaceTempView("t")
    for _ in range(count):
        query = drawing.query()
        try:
            ours = run_query(type_query(parse_query(query.text), TABLE), oracle.frame, NOW_US)
        except ValueTooLarge:
            counts["limited"] += 1
            continue
        except Exception as error:
            wrong.append(f"{query.text}: ours fails: {error}")
            continue
        wrong += _compare(query, ours, spark)
        counts.update(queries=1, values=ours.height * ours.width)
    oracle.rows.unpersist()
    return counts, wrong


def _compare(query: RandomQuery, ours: pl.DataFrame, spark: SparkSession) -> Iterator[str]:
    from pyspark.errors import PySparkException

    try:
        theirs = pl.from_arrow(spark.sql(query.spark).toArrow())
    except PySparkException as error:
        yield f"{query.text}: spark fails: {str(error)[:300]}"
        return
    assert isinstance(theirs, pl.DataFrame)
    rows, wanted = _plain_rows(ours), _plain_rows(theirs)
    if not query.is_ordered:
        rows, wanted = sorted(rows), sorted(wanted)
    if rows != wanted:
        differ = [(a, b) for a, b in zip(rows, wanted, strict=False) if a != b]
        shown = "".join(f"\n    {a}\n    spark {b}" for a, b in differ[:2])
        yield f"{query.text}: {len(rows)} rows, spark {len(wanted)}{shown}"


def _plain_rows(frame: pl.DataFrame) -> list[str]:
    return [repr(row) for row in zip(*map(plain_values, frame.get_columns()), strict=True)]


def main(count: int, seed: int) -> None:
    """Compare this number of queries, and print the result."""
    with started() as spark:
        for turn in range(0, count, 100):
            counts, wrong = compare_queries(spark, seed + turn, min(100, count - turn))
            for text in wrong:
                print("-", text)
            print(f"seed {seed + turn}: {dict(counts)}, {len(wrong)} wrong", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
