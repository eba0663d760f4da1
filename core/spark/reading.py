"""Sources inside of executors: what there is to read is found by the driver, and read there.

Each row of a range is the number of a piece; whoever gets it reads that piece, as often as Spark
wants. So where a piece begins and ends is settled before anything is read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core import taken
from headrace.core.contracts import Chunk, Source
from headrace.core.messages import Position, Split
from headrace.core.plan import nodes
from headrace.core.spark.columns import of_stream, with_hidden
from headrace.core.spark.inside import Inside
from headrace.core.spark.stage import staged

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a split that is read at once."""

    split: Split
    position: Position


def read(
    spark: SparkSession, source: nodes.Source, number: int, pieces: Sequence[Piece], inside: Inside
) -> dict[str, DataFrame]:
    """The streams of a source, which is the plan's source of that number."""
    range_ = spark.range(0, len(pieces), 1, max(len(pieces), 1))
    wanted = [stream for stream in source.outputs if stream.name in inside.read]
    work = _Reading(source, number, tuple(pieces), inside, tuple(s.name for s in wanted))
    rows = source.outputs[0]
    columns = [
        with_hidden(
            {name: source.schema.get(name).type for name in source.columns},  # type: ignore[union-attr]
            rows.timed,
            rows.ordered,
        )
        if stream is rows
        else of_stream(stream)
        for stream in wanted
    ]
    frames = staged(range_, source.name, work, columns)
    return dict(zip((stream.name for stream in wanted), frames, strict=True))


async def found(source: Source, start: bool = True) -> list[Piece]:
    """The pieces of a source, as they are now."""
    splits = await source.discover(first=True)
    return [
        Piece(replace(split, number=number), split.start) for number, split in enumerate(splits)
    ]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What an executor is sent: `Work` over the numbers of pieces."""

    source: nodes.Source
    number: int
    pieces: tuple[Piece, ...]
    inside: Inside
    wanted: tuple[str, ...]

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """The rows of the pieces, and the records that could not be read."""
        for frame in frames:
            for at in frame["id"]:
                yield from self._piece(self.pieces[at])

    def _piece(self, piece: Piece) -> Iterator[tuple[int, pl.DataFrame]]:
        name, rows, bad = self.source.name, 0, 0
        for chunk in self._chunks(piece):
            if chunk.bad:
                yield from self._bad(chunk, bad)
            frame = chunk.frame
            if frame.height and name in self.wanted:
                if self.source.outputs[0].ordered:
                    frame = taken.numbered(self.number, chunk, rows)
                yield self.wanted.index(name), taken.timed(self.source, frame)
            rows, bad = rows + chunk.frame.height, bad + len(chunk.bad)

    def _bad(self, chunk: Chunk, before: int) -> Iterator[tuple[int, pl.DataFrame]]:
        to = self.source.on_error
        if to == "fail":
            raise taken.refusal(chunk)
        if to != "skip" and to in self.wanted:
            now_us = time.time_ns() // 1000
            letters = taken.letters(self.source, self.number, chunk, before, now_us)
            yield self.wanted.index(to), letters

    def _chunks(self, piece: Piece) -> Iterator[Chunk]:
        with asyncio.Runner() as runner, self.inside.surroundings() as surroundings:
            opened = self.inside.source(self.source, surroundings)
            reading = opened.reading()

            async def begin() -> None:
                reading.assign([(piece.split, piece.position)], last=True)

            try:
                runner.run(begin())
                while (arrival := runner.run(reading.next())) is not None:
                    if isinstance(arrival, Chunk):
                        yield arrival
            finally:
                runner.run(reading.close())
                runner.run(opened.close())
