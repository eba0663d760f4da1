"""Batches of every type pass through bytes, and take along only their own rows."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.exchange.batch_codec import (
    MAX_PIECE_BYTES,
    MAX_PIECE_ROWS,
    cut_pieces,
    read_batch,
    write_batch,
)
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 6)
ENTRIES = pl.Series([[{"key": "a", "value": 1}, {"key": "b", "value": None}], None, []])


def encode(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    write_batch(frame, file)
    return file.getvalue()


COLUMNS = {
    "boolean": pl.Series([True, None, False]),
    "tinyint": pl.Series([-128, None, 127], dtype=pl.Int8),
    "smallint": pl.Series([-1, None], dtype=pl.Int16),
    "int": pl.Series([-1, None], dtype=pl.Int32),
    "bigint": pl.Series([-(2**63), None]),
    "float": pl.Series([1.5, float("nan"), None], dtype=pl.Float32),
    "double": pl.Series([-0.0, float("inf"), None]),
    "decimal": pl.Series([Decimal("1.23"), None], dtype=pl.Decimal(38, 2)),
    "string": pl.Series(["", None, "é" * 20, "long text " * 1000]),
    "binary": pl.Series([b"", None, b"\0\xff" * 20]),
    "date": pl.Series([date(2026, 1, 2), None]),
    "timestamp": pl.Series([MOMENT.replace(tzinfo=UTC), None], dtype=pl.Datetime("us", "UTC")),
    "timestamp_ntz": pl.Series([MOMENT, None], dtype=pl.Datetime("us")),
    "time": pl.Series([time(1, 2, 3, 4), None]),
    "interval": pl.Series([timedelta(days=-1, microseconds=1), None], dtype=pl.Duration("us")),
    "void": pl.Series([None, None], dtype=pl.Null),
    "array": pl.Series([["a", None], None, []]),
    "array of void": pl.Series([[None], None], dtype=pl.List(pl.Null)),
    "struct": pl.Series([{"x": 1, "y": "text"}, None, {"x": None, "y": None}]),
    "empty struct": pl.Series([{}, {}], dtype=pl.Struct([])),
    "map": ENTRIES.list.to_map(),
    "map in arrays": pl.Series([[1], None]).to_frame("a").select(
        pl.concat_list(pl.struct(pl.lit(ENTRIES.list.to_map().head(1)).alias("m"), "a"))
    ).to_series(),
}  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_every_type_passes(column: pl.Series) -> None:
    frame = column.alias("a").to_frame()
    for rows in (frame, frame.head(1), frame.tail(1), pl.concat([frame, frame.reverse()])):
        copy = read_batch(encode(rows))
        assert copy.schema == rows.schema
        assert_frame_equal(copy, rows)


def test_hidden_columns_and_rows_without_columns_pass() -> None:
    hidden = pl.DataFrame(
        {EVENT_TIME: [MOMENT], DELETE: [True], ORDER: [b"1"]},
        schema_overrides={EVENT_TIME: pl.Datetime("us", "UTC")},
    )
    assert_frame_equal(read_batch(encode(hidden)), hidden)
    assert read_batch(encode(pl.DataFrame(height=7))).shape == (7, 0)


def test_few_rows_of_many_do_not_take_along_the_others() -> None:
    text = pl.Series([f"a text of some length, number {n}" for n in range(100_000)]).alias("a")
    frame = text.to_frame()
    nested = frame.select(pl.concat_list("a", "a").alias("l"), pl.struct("a").alias("s"))
    for rows in (frame, nested):
        for few in (rows.filter(pl.int_range(pl.len()) % 10_000 == 0), rows.slice(5, 10)):
            assert len(encode(few)) < 5000


def test_pieces_fit_the_bounds_of_the_channel() -> None:
    frame = pl.DataFrame({"a": range(100_000)})
    pieces = [*cut_pieces(frame, ChannelBounds())]
    assert max(piece.height for piece in pieces) == MAX_PIECE_ROWS
    assert pl.concat(pieces).equals(frame)
    assert {piece.height for piece in cut_pieces(frame, ChannelBounds(rows=10))} == {10}
    texts = pl.DataFrame({"a": ["x" * 100_000] * 100})
    pieces = [*cut_pieces(texts, ChannelBounds())]
    assert max(piece.estimated_size() for piece in pieces) <= MAX_PIECE_BYTES
    assert len([*cut_pieces(texts, ChannelBounds(bytes=10))]) == 100
