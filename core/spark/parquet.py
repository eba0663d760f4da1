"""Parquet files that Spark reads by itself, with its pruning of unused columns.

Only files for which Spark gives the same rows as headrace's reader come here; the source's
connector decides that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.contracts import Piece
from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.ordinals import numbers
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns, ddl, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROW = "__row"
"""The column of rows of which no column is read: without any column their number would be lost."""
FILE, FIRST, PLACE, NUMBER = "__file", "__first", "__place", "__number"
"""Columns: a file's path in Spark, the number of its first row, a row's location, its number."""
OF_SPARK = "_metadata"
"""Spark's column with a row's origin; a column of that name in the file hides it."""
_OTHER = set("*?[]{}\\:")


def is_scannable(path: str) -> bool:
    """Whether Spark takes the path literally: not as a pattern or URI, nor as a file to skip.

    >>> is_scannable("/in/a b.parquet"), is_scannable("/in/_a.parquet"), is_scannable("/in/[a]")
    (True, False, False)
    """
    return _OTHER.isdisjoint(path) and not Path(path).name.startswith(("_", "."))


def scanned(
    spark: SparkSession,
    source: nodes.Source,
    number: int,
    pieces: Sequence[Piece],
    columns: Columns,
) -> DataFrame:
    """Read the files of a source with these columns; `number` is the source's."""
    files = {piece.split.number: piece.parquet for piece in pieces if piece.parquet is not None}
    reader = spark.read.schema(ddl({field.name: field.type for field in source.schema}))
    reader = reader.option("recursiveFileLookup", True).option("datetimeRebaseMode", "CORRECTED")
    rows = reader.parquet(*(f"file://{file.path}" for file in files.values()))
    if ORDER in columns:
        firsts = {file.path: numbers(number, split, 0, 1)[0] for split, file in files.items()}
        rows = _numbered(spark, rows, firsts)
    return rows.select(*(_column(source, name) for name in columns))


def _uri(spark: SparkSession, path: str) -> str:
    """Return a file's path as Spark has it in rows, without the scheme."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    found = jvm.org.apache.spark.paths.SparkPath.fromPathString(f"file://{path}").urlEncoded()
    return str(found).removeprefix("file://")


def _numbered(spark: SparkSession, rows: DataFrame, firsts: Mapping[str, int]) -> DataFrame:
    """Add the number of each row among all rows of the source."""
    from pyspark.sql.functions import broadcast, expr, lit

    # Spark writes file:/ for some files and file:/// for others.
    file = f"regexp_replace({OF_SPARK}.file_path, '^file:/+', '/')"
    known = f"{file} AS file", f"{OF_SPARK}.row_index AS row"
    rows = rows.select("*", expr(f"struct({', '.join(known)}) AS {PLACE}"))
    if len(firsts) == 1:
        first = lit(*firsts.values())
        return rows.withColumn(NUMBER, first + expr(f"{PLACE}.row"))
    table = [(_uri(spark, path), first) for path, first in firsts.items()]
    files = spark.createDataFrame(table, f"{FILE} string, {FIRST} bigint")
    found = rows.join(broadcast(files), expr(f"{PLACE}.file = {FILE}"), "left")
    # A row of a file whose path Spark writes in an unexpected way must not be lost.
    known_first = f"coalesce({FIRST}, bigint(raise_error(concat('unknown file ', {PLACE}.file))))"
    return found.withColumn(NUMBER, expr(f"{known_first} + {PLACE}.row"))


def _column(source: nodes.Source, name: str) -> Column:
    from pyspark.sql.functions import col, expr, lit

    time = quoted(source.event_time) if source.event_time else None
    if name == EVENT_TIME:
        return expr(f"{time}").alias(name)
    if name == ORDER:
        micros = f"unix_micros({time})" if time else "0L"
        return expr(f"named_struct('time', {micros}, 'at', {NUMBER}, 'part', 0L)").alias(name)
    return lit(True).alias(name) if name == ROW else col(quoted(name))
