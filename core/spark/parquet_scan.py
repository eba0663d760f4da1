"""Parquet files that Spark reads by itself, with its pruning of unused columns.

Only files for which Spark gives the same rows as headrace's reader come here; the source's
connector decides that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.api.sources import BatchSplit
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns, format_ddl, quote_column
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.row_order import number_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PRESENCE_COLUMN = "__row"
"""The column of rows of which no column is read: without any column their number would be lost."""
FILE_COLUMN, FIRST_ROW_COLUMN, LOCATION_COLUMN, ROW_NUMBER_COLUMN = (
    "__file",
    "__first",
    "__place",
    "__number",
)
"""Columns: a file's path in Spark, the number of its first row, a row's location, its number."""
FILE_METADATA = "_metadata"
"""Spark's column with a row's origin; a column of that name in the file hides it."""
_SPECIAL_CHARACTERS = set("*?[]{}\\:")


def is_scannable(path: str) -> bool:
    """Whether Spark takes the path literally: not as a pattern or URI, nor as a file to skip.

    >>> is_scannable("/in/a b.parquet"), is_scannable("/in/_a.parquet"), is_scannable("/in/[a]")
    (True, False, False)
    """
    return _SPECIAL_CHARACTERS.isdisjoint(path) and not Path(path).name.startswith(("_", "."))


def scan_files(
    spark: SparkSession,
    source: nodes.Source,
    number: int,
    pieces: Sequence[BatchSplit],
    columns: Columns,
) -> DataFrame:
    """Read the files of a source with these columns; `number` is the source's."""
    files = {piece.split.number: piece.parquet for piece in pieces if piece.parquet is not None}
    reader = spark.read.schema(format_ddl({field.name: field.type for field in source.schema}))
    reader = reader.option("recursiveFileLookup", True).option("datetimeRebaseMode", "CORRECTED")
    rows = reader.parquet(*(f"file://{file.path}" for file in files.values()))
    if ORDER in columns:
        firsts = {file.path: number_rows(number, split, 0, 1)[0] for split, file in files.items()}
        rows = _number_rows(spark, rows, firsts)
    return rows.select(*(_select_column(source, name) for name in columns))


def _spark_path(spark: SparkSession, path: str) -> str:
    """Return a file's path as Spark has it in rows, without the scheme."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    found = jvm.org.apache.spark.paths.SparkPath.fromPathString(f"file://{path}").urlEncoded()
    return str(found).removeprefix("file://")


def _number_rows(spark: SparkSession, rows: DataFrame, firsts: Mapping[str, int]) -> DataFrame:
    """Add the number of each row among all rows of the source."""
    from pyspark.sql.functions import broadcast, expr, lit

    # Spark writes file:/ for some files and file:/// for others.
    file = f"regexp_replace({FILE_METADATA}.file_path, '^file:/+', '/')"
    known = f"{file} AS file", f"{FILE_METADATA}.row_index AS row"
    rows = rows.select("*", expr(f"struct({', '.join(known)}) AS {LOCATION_COLUMN}"))
    if len(firsts) == 1:
        first = lit(*firsts.values())
        return rows.withColumn(ROW_NUMBER_COLUMN, first + expr(f"{LOCATION_COLUMN}.row"))
    table = [(_spark_path(spark, path), first) for path, first in firsts.items()]
    files = spark.createDataFrame(table, f"{FILE_COLUMN} string, {FIRST_ROW_COLUMN} bigint")
    found = rows.join(broadcast(files), expr(f"{LOCATION_COLUMN}.file = {FILE_COLUMN}"), "left")
    # A row of a file whose path Spark writes in an unexpected way must not be lost.
    known_first = (
        f"coalesce({FIRST_ROW_COLUMN}, bigint(raise_error(concat('unknown file ', "
        f"{LOCATION_COLUMN}.file))))"
    )
    return found.withColumn(ROW_NUMBER_COLUMN, expr(f"{known_first} + {LOCATION_COLUMN}.row"))


def _select_column(source: nodes.Source, name: str) -> Column:
    from pyspark.sql.functions import col, expr, lit

    time = quote_column(source.event_time) if source.event_time else None
    if name == EVENT_TIME:
        return expr(f"{time}").alias(name)
    if name == ORDER:
        micros = f"unix_micros({time})" if time else "0L"
        return expr(f"named_struct('time', {micros}, 'at', {ROW_NUMBER_COLUMN}, 'part', 0L)").alias(
            name
        )
    return lit(True).alias(name) if name == PRESENCE_COLUMN else col(quote_column(name))
