"""Sources of a batch: the driver finds the splits, executors read them.

The driver fixes the splits before anything is read, so that every read of a split gives the same
rows. Splits are packed in groups into a bounded number of tasks; each row of a Spark range is the
number of a group. The result does not depend on the grouping.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core import taken
from headrace.core.blame import blamed
from headrace.core.contracts import Chunk, Piece
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns, ddl, of_stream, with_hidden
from headrace.core.spark.counts import Counts, Read
from headrace.core.spark.dealing import dealt
from headrace.core.spark.inside import Inside
from headrace.core.spark.parquet import OF_SPARK, ROW, is_scannable, scanned
from headrace.core.spark.stage import staged
from headrace.core.types import BOOLEAN

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Found:
    """The input of a source: its splits, fixed by the driver."""

    number: int
    """The source's number in the plan."""
    pieces: tuple[Piece, ...]
    counts: Counts
    now_us: int
    """The arrival time of bad records (microseconds), the same for every read."""


async def found(
    spark: SparkSession, plan: nodes.Plan, context: Inside, counts: Counts
) -> dict[str, Found]:
    """Find the current input of each source. Raises ConnectorError."""
    sources = [part for part in plan if isinstance(part, nodes.Source)]
    now_us, many = time.time_ns() // 1000, spark.sparkContext.defaultParallelism
    there = {}
    with context.surroundings() as surroundings:
        for number, source in enumerate(sources):
            with blamed(source.name):
                pieces = await context.pieces(source, surroundings).pieces(many)
            there[source.name] = Found(number, tuple(_numbered(pieces)), counts, now_us)
    return there


def _numbered(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Number the splits within their source."""
    numbers: dict[str, int] = {}
    for piece in pieces:
        number = numbers.setdefault(piece.split.name, len(numbers))
        yield replace(piece, split=replace(piece.split, number=number))


def read(
    spark: SparkSession, source: nodes.Source, there: Found, context: Inside
) -> dict[str, DataFrame]:
    """Return the streams of a source that have a reader, by name."""
    wanted = {s.name: _columns(source, s) for s in source.outputs if s.name in context.read}
    by_spark = OF_SPARK not in source.schema
    files = [piece for piece in there.pieces if by_spark and is_scanned(piece)]
    others = [piece for piece in there.pieces if not (by_spark and is_scanned(piece))]
    if not files:
        return _read(spark, source, there, others, wanted, context)
    there.counts.add(source.name, -1, Read(sum(f.parquet.rows for f in files if f.parquet), 0))
    empty = {name: spark.createDataFrame([], ddl(columns)) for name, columns in wanted.items()}
    streams = _read(spark, source, there, others, wanted, context) if others else empty
    if source.name in wanted:
        frame = scanned(spark, source, there.number, files, wanted[source.name])
        streams[source.name] = frame.union(streams[source.name]) if others else frame
    return streams


def is_scanned(piece: Piece) -> bool:
    """Whether the split is a file that Spark reads by itself."""
    return piece.parquet is not None and is_scannable(piece.parquet.path)


def _columns(source: nodes.Source, stream: nodes.Stream) -> Columns:
    """Return the columns of a stream that are read."""
    if stream.name != source.name:
        return of_stream(stream)
    types = {field.name: field.type for field in source.schema}
    read = {name: types[name] for name in source.columns}
    return with_hidden(read, stream.timed, stream.ordered) or {ROW: BOOLEAN}


def _read(
    spark: SparkSession,
    source: nodes.Source,
    there: Found,
    pieces: Sequence[Piece],
    wanted: dict[str, Columns],
    context: Inside,
) -> dict[str, DataFrame]:
    groups = dealt(pieces, spark.sparkContext.defaultParallelism)
    work = _Reading(source, replace(there, pieces=()), tuple(groups), context, tuple(wanted))
    numbers = spark.range(0, len(groups), 1, max(len(groups), 1))
    frames = staged(numbers, source.name, work, list(wanted.values()))
    return dict(zip(wanted, frames, strict=True))


@dataclass(frozen=True, slots=True)
class _Reading:
    """A `PartitionFunction` that reads the groups whose numbers it gets."""

    source: nodes.Source
    there: Found
    groups: tuple[tuple[Piece, ...], ...]
    context: Inside
    wanted: tuple[str, ...]

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Read the rows of the splits, and their bad records."""
        with self.context.surroundings() as surroundings:
            reader = self.context.pieces(self.source, surroundings)
            for frame in frames:
                for group in frame["id"]:
                    rows = bad = 0
                    for piece in self.groups[group]:
                        for first, chunk in reader.read(piece):
                            yield from self._chunk(chunk, first)
                            rows, bad = rows + chunk.frame.height, bad + len(chunk.bad)
                    self.there.counts.add(self.source.name, group, Read(rows, bad))

    def _chunk(self, chunk: Chunk, first: int) -> Iterator[tuple[int, pl.DataFrame]]:
        if chunk.bad:
            yield from self._bad(chunk, first)
        frame = chunk.frame
        if frame.height and self.source.name in self.wanted:
            if self.source.outputs[0].ordered:
                frame = taken.numbered(self.there.number, chunk, first)
            yield self.wanted.index(self.source.name), _counted(taken.timed(self.source, frame))

    def _bad(self, chunk: Chunk, first: int) -> Iterator[tuple[int, pl.DataFrame]]:
        to = self.source.on_error
        if to == "fail":
            raise taken.refusal(chunk)
        if to != "skip" and to in self.wanted:
            there = self.there
            letters = taken.letters(self.source, there.number, chunk, first, there.now_us)
            yield self.wanted.index(to), letters


def _counted(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with at least one column."""
    import polars as pl

    return frame if frame.width else pl.DataFrame({ROW: pl.repeat(True, frame.height, eager=True)})
