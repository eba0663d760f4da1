"""Small files that expand to much: memory stays bounded, and what is too large is named."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow
import pyarrow.parquet
import pytest

from headrace.connectors.files.parquet_reader import ParquetFileReader
from headrace.connectors.formats import thrift
from headrace.connectors.formats.parquet_footer import (
    build_chunk_pattern,
    iterate_structs,
    list_flat_columns,
    read_footer,
)
from headrace.connectors.formats.parquet_pages import ParquetPages
from headrace.connectors.formats.parquet_read import ParquetReader
from headrace.connectors.memory import InMemoryData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Split
from tests.support.file_pipelines import PACK, chunks, run
from tests.support.formats.decoding import schema

COLUMNS = schema(id="bigint", s="string", tags="array<string>")
MB = 1 << 20


def reader_of(
    folder: Path,
    frame: pl.DataFrame,
    max_bytes: int,
    max_record: int = 256 * MB,
    dictionary: bool = False,
) -> ParquetFileReader:
    """Write a file of small pages, and return its reader."""
    pyarrow.parquet.write_table(
        frame.to_arrow(),
        folder / "a.parquet",
        row_group_size=frame.height // 3 + 1,
        data_page_size=1,
        write_batch_size=1,
        use_dictionary=dictionary,
        compression="zstd",
    )
    columns = ParquetReader(COLUMNS, COLUMNS)
    return ParquetFileReader(str(folder), columns, max_record_bytes=max_record, max_bytes=max_bytes)


def make_rows(sizes: list[int], tags: list[int]) -> pl.DataFrame:
    """Return rows with texts and arrays of these sizes."""
    texts = [f"{at:05}" + "x" * size for at, size in enumerate(sizes)]
    lists = [[f"{at}"] * size for at, size in enumerate(tags)]
    rows = {"id": range(len(sizes)), "s": texts, "tags": lists}
    return pl.DataFrame(rows, schema_overrides={"tags": pl.List(pl.String)})


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_read_in_parts_whose_pages_fit_into_memory(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice([0, 10, 10, 5000]) for _ in range(400)]
    rows = make_rows(sizes, [chance.choice([0, 0, 3, 40]) for _ in sizes])
    found = chunks(reader_of(tmp_path, rows, 100_000), Split("s", "a.parquet"))
    assert pl.concat([chunk.frame for chunk in found]).equals(rows)
    assert [chunk.position for chunk in found][-1] == 400
    assert all(chunk.frame.estimated_size() < 300_000 for chunk in found)
    assert 3 < len(found) < 60
    (one,) = chunks(reader_of(tmp_path, rows, 64 * MB), Split("s", "a.parquet"))
    assert one.frame.equals(rows)


def test_a_tiny_file_of_huge_values_is_read_row_by_row(tmp_path: Path) -> None:
    rows = make_rows([MB] * 20, [0] * 20)
    reader = reader_of(tmp_path, rows, MB)
    assert (tmp_path / "a.parquet").stat().st_size < MB // 4
    found = chunks(reader, Split("s", "a.parquet"))
    assert [chunk.frame.height for chunk in found] == [1] * 20
    # Columns that are not read take no memory.
    few = ParquetPages(str(tmp_path / "a.parquet"), ["id"], 256 * MB)
    assert few.count_rows(0, 65536, MB) == 65536


def test_a_page_above_the_limit_is_named_with_its_row(tmp_path: Path) -> None:
    rows = make_rows([10] * 40 + [2 * MB] * 20, [0] * 60)
    reader = reader_of(tmp_path, rows, 64 * MB, max_record=MB)
    with pytest.raises(ConnectorError, match='a page of column "s" takes') as raised:
        chunks(reader, Split("s", "a.parquet"))
    assert "more than max_record, 1.0 MB" in raised.value.message
    assert "max_record in settings" in raised.value.hint
    assert (raised.value.split, raised.value.position) == ("a.parquet", 0)


@pytest.mark.parametrize("suffix", [suffix for suffix in PACK if suffix])
def test_compressed_text_without_line_ends_takes_bounded_memory(
    tmp_path: Path, suffix: str
) -> None:
    (tmp_path / f"a.jsonl{suffix}").write_bytes(PACK[suffix](b'{"id": 1}\n' + b" " * (64 * MB)))
    text = f"files: {{path: 'a.jsonl{suffix}'}}, schema: {{id: bigint}}"
    tracemalloc.start()
    failure = fail(tmp_path, text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"a.jsonl{suffix} has a record longer than max_record, 1.0 MB" in failure
    assert failure.startswith("10: ")
    assert peak < 20 * MB


def test_a_quote_without_its_partner_is_named_with_its_place(tmp_path: Path) -> None:
    text = b'id,name\n1,a\n2,"b\n' + b"3,c\n" * MB
    (tmp_path / "a.csv").write_bytes(text)
    source = "files: {path: a.csv}, format: csv, schema: {id: bigint, name: string}"
    failure = fail(tmp_path, source)
    assert failure.startswith(f"{text.index(b'2,')}: a.csv has a record longer than max_record")
    assert "a quote may lack its partner. max_record in settings is the limit" in failure


def test_records_within_the_limit_are_read(tmp_path: Path) -> None:
    lines = [b'{"id": %d, "s": "%b"}' % (at, b"x" * (MB - 20)) for at in range(3)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    assert not fail(tmp_path, "files: {path: a.jsonl}, schema: {id: bigint}")
    lines.append(b'{"id": 7, "s": "%b"}' % (b"x" * MB))
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    assert "has a record longer" in fail(tmp_path, "files: {path: a.jsonl}, schema: {id: bigint}")


def fail(folder: Path, source: str) -> str:
    """Run a pipeline with a limit of 1 MB; return the position and the text of its failure."""
    text = f"""
settings: {{max_record: 1MB}}
sources:
  s: {{{source}}}
sinks:
  o: {{from: s, memory: {{data: out}}}}
"""
    failure = run(folder, text, memory=InMemoryData(), block=64 << 10).failure
    return "" if failure is None else f"{failure.position}: {failure.message} [{failure.hint}]"


DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda data: data[:-8] + b"\xff\xff\xff\x7f" + data[-4:],
    lambda data: data[:-12] + b"\xff" * 4 + data[-8:],
    lambda data: data[: len(data) // 2],
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_an_error_of_the_file(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    reader = reader_of(tmp_path, make_rows([5] * 10, [1] * 10), MB)
    path = tmp_path / "a.parquet"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ConnectorError, match="cannot be read as Parquet"):
        chunks(reader, Split("s", "a.parquet"))


@pytest.mark.parametrize("column", range(3))
def test_a_footer_that_promises_more_values_than_there_are_is_refused(
    tmp_path: Path, column: int
) -> None:
    reader = reader_of(tmp_path, make_rows([5] * 10, [1] * 10), MB)
    path = tmp_path / "a.parquet"
    footer = read_whole_footer(path)
    group = footer[4].items[0]
    assert isinstance(group, dict)
    chunk = group[1].items[column]
    assert isinstance(chunk, dict)
    chunk[3].struct[5].plain = 2**31 - 1  # readers allocate memory for these
    replace_footer(path, footer)
    with pytest.raises(ConnectorError, match="values, not the 2147483647 of the footer"):
        chunks(reader, Split("s", "a.parquet"))


def read_whole_footer(path: Path) -> thrift.ThriftStruct:
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    return thrift.read_struct(data[-8 - size : -8])


def replace_footer(path: Path, footer: thrift.ThriftStruct) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    new = thrift.write_struct(footer)
    path.write_bytes(data[: -8 - size] + new + len(new).to_bytes(4, "little") + b"PAR1")


def test_a_repeated_value_without_a_list_around_it_is_an_array(tmp_path: Path) -> None:
    rows = [[1, 2, 3], [], [4]]
    field = pyarrow.field("n", pyarrow.list_(pyarrow.field("e", "int64", False)), False)
    table = pyarrow.table({"n": rows}, schema=pyarrow.schema([field]))
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table, path, store_schema=False)
    # Files converted from Protocol Buffers have such columns: one repeated value, no list.
    footer = read_whole_footer(path)
    root, _, _, value = footer[2].items
    assert isinstance(value, dict)
    value[3].plain, value[4].plain = 2, b"n"
    footer[2].items[:] = [root, value]
    (group,) = iterate_structs(footer, 4)
    (chunk,) = iterate_structs(group, 1)
    chunk[3].struct[3].items[:] = [b"n"]
    replace_footer(path, footer)
    columns = ParquetReader(schema(n="array<bigint>"), schema(n="array<bigint>"))
    (found,) = chunks(ParquetFileReader(str(tmp_path), columns), Split("s", "a.parquet"))
    assert found.frame["n"].to_list() == rows


@pytest.mark.parametrize("names", [["id"], ["s", "tags"], ["n" * 200], ["none"], []])
@pytest.mark.parametrize("text", [1, 127, 300])
def test_a_footer_has_the_chunks_of_the_wanted_columns(
    tmp_path: Path, names: list[str], text: int
) -> None:
    path = tmp_path / "a.parquet"
    frame = make_rows([text] * 9, [1, 2, 0] * 3).with_columns(
        pl.lit(None, pl.Int64).alias("n" * 200),
        pl.struct("id", b=pl.lit(True)).alias("t"),
        pl.lit(1.5).alias("d"),
    )
    for write in (write_by_polars, write_by_pyarrow):
        write(frame, path)
        whole, found = read_whole_footer(path), read_footer(str(path), names)
        groups = list(iterate_structs(whole, 4))
        assert len(groups) == 3
        wanted = {name.encode() for name in names}
        for group in groups:
            group[1].items[:] = [
                chunk
                for chunk in iterate_structs(group, 1)
                if chunk[3].struct[3].items[0] in wanted
            ]
        assert found == whole
        assert list_flat_columns(found) == {"id", "s", "n" * 200, "d"}


def write_by_polars(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path, row_group_size=3)


def write_by_pyarrow(frame: pl.DataFrame, path: Path) -> None:
    pyarrow.parquet.write_table(frame.to_arrow(), path, row_group_size=3, write_page_index=True)


@pytest.mark.parametrize("write", [write_by_polars, write_by_pyarrow])
def test_chunks_of_other_columns_are_skipped_whole(
    tmp_path: Path, write: Callable[[pl.DataFrame, Path], None]
) -> None:
    path = tmp_path / "a.parquet"
    write(make_rows([5] * 9, [1, 2, 0] * 3), path)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    found = build_chunk_pattern().findall(footer)
    assert found == [b"\x02id", b"\x01s", b"\x04tags"] * 3
