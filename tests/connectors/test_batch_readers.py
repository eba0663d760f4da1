"""Pieces hold every record once, wherever sources are divided, and the same ones each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.files.batch_reader import FileBatchReader
from headrace.connectors.files.open_file import FileRange
from headrace.connectors.formats.parquet_read import READ_ROWS
from headrace.connectors.nexmark import STREAMS
from headrace.connectors.nexmark_events import NexmarkEvents
from headrace.connectors.numbered_rows import BLOCK_ROWS
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import BatchSplit, BatchSplitReader
from headrace.core.api.splits import Split
from tests.connectors.files.test_source import SCHEMA, text_of
from tests.support.batch_splits import bad, divided, pieces_of, read, rows
from tests.support.file_pipelines import PACK, source_of


def small(reader: BatchSplitReader, step: int) -> FileBatchReader:
    """The same, for pieces of that size."""
    assert isinstance(reader, FileBatchReader)
    return replace(reader, min_bytes=step, max_bytes=step)


def streamed(folder: Path, text: str, name: str) -> list[tuple[object, ...]]:
    """The rows of a file, as a stream reads them."""
    _, reader = source_of(folder, text)
    chunks = list(reader.read(Split("s", name), None))
    return [*rows(chunks), *((each.error, each.position, each.raw) for each in bad(chunks))]


def batched(reader: BatchSplitReader, pieces: Sequence[BatchSplit]) -> list[tuple[object, ...]]:
    chunks = read(reader, pieces)
    return [*rows(chunks), *((each.error, each.position, each.raw) for each in bad(chunks))]


@pytest.mark.parametrize("step", [1, 2, 37, 200, 5000])
@pytest.mark.parametrize("seed", range(8))
def test_lines_are_divided_anywhere(tmp_path: Path, step: int, seed: int) -> None:
    data = text_of(seed, 0, 40).replace(b'"id": 7,', b'"id": "7",')
    mark = b"\xef\xbb\xbf" if seed % 2 else b""
    (tmp_path / "a.jsonl").write_bytes(mark + data)
    text = f"{{files: {{path: a.jsonl}}, {SCHEMA}, on_error: skip}}"
    reader = small(pieces_of(tmp_path, text), step)
    pieces = divided(reader)
    assert step > len(data) // 2 or len(pieces) > 1
    assert batched(reader, pieces) == streamed(tmp_path, text, "a.jsonl")
    again = random.Random(seed).sample(list(pieces), len(pieces))
    assert Counter(rows(read(reader, again))) == Counter(rows(read(reader, pieces)))


def test_a_header_stands_at_the_head_alone_and_all_pieces_know_it(tmp_path: Path) -> None:
    lines = ["name,id", *(f"n{at},{at}" for at in range(500))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    text = f"{{files: {{path: a.csv}}, format: csv, {SCHEMA}}}"
    reader = small(pieces_of(tmp_path, text), 100)
    pieces = divided(reader)
    assert len(pieces) > 20
    assert rows(read(reader, pieces)) == [(at, f"n{at}") for at in range(500)]


def test_csv_is_divided_before_its_first_quote_only(tmp_path: Path) -> None:
    plain = "".join(f"{at},n{at}\n" for at in range(300))
    quoted = "".join(f'{at},"a\n{at}"\n' for at in range(300, 600))
    (tmp_path / "a.csv").write_text(f"id,name\n{plain}{quoted}")
    text = f"{{files: {{path: a.csv}}, format: csv, {SCHEMA}}}"
    reader = small(pieces_of(tmp_path, text), 200)
    pieces = divided(reader)
    assert len(pieces) > 5
    found = rows(read(reader, pieces))
    assert found[299:302] == [(299, "n299"), (300, "a\n300"), (301, "a\n301")]
    assert len(found) == 600


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_is_compressed_is_one_piece(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.jsonl{suffix}").write_bytes(PACK[suffix](text_of(1, 0, 100)))
    text = f"{{files: {{path: a.jsonl{suffix}}}, {SCHEMA}}}"
    reader = small(pieces_of(tmp_path, text), 10)
    pieces = divided(reader)
    assert len(pieces) == 1
    assert batched(reader, pieces) == streamed(tmp_path, text, f"a.jsonl{suffix}")


def test_files_without_records_give_none(tmp_path: Path) -> None:
    for name, data in {"a": "", "b": "\n \n", "c": "", "d": '{"id": 1}'}.items():
        (tmp_path / f"{name}.jsonl").write_text(data)
    reader = pieces_of(tmp_path, f"{{files: {{path: '*.jsonl'}}, {SCHEMA}}}")
    assert rows(read(reader, divided(reader))) == [(1, None)]
    (tmp_path / "a.csv").write_text("id,name\n")
    (tmp_path / "b.csv").write_text("")
    reader = pieces_of(tmp_path, f"{{files: {{path: '*.csv'}}, format: csv, {SCHEMA}}}")
    assert rows(read(reader, divided(reader))) == []


def test_a_large_file_has_a_piece_for_each_core_and_small_ones_are_whole(tmp_path: Path) -> None:
    line = b'{"id": 1, "name": "%b"}\n' % (b"x" * 1000)
    (tmp_path / "large.jsonl").write_bytes(line * 36_000)
    (tmp_path / "small.jsonl").write_bytes(line * 1000)
    reader = pieces_of(tmp_path, f"{{files: {{path: '*.jsonl'}}, {SCHEMA}}}")
    names = [piece.split.name for piece in divided(reader, many=4)]
    assert names == ["large.jsonl"] * 4 + ["small.jsonl"]


def test_a_file_that_grows_is_read_as_far_as_it_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"id": 1}\n')
    reader = pieces_of(tmp_path, f"{{files: {{path: a.jsonl}}, {SCHEMA}}}")
    pieces = divided(reader)
    file.write_bytes(b'{"id": 1}\n{"id": 2}\n')
    assert rows(read(reader, pieces)) == [(1, None)]


@pytest.mark.parametrize(
    ("data", "says"), [(b'{"id": 2}\n', "was changed"), (b"{}\n", "shrank from 10 to 3 bytes")]
)
def test_a_file_that_is_changed_before_it_is_read_is_noticed(
    tmp_path: Path, data: bytes, says: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"id": 1}\n')
    reader = pieces_of(tmp_path, f"{{files: {{path: a.jsonl}}, {SCHEMA}}}")
    (piece,) = divided(reader)
    stretch = piece.record_range
    assert isinstance(stretch, FileRange)
    file.write_bytes(data)
    other = replace(stretch.version, modified_ns=stretch.version.modified_ns - 1)
    with pytest.raises(ConnectorError, match=f"a.jsonl {says}"):
        read(reader, [replace(piece, record_range=replace(stretch, version=other))])


def parquet(folder: Path, name: str, frame: pl.DataFrame) -> None:
    frame.write_parquet(folder / name, row_group_size=READ_ROWS)


PARQUET = "format: parquet, schema: {id: bigint not null, name: string}"


def test_a_file_of_parquet_that_all_read_alike_is_said_to_be_so(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": range(10), "name": [None, *"abcdefghi"]})
    parquet(tmp_path, "a.parquet", frame)
    parquet(tmp_path, "b.parquet", frame.with_columns(pl.col("id").cast(pl.Int32)))
    parquet(tmp_path, "c.parquet", frame.with_columns(pl.when(pl.col("id") != 7).then("id")))
    frame.write_parquet(tmp_path / "d.parquet", statistics=False)
    frame.write_parquet(tmp_path / "e.parquet", compression="lz4")
    reader = pieces_of(tmp_path, f"{{files: {{path: '*.parquet'}}, {PARQUET}, on_error: skip}}")
    pieces = divided(reader)
    assert [piece.parquet is not None for piece in pieces] == [True] + 4 * [False]
    assert pieces[0].parquet is not None and pieces[0].parquet.rows == 10
    found = read(reader, pieces)
    assert len(rows(found)) == 49
    assert [(each.position, each.error) for each in bad(found)] == [
        (7, 'column "id": wanted bigint not null, got null')
    ]


def test_a_column_named_like_the_field_of_another_is_none(tmp_path: Path) -> None:
    inner = pl.DataFrame({"a.b": [1, None], "a": [{"b": 1}, {"b": 2}]})
    parquet(tmp_path, "a.parquet", inner)
    text = '{files: {path: a.parquet}, format: parquet, schema: {"a.b": bigint not null}}'
    (piece,) = divided(pieces_of(tmp_path, text))
    assert piece.parquet is None


def test_large_files_of_parquet_are_divided_by_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": pl.int_range(3 * READ_ROWS + 5, eager=True, dtype=pl.Int32)})
    parquet(tmp_path, "a.parquet", frame)
    text = "{files: {path: a.parquet}, format: parquet, schema: {id: bigint}}"
    reader = small(pieces_of(tmp_path, text), 1)
    pieces = divided(reader)
    assert len(pieces) == 4
    assert rows(read(reader, pieces)) == [(at,) for at in range(3 * READ_ROWS + 5)]


def test_a_wrong_file_of_parquet_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    parquet(tmp_path, "a.parquet", pl.DataFrame({"id": [1], "name": [2]}))
    reader = pieces_of(tmp_path, f"{{files: {{path: a.parquet}}, {PARQUET}}}")
    with pytest.raises(ConnectorError, match='column "name": wanted string') as refused:
        divided(reader)
    assert refused.value.split == "a.parquet"


@pytest.mark.parametrize("rate", ["", ", rate: 1000/s"])
def test_numbers_are_dealt_in_runs_and_wait_for_no_clock(tmp_path: Path, rate: str) -> None:
    count = 5 * BLOCK_ROWS + 1
    reader = pieces_of(tmp_path, f"{{generate: {{rows: {count}, columns: {{x: id}}{rate}}}}}")
    pieces = divided(reader, many=4)
    assert len(pieces) >= 3
    assert rows(read(reader, pieces)) == [(at,) for at in range(count)]


def test_a_rate_says_when_events_happen_and_not_when_they_come(tmp_path: Path) -> None:
    text = "{nexmark: {events: 100000, rate: 777/s, seed: 3, stream: persons}}"
    reader = pieces_of(tmp_path, text)
    names = [column.split()[0] for column in STREAMS["persons"].split(", ")]
    wanted = NexmarkEvents("persons", 3, 1_000_000 / 777).make_frame(0, 100_000, names)
    assert rows(read(reader, divided(reader, many=9))) == wanted.rows()
