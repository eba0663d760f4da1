"""Parquet: what is written reads back anywhere; what is read may be narrower than declared."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.formats import parquet_write
from headrace.connectors.formats.parquet_read import ParquetReader
from headrace.connectors.formats.parquet_write import ParquetEncoder
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import BadRecord
from headrace.core.types.data_types import Schema
from tests.support.formats.decoding import schema
from tests.support.formats.random_frames import frames


@pytest.fixture
def groups_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_write, "GROUP_ROWS", 10)


def written(columns: Schema, pieces: Iterator[pl.DataFrame] | list[pl.DataFrame]) -> bytes:
    file = ParquetEncoder(columns).start_file()
    return b"".join([*(file.add(piece) for piece in pieces), file.finish()])


@settings(max_examples=40, deadline=None)
@given(drawn=frames(), size=st.integers(1, 4))
def test_rows_read_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[Schema, pl.DataFrame], size: int
) -> None:
    columns, rows = drawn
    path = tmp_path_factory.getbasetemp() / "a.parquet"
    pieces = [rows.slice(at, size) for at in range(0, rows.height, size)]
    path.write_bytes(written(columns, pieces))
    assert pl.read_parquet(path).equals(rows)
    (again, bad), count = ParquetReader(columns, columns).read(str(path), 0)
    assert (bad, count) == ((), rows.height)
    assert again.equals(rows) and again.schema == rows.schema


@pytest.mark.usefixtures("groups_of_ten")
def test_a_file_is_written_group_by_group_and_read_from_any_row(tmp_path: Path) -> None:
    columns = schema(a="bigint", b="string", c="array<double>")
    rows = pl.DataFrame(
        {"a": range(95), "b": [f"x{row % 3}" for row in range(95)], "c": [[0.5, None]] * 95}
    )
    file = ParquetEncoder(columns).start_file()
    sizes = [len(file.add(rows.slice(at, 4))) for at in range(0, 95, 4)]
    assert [bool(size) for size in sizes] == [at % 3 == 2 for at in range(24)]

    path = tmp_path / "a.parquet"
    path.write_bytes(written(columns, [rows.slice(at, 7) for at in range(0, 95, 7)]))
    assert pl.read_parquet(path).equals(rows)
    assert pl.scan_parquet(path).filter(pl.col("a") == 77).collect()["b"].to_list() == ["x2"]
    reader = ParquetReader(columns, columns)
    for first in (0, 9, 10, 11, 94, 95, 200):
        (frame, _), count = reader.read(str(path), first, 20)
        assert count == len(range(95)[first : first + 20])
        assert frame.equals(rows.slice(first, 20))


@pytest.mark.usefixtures("groups_of_ten")
def test_other_readers_agree(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    columns = schema(a="bigint", b="decimal(10,2)", c="timestamp", d="struct<x:binary>")
    at = datetime(2026, 1, 31, tzinfo=UTC)
    rows = pl.DataFrame(
        {"a": range(33), "b": [Decimal("1.10")] * 33, "c": [at] * 33, "d": [{"x": b"\xff"}] * 33},
        schema={"a": pl.Int64, "b": pl.Decimal(10, 2), "c": pl.Datetime("us", "UTC"), "d": None},
    )
    path = tmp_path / "a.parquet"
    path.write_bytes(written(columns, [rows.slice(at, 11) for at in range(0, 33, 11)]))
    found = duckdb.sql(f"select count(*), sum(a), sum(b), min(epoch_us(c)) from '{path}'")
    assert found.fetchall() == [(33, 528, Decimal("36.30"), 1769817600_000000)]


def test_a_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(written(schema(a="bigint", b="timestamp"), []))
    assert pl.read_parquet_schema(path) == {"a": pl.Int64, "b": pl.Datetime("us", "UTC")}


def reading(folder: Path, rows: pl.DataFrame, **types: str) -> tuple[pl.DataFrame, object]:
    path = folder / "a.parquet"
    rows.write_parquet(path)
    columns = schema(**types)
    return ParquetReader(columns, columns).read(str(path), 0)[0]


AT = datetime(2026, 1, 31, 8, 0, 0, 123_456)


@pytest.mark.parametrize(
    ("column", "type", "values"),
    [
        (pl.Series([1, None], dtype=pl.Int8), "bigint", [1, None]),
        (pl.Series([255], dtype=pl.UInt8), "smallint", [255]),
        (pl.Series([2**64 - 1], dtype=pl.UInt64), "decimal(20,0)", [Decimal(2**64 - 1)]),
        (pl.Series([1], dtype=pl.Int32), "double", [1.0]),
        (pl.Series([0.5], dtype=pl.Float32), "double", [0.5]),
        (pl.Series([Decimal("1.1")], dtype=pl.Decimal(5, 1)), "decimal(38,2)", [Decimal("1.10")]),
        (pl.Series([7], dtype=pl.Int64), "decimal(21,2)", [Decimal("7.00")]),
        (pl.Series([AT], dtype=pl.Datetime("ns")), "timestamp", [AT]),
        (pl.Series([AT], dtype=pl.Datetime("ns")), "timestamp_ntz", [AT]),
        (pl.Series([AT.time()]), "time", [AT.time()]),
        (pl.Series([timedelta(1, 5)]), "interval day to second", [timedelta(1, 5)]),
        (pl.Series([14], dtype=pl.Int32), "interval year to month", [14]),
        (pl.Series([AT], dtype=pl.Datetime("ms")), "timestamp", [AT.replace(microsecond=123_000)]),
        (
            pl.Series([AT]).dt.replace_time_zone("Asia/Tokyo"),
            "timestamp",
            [AT.replace(hour=23, day=30)],
        ),
        (pl.Series(["x"], dtype=pl.Categorical), "string", ["x"]),
        (pl.Series([[1, None]], dtype=pl.List(pl.Int8)), "array<int>", [[1, None]]),
        (pl.Series([[1, 2]], dtype=pl.Array(pl.Int8, 2)), "array<int>", [[1, 2]]),
        (
            pl.Series([{"x": 1, "y": 2, "z": 3}, None]),
            "struct<z:bigint,x:decimal(20,0)>",
            [{"z": 3, "x": Decimal(1)}, None],
        ),
        (pl.Series([None, None]), "array<bigint>", [None, None]),
    ],
)
def test_a_wider_type_may_be_declared(
    tmp_path: Path, column: pl.Series, type: str, values: list[object]
) -> None:
    frame, bad = reading(tmp_path, column.to_frame("a"), a=type)
    found = frame["a"]
    if type == "timestamp":
        found = found.dt.replace_time_zone(None)
    assert (found.to_list(), bad) == (values, ())


@pytest.mark.parametrize(
    ("dtype", "type", "message", "hint"),
    [
        (pl.Int64, "int", "wanted int, the file has bigint", "declare it as bigint"),
        (pl.Int64, "double", "wanted double, the file has bigint", "declare it as bigint"),
        (pl.Int64, "string", "wanted string, the file has bigint", "declare it as bigint"),
        (pl.Float64, "float", "wanted float, the file has double", "declare it as double"),
        (
            pl.Datetime("us", "UTC"),
            "timestamp_ntz",
            "wanted timestamp_ntz, the file has timestamp",
            "declare it as timestamp",
        ),
        (pl.Time, "string", "wanted string, the file has time(6)", "declare it as time(6)"),
        (
            pl.Struct({"x": pl.Int8}),
            "struct<x:int,y:int>",
            "wanted struct<x:int,y:int>, the file has struct<x:tinyint>",
            "declare it as struct<x:tinyint>",
        ),
    ],
)
def test_a_type_that_does_not_fit(
    tmp_path: Path, dtype: pl.DataType, type: str, message: str, hint: str
) -> None:
    with pytest.raises(ConnectorError) as raised:
        reading(tmp_path, pl.DataFrame(schema={"a": dtype}), a=type)
    assert (raised.value.message, raised.value.hint) == (f'column "a": {message}', hint)


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as raised:
        reading(tmp_path, pl.DataFrame({"a": [1], "pirce": [2]}), a="bigint", price="bigint")
    assert raised.value.message == 'the file has no column "price"'
    assert raised.value.hint == 'did you mean "pirce"?'


def test_a_row_with_a_null_that_must_not_be_is_bad(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "a": [1, None, 3],
            "s": [{"x": 1}, {"x": 2}, {"x": None}],
            "t": ["a\u2028", "b\u2028", "c"],
        },
        schema={"a": pl.Int64, "s": pl.Struct({"x": pl.Int64}), "t": pl.String},
    )
    rows.write_parquet(tmp_path / "a.parquet")
    columns = schema(t="string", a="bigint not null", s="struct<x:bigint not null>")
    (frame, bad), count = ParquetReader(columns, columns).read(str(tmp_path / "a.parquet"), 1, 9)
    assert (frame.height, count) == (0, 2)
    assert bad == (
        BadRecord(
            'column "a": wanted bigint not null, got null',
            1,
            '{"t":"b\u2028","a":null,"s":{"x":2}}',
        ),
        BadRecord(
            'column "s": wanted struct<x:bigint not null>, got null within',
            2,
            '{"t":"c","a":3,"s":{"x":null}}',
        ),
    )


def test_missing_and_foreign_files_are_reported(tmp_path: Path) -> None:
    reader = ParquetReader(schema(a="bigint"), schema(a="bigint"))
    path = tmp_path / "a.parquet"
    with pytest.raises(ConnectorError, match="the file cannot be read: No such file"):
        reader.read(str(path), 0)
    path.write_text('{"a":1}')
    with pytest.raises(ConnectorError, match="the file cannot be read as Parquet"):
        reader.read(str(path), 0)


def test_readers_and_encoders_can_be_pickled() -> None:
    reader = ParquetReader(schema(a="bigint"), schema(a="bigint"))
    assert pickle.loads(pickle.dumps(reader)) == reader
    encoder = ParquetEncoder(schema(a="bigint"))
    assert pickle.loads(pickle.dumps(encoder)) == encoder
    assert encoder.suffix == ".parquet"
