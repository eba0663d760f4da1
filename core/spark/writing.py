"""Sinks inside of executors: each partition is written by a writer of the connector's own.

What writers prepared is not seen before the driver commits it, when all sinks are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from headrace.core.elements import DELETE
from headrace.core.messages import Handle
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns
from headrace.core.spark.inside import Inside
from headrace.core.spark.stage import staged
from headrace.core.types import BIGINT, STRING, Schema

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Written:
    """What a sink's writers have written: to be committed, and how many rows."""

    handles: tuple[Handle, ...]
    rows: int


def write(rows: DataFrame, sink: nodes.Sink, schema: Schema, inside: Inside) -> Written:
    """Have the rows written; it returns when all of them are prepared."""
    (done,) = staged(rows, sink.name, _Writing(sink, schema, inside), [HANDLES])
    said = done.collect()
    handles = tuple(orjson.loads(row.handle) for row in said if row.handle is not None)
    return Written(handles, sum(row.rows for row in said))


HANDLES: Columns = {"handle": STRING, "rows": BIGINT}


@dataclass(frozen=True, slots=True)
class _Writing:
    """What an executor is sent: `Work` that ends in what is to be committed."""

    sink: nodes.Sink
    schema: Schema
    inside: Inside

    def __call__(
        self, partition: int, frames: Iterator[pl.DataFrame]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """Write the rows of a partition."""
        import polars as pl

        count = 0
        with asyncio.Runner() as runner, self.inside.surroundings() as surroundings:
            opened = self.inside.sink(self.sink, self.schema, surroundings)
            writer = opened.writer(partition)
            try:
                for frame in frames:
                    if frame.height:
                        runner.run(writer.write(self._complete(frame)))
                        count += frame.height
                handle = runner.run(writer.prepare())
            finally:
                runner.run(writer.close())
                runner.run(opened.close())
        text = None if handle is None else orjson.dumps(handle).decode()
        yield (
            0,
            pl.DataFrame(
                {"handle": [text], "rows": [count]}, schema_overrides={"handle": pl.String()}
            ),
        )

    def _complete(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What is written of changes says that nothing is deleted: only last rows are here."""
        import polars as pl

        if DELETE in self.schema and DELETE not in frame.columns:
            return frame.with_columns(pl.lit(False).alias(DELETE))
        return frame
