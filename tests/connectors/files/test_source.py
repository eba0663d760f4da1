"""Files as a source: which they are, and that every record is read once, however it is cut."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.files.parquet_reader import ParquetFileReader
from headrace.connectors.files.text_reader import TextFileReader
from headrace.connectors.memory import InMemoryData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Split
from tests.support.file_pipelines import PACK, chunks, run, source_of, values
from tests.support.runtime.memory_pipelines import rows

SCHEMA = "schema: {id: bigint, name: string}"


def record(number: int, name: object = None) -> bytes:
    return json.dumps({"id": number, "name": name}, ensure_ascii=False).encode()


def text_of(seed: int, first: int, count: int) -> bytes:
    """Records with blank lines between some, some of them long; the last may lack its newline."""
    chance = random.Random(seed)
    lines = []
    for number in range(first, first + count):
        lines += [b""] * (chance.random() < 0.2)
        lines.append(record(number, "ä" * chance.choice([0, 1, 5, 90])))
    return b"\n".join(lines) + b"\n" * chance.randrange(3)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("block", [1, 7, 64, 4096])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_every_record_is_read_once(
    tmp_path: Path, suffix: str, block: int, parallelism: int
) -> None:
    (tmp_path / "in").mkdir()
    for at in range(4):
        data = PACK[suffix](text_of(at, at * 30, 30 if at else 1))
        (tmp_path / f"in/{at}.jsonl{suffix}").write_bytes(data)
    memory = InMemoryData()
    text = f"""
settings: {{parallelism: {parallelism}}}
sources:
  s: {{files: {{path: in}}, {SCHEMA}}}
sinks:
  o: {{from: s, memory: {{data: out}}}}
"""
    assert run(tmp_path, text, memory=memory, block=block).failure is None
    assert Counter(id for id, _ in rows(memory, "out")) == Counter([0, *range(30, 120)])


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("json", text_of(3, 0, 40)),
        ("csv", b"id,name\n" + b"".join(b'%d,"n\n""%d"\n' % (i, i) for i in range(40))),
    ],
)
def test_reading_resumes_at_the_position_of_any_chunk(
    tmp_path: Path, suffix: str, format: str, text: bytes
) -> None:
    (tmp_path / f"a{suffix}").write_bytes(PACK[suffix](text))
    source = f"{{files: {{path: a{suffix}}}, format: {format}, {SCHEMA}}}"
    for block in (32, 100, 1000):
        _, reader = source_of(tmp_path, source, block=block)
        found = chunks(reader, Split("s", f"a{suffix}"))
        assert [id for id, _ in values(found)] == list(range(40))
        for at, chunk in enumerate(found):
            _, again = source_of(tmp_path, source, block=block + 13)
            rest = chunks(again, Split("s", f"a{suffix}"), chunk.position)
            assert values(rest) == values(found[at + 1 :])


def test_a_position_is_the_byte_after_a_record(tmp_path: Path) -> None:
    lines = [record(1) + b"\n", b"\n", record(2) + b"\n", b"oops\n", record(3)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    _, reader = source_of(tmp_path, f"{{files: {{path: a.jsonl}}, on_error: skip, {SCHEMA}}}")
    (chunk,) = chunks(reader, Split("s", "a.jsonl"))
    assert chunk.position == len(b"".join(lines))
    assert [(bad.position, bad.raw) for bad in chunk.bad_records] == [
        (len(b"".join(lines[:3])), "oops")
    ]
    assert chunk.locate_rows([1, 0]) == [len(b"".join(lines[:2])), 0]


def test_a_byte_order_mark_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + record(1))
    _, reader = source_of(tmp_path, f"{{files: {{path: a.jsonl}}, {SCHEMA}}}")
    assert values(chunks(reader, Split("s", "a.jsonl"))) == [(1, None)]


@pytest.mark.parametrize("format", ["json", "csv", "raw"])
@pytest.mark.parametrize("text", [b"", b"\n\n"])
def test_a_file_without_records_has_no_rows(tmp_path: Path, format: str, text: bytes) -> None:
    (tmp_path / "a").write_bytes(text if format == "json" else b"")
    schema = "schema: {value: string}" if format == "raw" else SCHEMA
    _, reader = source_of(tmp_path, f"{{files: {{path: a}}, format: {format}, {schema}}}")
    assert values(chunks(reader, Split("s", "a"))) == []


def test_a_record_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(1) + b"\n" + b"x" * 5000)
    _, reader = source_of(tmp_path, f"{{files: {{path: a.jsonl}}, {SCHEMA}}}", block=64)
    assert isinstance(reader, TextFileReader)
    short = TextFileReader(reader.folder, reader.decoder, 64, max_record_bytes=1024)
    with pytest.raises(ConnectorError, match="has a record longer than") as raised:
        chunks(short, Split("s", "a.jsonl"))
    assert (raised.value.split, raised.value.position) == ("a.jsonl", len(record(1)) + 1)


@pytest.mark.parametrize("block", [64, 4096])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_record_may_have_as_many_bytes_as_the_limit(
    tmp_path: Path, block: int, end: bytes
) -> None:
    last = b'{"id": 2, "name": "%b"}' % (b"x" * 1003)
    for text in (last, last + b" "):
        (tmp_path / "a.jsonl").write_bytes(record(1) + b"\n" + text + end)
        _, reader = source_of(tmp_path, f"{{files: {{path: a.jsonl}}, {SCHEMA}}}", block=block)
        assert isinstance(reader, TextFileReader)
        short = TextFileReader(reader.folder, reader.decoder, block, max_record_bytes=1024)
        if len(text) == 1024:
            assert values(chunks(short, Split("s", "a.jsonl")))[1][0] == 2
            continue
        with pytest.raises(ConnectorError, match="has a record longer than") as raised:
            chunks(short, Split("s", "a.jsonl"))
        assert raised.value.position == len(record(1)) + 1


def test_a_block_may_be_larger_than_a_record(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"".join(record(at) + b"\n" for at in range(100)))
    _, reader = source_of(tmp_path, f"{{files: {{path: a.jsonl}}, {SCHEMA}}}")
    assert isinstance(reader, TextFileReader)
    short = TextFileReader(reader.folder, reader.decoder, 1 << 20, max_record_bytes=100)
    assert len(chunks(short, Split("s", "a.jsonl"))) == 1


def test_a_reader_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(7))
    _, reader = source_of(tmp_path, f"{{files: {{path: a.jsonl}}, {SCHEMA}}}")
    again = pickle.loads(pickle.dumps(reader))
    assert values(chunks(again, Split("s", "a.jsonl"))) == [(7, None)]


TREE = (
    *("in/b.jsonl", "in/a.jsonl", "in/deep/c.jsonl", "in/deep/er/d.jsonl", "in/e.csv"),
    *("in/.hidden", "in/_SUCCESS", "in/.git/x.jsonl", "in/_tmp/x.jsonl", "in/_day=1/f.jsonl"),
    "data[1].jsonl",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in TREE:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(record(1))
    return tmp_path


def found(folder: Path, path: str) -> list[str]:
    source, _ = source_of(folder, f"{{files: {{path: '{path}'}}, {SCHEMA}}}")
    return [split.name for split in source.discover_splits()]


IN = ["in/_day=1/f.jsonl", "in/a.jsonl", "in/b.jsonl", "in/deep/c.jsonl", "in/deep/er/d.jsonl"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("in", [*IN, "in/e.csv"]),
        ("./in/", [*IN, "in/e.csv"]),
        ("in/*.jsonl", ["in/a.jsonl", "in/b.jsonl"]),
        ("in/[!a].jsonl", ["in/b.jsonl"]),
        ("i?/a.*", ["in/a.jsonl"]),
        ("in/**/*.jsonl", ["in/_day=1/f.jsonl", "in/_tmp/x.jsonl", *IN[1:]]),
        ("in/deep/**", ["in/deep/c.jsonl", "in/deep/er/d.jsonl"]),
        ("in/**/er/*", ["in/deep/er/d.jsonl"]),
        ("*/*/c.jsonl", ["in/deep/c.jsonl"]),
        ("in/.h*", ["in/.hidden"]),
        ("in/_*S", ["in/_SUCCESS"]),
        ("in/a.jsonl", ["in/a.jsonl"]),
        ("data[1].jsonl", ["data[1].jsonl"]),
        ("in/../in/e.csv", ["in/../in/e.csv"]),
    ],
)
def test_which_files_a_path_means(tree: Path, path: str, names: list[str]) -> None:
    assert found(tree, path) == sorted(names)


def test_a_path_may_be_absolute(tree: Path) -> None:
    assert found(tree, f"{tree}/in/*.csv") == [f"{tree}/in/e.csv"]


@pytest.mark.parametrize(
    ("path", "said", "hint"),
    [
        (
            "in/*.json",
            "no file matches in/*.json, looked for in {}",
            "in holds a.jsonl, b.jsonl, deep, e.c",
        ),
        ("inn/*.jsonl", "no file matches inn/*.jsonl", 'did you mean "in"?'),
        ("in/a.jsonk", "no file matches in/a.jsonk, looked for in {}", 'did you mean "a.jsonl"?'),
        (
            "*.csv",
            "no file matches *.csv, looked for in {}",
            "there are data[1].jsonl, dead, empty,",
        ),
        (
            "in/{a,b}.jsonl",
            "no file matches in/{{a,b}}.jsonl",
            "a pattern may have *, ?, [...] and **",
        ),
        ("in/_none", "no files in the folder in/_none", "names that start with . or _ are left"),
        ("empty", "no files in the folder empty", ""),
        ("empty/*", "no file matches empty/*", "empty is empty"),
        ("in/a.jsonl/*", "no file matches in/a.jsonl/*", "in/a.jsonl is a file"),
        ("in/d*p", "in/deep is a folder, wanted a file", "in/deep/** reads the files in it"),
        ("pipe", "pipe is not a regular file", "stdin reads from a pipe"),
        ("dead", "dead is a dangling link, wanted a file", "it points to gone"),
    ],
)
def test_what_is_said_where_nothing_can_be_read(
    tree: Path, path: str, said: str, hint: str
) -> None:
    (tree / "empty").mkdir()
    (tree / "in/_none/_x").mkdir(parents=True)
    os.mkfifo(tree / "pipe")
    (tree / "dead").symlink_to("gone")
    with pytest.raises(ConnectorError) as raised:
        found(tree, path)
    assert raised.value.message.startswith(said.format(tree))
    assert raised.value.hint.startswith(hint)
    assert raised.value.exit_status == 2


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s3://bucket/in/*.jsonl", '"s3://" is not supported yet'),
        ("file:///tmp/x", "wanted a path, got a URL"),
    ],
)
def test_a_url_is_refused_by_name(tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        source_of(tmp_path, f"{{files: {{path: '{path}'}}, {SCHEMA}}}")


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    names = [None if id % 4 == 3 else f"n{id}" for id in range(20)]
    pl.DataFrame({"id": range(20), "name": names}).write_parquet(tmp_path / "a.parquet")
    return tmp_path


PARQUET = "{files: {path: a.parquet}, format: parquet, schema: {id: bigint, name: %s}}"


@pytest.mark.parametrize("rows", [1, 3, 20, 100])
def test_parquet_is_read_from_any_row_on(parquet: Path, rows: int) -> None:
    _, reader = source_of(parquet, PARQUET % "string")
    assert isinstance(reader, ParquetFileReader)
    reader = pickle.loads(pickle.dumps(replace(reader, rows=rows)))
    found = chunks(reader, Split("s", "a.parquet"))
    assert [id for id, _ in values(found)] == list(range(20))
    for chunk in found:
        rest = chunks(reader, Split("s", "a.parquet"), chunk.position)
        assert [id for id, _ in values(rest)] == list(range(int(str(chunk.position)), 20))


def test_a_bad_row_of_parquet_has_its_number(parquet: Path) -> None:
    _, reader = source_of(parquet, PARQUET % "string not null")
    assert isinstance(reader, ParquetFileReader)
    found = chunks(replace(reader, rows=6), Split("s", "a.parquet"))
    bad = [bad for chunk in found for bad in chunk.bad_records]
    assert [one.position for one in bad] == [3, 7, 11, 15, 19]
    assert found[1].locate_rows([0, 3]) == [6, 10]
    assert bad[0].raw == '{"id":3,"name":null}'
    assert len(values(found)) == 15


@pytest.mark.parametrize("limit", [1, 7, 20, 50])
def test_a_limit_counts_rows_of_parquet(parquet: Path, limit: int) -> None:
    _, reader = source_of(parquet, PARQUET % "string", limit=limit)
    assert len(values(chunks(reader, Split("s", "a.parquet")))) == min(limit, 20)


def test_damaged_parquet_is_reported_with_its_file(parquet: Path) -> None:
    _, reader = source_of(parquet, PARQUET % "string")
    (parquet / "a.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(ConnectorError) as raised:
        chunks(reader, Split("s", "a.parquet"))
    assert raised.value.message.startswith("the file cannot be read as Parquet")
    assert (raised.value.split, raised.value.position) == ("a.parquet", 0)


def test_parquet_that_changes_while_it_is_read(parquet: Path) -> None:
    _, reader = source_of(parquet, PARQUET % "string")
    assert isinstance(reader, ParquetFileReader)
    reading = replace(reader, rows=5).read(Split("s", "a.parquet"), None)
    next(reading)
    (parquet / "a.parquet").unlink()
    with pytest.raises(ConnectorError, match="vanished while it was read") as raised:
        list(reading)
    assert raised.value.position == 5
