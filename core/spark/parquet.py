"""Files of Parquet that Spark reads by itself, with all that it knows of leaving columns away.

Only such come here of which it makes the very rows that our reader does: that is for the source's
connector to say.
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
"""The column of rows of which no column is wanted: without any, nobody knows how many there are."""
FILE, FIRST, PLACE, NUMBER = "__file", "__first", "__place", "__number"
"""A file as Spark calls it, the number of its first row; where a row is, and its number."""
OF_SPARK = "_metadata"
"""The column in which Spark says where a row is from: a column of the file hides it."""
_OTHER = set("*?[]{}\\:")


def is_scannable(path: str) -> bool:
    """Whether Spark takes the path for what it is: no pattern or URI, no file that it passes over.

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
    """The rows of files, of the source of that number, with these columns."""
    files = {piece.split.number: piece.parquet for piece in pieces if piece.parquet is not None}
    reader = spark.read.schema(ddl({field.name: field.type for field in source.schema}))
    reader = reader.option("recursiveFileLookup", True).option("datetimeRebaseMode", "CORRECTED")
    rows = reader.parquet(*(f"file://{file.path}" for file in files.values()))
    if ORDER in columns:
        firsts = {file.path: numbers(number, split, 0, 1)[0] for split, file in files.items()}
        rows = _numbered(spark, rows, firsts)
    return rows.select(*(_column(source, name) for name in columns))


def _uri(spark: SparkSession, path: str) -> str:
    """The file as Spark calls it in its rows, behind the scheme."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    found = jvm.org.apache.spark.paths.SparkPath.fromPathString(f"file://{path}").urlEncoded()
    return str(found).removeprefix("file://")


def _numbered(spark: SparkSession, rows: DataFrame, firsts: Mapping[str, int]) -> DataFrame:
    """The rows, each with its number among all."""
    from pyspark.sql.functions import broadcast, expr, lit

    # It says file:/ of some files, and file:/// of others.
    file = f"regexp_replace({OF_SPARK}.file_path, '^file:/+', '/')"
    known = f"{file} AS file", f"{OF_SPARK}.row_index AS row"
    rows = rows.select("*", expr(f"struct({', '.join(known)}) AS {PLACE}"))
    if len(firsts) == 1:
        first = lit(*firsts.values())
        return rows.withColumn(NUMBER, first + expr(f"{PLACE}.row"))
    table = [(_uri(spark, path), first) for path, first in firsts.items()]
    files = spark.createDataFrame(table, f"{FILE} string, {FIRST} bigint")
    found = rows.join(broadcast(files), expr(f"{PLACE}.file = {FILE}"), "left")
    # A row of a file that Spark calls otherwise than we think is not to be lost.
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
