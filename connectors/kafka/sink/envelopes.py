"""Changes as Debezium envelopes: the row before and after, the operation, and where it is from.

Each row is followed by a tombstone of its key if it deletes one, so that compaction can remove the
key. The envelopes are those of Debezium's JSON converter without schemas.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.core.types.change_columns import BEFORE, CHANGE_NUMBER
from headrace.core.types.data_types import BIGINT, STRING, Field, Schema, Struct
from headrace.core.types.elements import DELETE
from headrace.core.types.frames import gather_rows
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

IS_TOMBSTONE = "__tombstone"
"""The column of rows that says which records have no value."""

SOURCE_TYPE = Struct(
    (
        Field("connector", STRING),
        Field("name", STRING),
        Field("table", STRING),
        Field("sequence", BIGINT),
    )
)


@dataclass(frozen=True)
class EnvelopeEncoder:
    """Encodes changes of rows with these columns."""

    columns: Schema
    pipeline: str
    table: str
    """The name of the stream."""
    adds_tombstones: bool

    def add_tombstones(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows, those that delete a key followed by another one; with IS_TOMBSTONE."""
        import polars as pl

        if not self.adds_tombstones or not frame[DELETE].any():
            return frame.with_columns(pl.lit(False).alias(IS_TOMBSTONE))
        at = frame.select(
            pl.int_range(pl.len(), dtype=pl.UInt32).repeat_by(pl.col(DELETE).cast(pl.UInt32) + 1)
        ).to_series()
        at = at.explode(empty_as_null=False)
        repeated = at == at.shift(1)
        return gather_rows(frame, at).with_columns(repeated.fill_null(False).alias(IS_TOMBSTONE))

    def encode(self, frame: pl.DataFrame, now_ms: int) -> list[bytes | None]:
        """Return the value of each record; None for tombstones."""
        import polars as pl

        deleted, before = pl.col(DELETE), pl.col(BEFORE)
        row = pl.struct(self.columns.names)
        operation = (
            pl.when(deleted)
            .then(pl.lit("d"))
            .when(before.is_null())
            .then(pl.lit("c"))
            .otherwise(pl.lit("u"))
        )
        source = pl.struct(
            pl.lit("headrace").alias("connector"),
            pl.lit(self.pipeline).alias("name"),
            pl.lit(self.table).alias("table"),
            pl.col(CHANGE_NUMBER).alias("sequence"),
        )
        envelopes = frame.select(
            before.alias("before"),
            pl.when(~deleted).then(row).alias("after"),
            source.alias("source"),
            operation.alias("op"),
            pl.lit(now_ms, dtype=pl.Int64).alias("ts_ms"),
        )
        lines = self._encoder.encode(envelopes).split(b"\n")[:-1]
        if not frame[IS_TOMBSTONE].any():
            return [*lines]
        empty = frame[IS_TOMBSTONE].to_list()
        return [None if gone else line for line, gone in zip(lines, empty, strict=True)]

    @cached_property
    def _encoder(self) -> JsonEncoder:
        row = Struct(self.columns.fields)
        fields = (("before", row), ("after", row), ("source", SOURCE_TYPE), ("op", STRING))
        return JsonEncoder(
            Schema((*(Field(name, type) for name, type in fields), Field("ts_ms", BIGINT)))
        )
