"""Which decoder a source has, and which encoder a sink, by what its pipeline says."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.formats.factories import (
    build_decoder,
    build_encoder,
    build_parquet_encoder,
    build_parquet_reader,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.plan import nodes
from tests.support.plans import plan_of


def source(
    folder: Path, more: str, columns: str = "{a: bigint not null, at: timestamp}"
) -> nodes.Source:
    text = f"""name: test
sources: {{orders: {{files: {{path: in}}, schema: {columns}, {more}}}}}
sinks: {{out: {{from: orders, files: {{path: out}}}}}}
"""
    part = plan_of(folder, text).part("orders")
    assert isinstance(part, nodes.Source)
    return part


def sink(folder: Path, more: str) -> nodes.Sink:
    text = f"""name: test
sources: {{orders: {{files: {{path: in}}, schema: {{a: bigint, b: string}}}}}}
sinks: {{out: {{from: orders, files: {{path: out}}, {more}}}}}
"""
    part = plan_of(folder, text).part("out")
    assert isinstance(part, nodes.Sink)
    return part


def test_json_is_read_unless_another_format_is_named(tmp_path: Path) -> None:
    frame, bad = build_decoder(source(tmp_path, "on_error: skip")).decode(
        b'{"a":1}\n{"at":null}', 0
    )
    assert (frame["a"].to_list(), len(bad)) == ([1], 1)


def test_an_event_time_must_not_be_null(tmp_path: Path) -> None:
    _, bad = build_decoder(source(tmp_path, "event_time: at")).decode(b'{"a":1}', 0)
    assert bad[0].error == 'column "at": wanted timestamp not null, got null'


def test_json_with_instants_as_numbers(tmp_path: Path) -> None:
    frame, _ = build_decoder(source(tmp_path, "json: {epoch: ms}")).decode(b'{"a":1,"at":1}', 0)
    assert frame["at"].to_physical().to_list() == [1000]


def test_csv_begins_with_a_header(tmp_path: Path) -> None:
    opened = build_decoder(source(tmp_path, "format: csv"))
    assert opened.has_header
    frame, _ = opened.with_header(b"at,a\n").decode(b"2026-01-31,1\n", 5)
    assert frame.columns == ["a", "at"]


def test_csv_without_a_header_has_the_columns_of_the_schema(tmp_path: Path) -> None:
    more = 'format: csv, csv: {header: false, delimiter: ";", quote: "\'", null: x}'
    opened = build_decoder(source(tmp_path, more))
    assert not opened.has_header
    assert opened.decode(b"'1';x\n", 0)[0].rows() == [(1, None)]


def test_raw_is_one_column(tmp_path: Path) -> None:
    opened = build_decoder(source(tmp_path, "format: raw", "{line: string}"))
    assert opened.decode(b"a\n", 0)[0].rows() == [("a",)]


@pytest.mark.parametrize(
    ("more", "suffix", "header", "text"),
    [
        ("format: json", ".jsonl", b"", b'{"a":1,"b":null}\n'),
        ("format: csv", ".csv", b"a,b\n", b"1,\n"),
        ('format: csv, csv: {header: false, delimiter: "\\t"}', ".csv", b"", b"1\t\n"),
        ("format: csv, csv: {null: x}", ".csv", b'"a","b"\n', b'"1",x\n'),
    ],
)
def test_encoders(tmp_path: Path, more: str, suffix: str, header: bytes, text: bytes) -> None:
    part = sink(tmp_path, more)
    columns = source(tmp_path, "on_error: skip", "{a: bigint, b: string}").schema
    opened = build_encoder(part, columns)
    frame = pl.DataFrame({"a": [1], "b": [None]}, schema={"a": pl.Int64, "b": pl.String})
    assert (opened.suffix, opened.header(), opened.encode(frame)) == (suffix, header, text)


def test_parquet_is_read_and_written_by_file(tmp_path: Path) -> None:
    reader = build_parquet_reader(source(tmp_path, "format: parquet, event_time: at"))
    assert str(reader.schema) == "a bigint not null, at timestamp not null"
    assert build_parquet_encoder(reader.schema).start_file().finish().startswith(b"PAR1")


def test_parquet_has_no_decoder(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="cannot carry parquet"):
        build_decoder(source(tmp_path, "format: parquet"))
