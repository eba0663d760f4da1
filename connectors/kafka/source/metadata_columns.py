"""Metadata of records as columns: only those that are requested.

Keys and the values of headers are bytes that are shown as text; bytes that are not UTF-8 are
replaced, because metadata never makes a record bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.connectors.kafka.source.positions import Partition
from headrace.connectors.kafka.source.record_unpacking import (
    RecordHeaders,
    RecordUnpacker,
    UnpackedRecords,
)
from headrace.connectors.kafka.source.value_decoding import decode_texts
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """Makes metadata columns; `columns` maps kinds (topic, offset, ...) to column names."""

    columns: Mapping[str, str]

    @property
    def unpacker(self) -> RecordUnpacker:
        """The parts of records that the columns need."""
        return RecordUnpacker(
            timestamps="timestamp" in self.columns,
            keys="key" in self.columns,
            headers="headers" in self.columns,
        )

    def build_columns(self, partition: Partition, records: UnpackedRecords) -> pl.DataFrame:
        """Build a row of metadata for each record."""
        import polars as pl

        count = len(records.values)
        made = {
            name: _build_column(kind, partition, records, count)
            for kind, name in self._kinds_and_names
        }
        return pl.DataFrame(made) if made else pl.DataFrame(height=count)

    @property
    def _kinds_and_names(self) -> Sequence[tuple[str, str]]:
        return list(self.columns.items())


def _build_column(
    kind: str, partition: Partition, records: UnpackedRecords, count: int
) -> pl.Series:
    import polars as pl

    match kind:
        case "topic":
            return pl.Series([partition.topic], dtype=pl.String).new_from_index(0, count)
        case "partition":
            return pl.Series([partition.number], dtype=pl.Int32).new_from_index(0, count)
        case "offset":
            return pl.concat([pl.Series([], dtype=pl.Int64), *map(_build_offsets, records.offsets)])
        case "timestamp":
            millis = pl.Series(records.timestamps, dtype=pl.Int64)
            return (millis * 1000).cast(pl.Datetime("us", "UTC"))
        case "key":
            return decode_texts(pl.Series(records.keys, dtype=pl.Binary), _decode_lossy)
        case "headers":
            return _build_headers(records.headers)
    raise ValueError(kind)


def _build_offsets(offsets: range | list[int]) -> pl.Series:
    import polars as pl

    if isinstance(offsets, range):
        return pl.int_range(offsets.start, offsets.stop, eager=True)
    return pl.Series(offsets, dtype=pl.Int64)


def _build_headers(headers: Sequence[RecordHeaders]) -> pl.Series:
    """Build the headers column: flat, then grouped by row, as Polars is slow with Python lists."""
    import polars as pl

    dtype = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
    none = pl.Series([[]], dtype=dtype).new_from_index(0, len(headers))
    flat = [(row, key, value) for row, each in enumerate(headers) for key, value in each]
    if not flat:
        return none
    rows, keys, values = zip(*flat, strict=True)
    pairs = pl.DataFrame(
        {
            "row": pl.Series(rows, dtype=pl.Int64),
            "key": pl.Series(keys, dtype=pl.String),
            "value": decode_texts(pl.Series(values, dtype=pl.Binary), _decode_lossy),
        }
    )
    gathered = pairs.group_by("row", maintain_order=True).agg(pl.struct("key", "value").alias("h"))
    there = gathered["row"]
    return none.zip_with(
        pl.Series([True]).new_from_index(0, len(headers)).scatter(there, False),
        pl.DataFrame({"row": pl.int_range(len(headers), eager=True)})
        .join(gathered, on="row", how="left", maintain_order="left")["h"]
        .cast(dtype),
    )


def _decode_lossy(value: bytes) -> str:
    return value.decode("utf-8", "replace")
