"""`process` beside a `broadcast`: every partition of the rows is handed all of the rules first.

They wait in the operator until time has come to them, so the order in which they are handed over is
no matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from headrace.core.compile import Seat
from headrace.core.operators.operator import Chain, Output
from headrace.core.spark.operating import Operated

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

RIGHT = 1


@dataclass(frozen=True, slots=True)
class OperatedRuled(Operated):
    """Our operator inside of executors."""

    rules: bytes
    """The rows of the right input, as an Arrow file."""

    def _seat(self, partition: int) -> Seat:
        # One of them tells of the rules that failed.
        groups = self.inside.key_groups
        return Seat(min(partition, groups - 1), groups, groups)

    def _run(self, chain: Chain, frames: Iterator[pl.DataFrame]) -> Iterator[Output]:
        import polars as pl

        yield from chain.process(pl.read_ipc(BytesIO(self.rules)), RIGHT)
        yield from Operated._run(self, chain, frames)


def gathered(rules: DataFrame) -> bytes:
    """All rows of a small input, here."""
    import polars as pl

    frame = pl.from_arrow(rules.toArrow())
    assert isinstance(frame, pl.DataFrame)
    file = BytesIO()
    frame.write_ipc(file)
    return file.getvalue()


def somewhere(rows: DataFrame) -> DataFrame:
    """The rows, with a partition where there is none: a rule fails whether rows come or not."""
    alone = rows.sparkSession.range(0, 1, 1, 1)
    return rows.union(alone.mapInArrow(_nothing, rows.schema))


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """No rows, which Spark does not know before."""
    for _ in batches:
        yield from ()
