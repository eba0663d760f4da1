"""Sinks that print: the driver prints their rows, in the order of their partitions.

Executors have no terminal, and printed rows cannot be taken back. So rows stay cached in the
executors until all other sinks are written, and are then fetched in batches and printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from headrace.core.spark.columns import Columns
from headrace.core.spark.stage import map_partitions
from headrace.core.types import BIGINT, BINARY, INT

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

PACKED_COLUMNS: Columns = {"part": INT, "at": BIGINT, "rows": BIGINT, "data": BINARY}
ROWS_PER_PACK = 20_000
"""Rows that are packed into one."""
FETCH_BYTES = 64 << 20
"""Bytes that are fetched to the driver at a time, approximately."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """All rows of a printing sink, computed and cached in the executors."""

    packed_frame: DataFrame
    rows: int
    bytes: int

    def fetch_frames(self) -> Iterator[pl.DataFrame]:
        """Fetch the rows, in order."""
        import polars as pl

        many = 1 + self.bytes // FETCH_BYTES
        ranged = self.packed_frame.repartitionByRange(many, "part", "at")
        for row in ranged.sortWithinPartitions("part", "at").toLocalIterator():
            yield pl.read_ipc_stream(BytesIO(row.data))


def pack_rows(rows: DataFrame, sink: str) -> PackedRows:
    """Compute the rows of a sink, and cache them."""
    (packed,) = map_partitions(rows, sink, _pack_partition, [PACKED_COLUMNS])
    packed = packed.persist()
    (made,) = packed.selectExpr("sum(rows) AS rows", "sum(octet_length(data)) AS bytes").collect()
    return PackedRows(packed, made.rows or 0, made.bytes or 0)


def _pack_partition(
    partition: int, frames: Iterator[pl.DataFrame]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Pack many rows into one (a `PartitionFunction`)."""
    at = 0
    for frame in frames:
        for some in frame.iter_slices(ROWS_PER_PACK):
            yield 0, _pack_frame(partition, at, some)
            at += 1


def _pack_frame(partition: int, at: int, rows: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    data = BytesIO()
    rows.write_ipc_stream(data, compression="zstd")
    one = {"part": [partition], "at": [at], "rows": [rows.height], "data": [data.getvalue()]}
    return pl.DataFrame(one)
