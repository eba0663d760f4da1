"""A read-ahead gives what the reader would give, and is used where it fits."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headrace.connectors.files.text_reader import TextFileReader
from headrace.connectors.read_ahead import ReadAhead, ReadAheadReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import RecordReader
from headrace.core.api.splits import Position, Split
from tests.support.file_pipelines import chunks, source_of, values

FILE = Split("s", "a.jsonl", number=5)
READ_AHEAD = Split("s", "a.jsonl")


def open_reader(folder: Path, records: int, end: bytes = b"") -> RecordReader:
    """A reader of blocks of two records, whose first bad record fails it."""
    lines = b"".join(b'{"id": %d}\n' % (at % 10) for at in range(records))
    (folder / "a.jsonl").write_bytes(lines + end)
    text = "{files: {path: a.jsonl}, schema: {id: bigint}}"
    _, reader = source_of(folder, text, block=2 * len('{"id": 1}\n'))
    return reader


def list_read_ahead_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("headrace-read-ahead")]


@pytest.mark.parametrize("records", [0, 1, 2, 5, 6, 7, 8, 20])
def test_chunks_are_those_of_the_reader(tmp_path: Path, records: int) -> None:
    reader = open_reader(tmp_path, records)
    found = chunks(ReadAheadReader(reader, ReadAhead(reader, READ_AHEAD)), FILE)
    wanted = chunks(reader, FILE)
    assert values(found) == values(wanted)
    assert [chunk.position for chunk in found] == [chunk.position for chunk in wanted]
    assert [chunk.identity for chunk in found] == [chunk.identity for chunk in wanted]
    assert {chunk.split.number for chunk in found} <= {FILE.number}


@pytest.mark.parametrize("split, at", [(FILE, 20), (Split("s", "b.jsonl"), None)])
def test_what_does_not_fit_is_read_anew(tmp_path: Path, split: Split, at: Position) -> None:
    reader = open_reader(tmp_path, 8)
    (tmp_path / "b.jsonl").write_bytes((tmp_path / "a.jsonl").read_bytes()[20:])
    read_ahead = ReadAhead(reader, READ_AHEAD)
    assert values(chunks(ReadAheadReader(reader, read_ahead), split, at)) == [
        (n,) for n in range(2, 8)
    ]
    read_ahead.close()


def test_a_split_that_is_read_again_is_read_anew(tmp_path: Path) -> None:
    reader = open_reader(tmp_path, 8)
    continuing = ReadAheadReader(reader, ReadAhead(reader, READ_AHEAD))
    assert values(chunks(continuing, FILE)) == values(chunks(continuing, FILE))


def test_an_error_is_raised_after_the_chunks_before_it(tmp_path: Path) -> None:
    opened = open_reader(tmp_path, 4, b"x" * 200)
    assert isinstance(opened, TextFileReader)
    reader = TextFileReader(opened.folder, opened.decoder, opened.block, max_record_bytes=100)
    read = ReadAheadReader(reader, ReadAhead(reader, READ_AHEAD)).read(FILE, None)
    assert values([next(read), next(read)]) == [(0,), (1,), (2,), (3,)]
    with pytest.raises(ConnectorError, match="longer than max_record"):
        next(read)


@pytest.mark.parametrize("taken", [0, 1, 4])
def test_closing_ends_the_thread_and_closes_the_file(tmp_path: Path, taken: int) -> None:
    reader = open_reader(tmp_path, 20)
    read_ahead = ReadAhead(reader, READ_AHEAD)
    read = read_ahead.read(FILE)
    for _ in range(taken):
        next(read)
    read_ahead.close()
    for thread in list_read_ahead_threads():
        thread.join()
    assert list(read) == []
