"""Random expressions compared with Spark.

`python -m tests.support.spark.random_expressions COUNT SEED` runs more of them.

What counts is that batch and stream agree: each expression is computed by Polars as a stream does
it, and by Spark as `core/spark/expressions` has it run; where that leaves it to our operators there
is nothing to compare. Hundreds go into one job. Polars computes each over all rows at once, and
again over batches of them, one without rows and one of a single row.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from headrace.core.expressions import TypedExpression, to_expr
from headrace.core.expressions.typed import PROCESSING_TIME
from headrace.core.spark.columns import format_ddl
from headrace.core.spark.expressions import translate_expression, try_analysis, types_match
from headrace.core.types.data_types import INT, to_polars
from tests.support.spark.expression_generator import Drawing
from tests.support.spark.random_rows import COLUMNS, frame
from tests.support.spark.session import started

if TYPE_CHECKING:
    from polars._typing import PolarsDataType
    from pyspark.sql import DataFrame, SparkSession

AT_ONCE = 160
"""The number of expressions in a job: more make Java's compiler slow."""
ROWS = 48
CUTS = (0, 0, 1, 7, ROWS)
"""Where the rows are cut into batches."""
NUMBER = "__i"

Native: TypeAlias = tuple[str, str, TypedExpression]
"""The user's text, the text that Spark runs, and its typed expression."""


@dataclass(slots=True)
class Found:
    """The number of expressions by outcome, and the differences."""

    native: int = 0
    ours: int = 0
    limited: int = 0
    """Expressions with a value above max_value."""
    untaken: list[str] = field(default_factory=list)
    """Expressions that Spark rejects or types differently, which headrace's operators run."""
    wrong: list[str] = field(default_factory=list)


class Oracle:
    """Spark, and the rows over which it computes."""

    def __init__(self, spark: SparkSession, random: Random) -> None:
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self.frame = frame(random, ROWS).with_row_index(NUMBER).cast({NUMBER: pl.Int32})
        # From memory, so that it is Spark's compiled code that runs.
        types = format_ddl({NUMBER: INT, **COLUMNS})
        self.rows = spark.createDataFrame(self.frame.to_arrow(), types).coalesce(1).persist()

    def hold(self, expressions: Sequence[tuple[str, TypedExpression]], found: Found) -> None:
        """Compare these, all at once."""
        native: list[Native] = []
        for text, typed in expressions:
            said = translate_expression(text, typed)
            if said is not None:
                native.append((text, said, typed))
                continue
            found.ours += 1
            self._ours(text, typed, found)
        if not self._takes(native):
            untaken = [each for each in native if not self._takes([each])]
            found.untaken += [f"{text}: {self._why(said, typed)}" for text, said, typed in untaken]
            native = [each for each in native if each not in untaken]
        found.native += len(native)
        for text, typed, theirs in self._theirs(native):
            ours = self._ours(text, typed, found)
            if ours is not None:
                found.wrong.extend(_different(text, ours, theirs))

    def _takes(self, native: Sequence[Native]) -> bool:
        columns = try_analysis(lambda: self._selected([said for _, said, _ in native]))
        types = {f"c{i}": typed.type for i, (_, _, typed) in enumerate(native)}
        return columns is not None and types_match(columns.drop(NUMBER), types)

    def _why(self, said: str, typed: TypedExpression) -> str:
        from pyspark.errors import PySparkException

        try:
            theirs = self._selected([said]).schema.fields[1].dataType.simpleString()
        except PySparkException as error:
            return str(error).split("SQLSTATE")[0][:200]
        return f"{typed.type}, spark {theirs}"

    def _selected(self, texts: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as f

        return self.rows.select(NUMBER, *(f.expr(t).alias(f"c{i}") for i, t in enumerate(texts)))

    def _theirs(
        self, native: Sequence[Native]
    ) -> Iterator[tuple[str, TypedExpression, pl.Series | str]]:
        """Return Spark's value for each, or why it fails, found by bisection."""
        if not native:
            return
        try:
            answer = pl.from_arrow(self._selected([said for _, said, _ in native]).toArrow())
        except Exception as error:
            if len(native) == 1:
                ((text, _, typed),) = native
                yield text, typed, str(error).split("SQLSTATE")[0].strip()[:200]
                return
            half = len(native) // 2
            yield from self._theirs(native[:half])
            yield from self._theirs(native[half:])
            return
        assert isinstance(answer, pl.DataFrame)
        columns = answer.sort(NUMBER).drop(NUMBER).get_columns()
        for (text, _, typed), column in zip(native, columns, strict=True):
            yield text, typed, column

    def _ours(self, text: str, typed: TypedExpression, found: Found) -> pl.Series | None:
        now = pl.lit(1_700_000_000_000_000, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
        rows = self.frame.with_columns(now.alias(PROCESSING_TIME))
        column = to_expr(typed).alias("__r")
        try:
            result = rows.with_columns(column)["__r"]
            batches = [
                rows[start:stop].with_columns(column)["__r"] for start, stop in pairwise(CUTS)
            ]
        except Exception as error:
            if "more than max_value" in str(error):
                found.limited += 1
            else:
                found.wrong.append(f"{text}: ours fails: {str(error)[:200]}")
            return None
        types = {each.dtype for each in (result, *batches)}
        if types != {to_polars(typed.type)}:
            found.wrong.append(f"{text}: typed {typed.type}, computed {types}")
        else:
            found.wrong.extend(_different(text, result, pl.concat(batches).rechunk(), "in batches"))
        return result


def _different(
    text: str, ours: pl.Series, theirs: pl.Series | str, of: str = "spark"
) -> Iterator[str]:
    if isinstance(theirs, str):
        yield f"{text}: spark fails: {theirs}"
        return
    pairs = zip(plain_values(ours), plain_values(theirs), strict=True)
    rows = [(i, a, b) for i, (a, b) in enumerate(pairs) if repr(a) != repr(b)]
    if rows:
        shown = "".join(f"\n    row {i}: {a!r}, {of} {b!r}" for i, a, b in rows[:3])
        yield f"{text}: {len(rows)} rows{shown}"


def plain_values(column: pl.Series) -> list[Any]:
    """Values whose `repr` tells all there is: numbers for times, bytes for text, doubles by their
    shortest digits, so that zeros have their signs and NaN is NaN."""
    return column.cast(_physical(column.dtype)).to_list()


def _physical(type: PolarsDataType) -> PolarsDataType:
    match type:
        case pl.Date():
            return pl.Int32()
        case pl.Time():
            return pl.Int64()
        case pl.Datetime():
            return pl.Int64()
        case pl.String():
            return pl.Binary()  # Spark's may hold what is no UTF-8
        case pl.List():
            return pl.List(_physical(type.inner))
        case pl.Map():
            entry = {"key": _physical(type.key), "value": _physical(type.value)}
            return pl.List(pl.Struct(entry))
        case pl.Struct():
            return pl.Struct({field.name: _physical(field.dtype) for field in type.fields})
    return type


def hold(spark: SparkSession, seed: int, count: int, depth: int = 4) -> Found:
    """Draw this number of expressions from a seed, and compare them with Spark."""
    random, found = Random(seed), Found()
    drawing, oracle = Drawing(random), Oracle(spark, random)
    for start in range(0, count, AT_ONCE):
        size = min(AT_ONCE, count - start)
        oracle.hold([drawing.column(depth) for _ in range(size)], found)
    oracle.rows.unpersist()
    return found


def main(count: int, seed: int) -> None:
    """Compare this number of expressions, and print the result."""
    ways = Counter[str]()
    with started() as spark:
        for turn in range(0, count, 10 * AT_ONCE):
            found = hold(spark, seed + turn, min(10 * AT_ONCE, count - turn))
            ways.update(native=found.native, ours=found.ours, untaken=len(found.untaken))
            for text in (*found.untaken, *found.wrong):
                print("-", text)
            print(f"seed {seed + turn}: {dict(ways)}, {len(found.wrong)} wrong", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
