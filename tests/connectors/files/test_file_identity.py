"""A file that was read in part is read on only if it is still the same, by its content."""

from __future__ import annotations

import io
import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.files.file_identity import BLOCK_BYTES, parse_identity
from headrace.connectors.files.parquet_reader import ParquetFileReader
from headrace.connectors.files.source import FolderSource
from headrace.connectors.files.text_reader import TextFileReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import Chunk, RecordReader
from headrace.core.api.splits import Progress, Split
from tests.support.file_pipelines import PACK, source_of, values

LINES = 60
OPTIONS = {
    ".jsonl": "schema: {id: bigint}",
    ".csv": "format: csv, schema: {id: bigint}",
    ".txt": "format: raw",
    ".parquet": "format: parquet, schema: {id: bigint}",
}
TEXTS = [f"a{suffix}{packed}" for suffix in (".jsonl", ".csv", ".txt") for packed in PACK]
PARQUET = "a.parquet"
RESET_HINT = "put back the file that was read; --reset-state s reads s again from its start"


def encode(name: str, first: int, count: int, *, header: bool = True) -> bytes:
    """The content of a file with these ids; all lines are of one length."""
    ids = range(10_000 + first, 10_000 + first + count)
    if name == PARQUET:
        pl.DataFrame({"id": ids}).write_parquet(buffer := io.BytesIO(), compression="uncompressed")
        return buffer.getvalue()
    line = '{{"id": {}}}\n' if ".jsonl" in name else "{}\n"
    head = "id\n" if ".csv" in name and header else ""
    text = head + "".join(line.format(id) for id in ids)
    return PACK[os.path.splitext(name)[1] if name.count(".") > 1 else ""](text.encode())


class PartlyRead:
    """A file of which some chunks were read by one run; another run resumes."""

    def __init__(self, folder: Path, name: str, content: bytes, read: int = 3) -> None:
        self.folder, self.path, self.told = folder, folder / name, list[str]()
        self.path.write_bytes(content)
        self.split = Split("s", name)
        reading = self._open()[1].read(self.split, None)
        found = [*islice(reading, read)]
        self.rows_before = values(found)
        self.progress = Progress(found[-1].position, identity=found[-1].identity)

    def _open(self) -> tuple[FolderSource, RecordReader]:
        options = OPTIONS["." + self.path.name.split(".")[1]]
        text = f"{{files: {{path: {self.path.name}}}, {options}}}"
        source, reader = source_of(self.folder, text, block=100)
        assert isinstance(source, FolderSource)
        if isinstance(reader, ParquetFileReader):
            reader = replace(reader, rows=7)
        source.run_context = replace(source.run_context, notify_user=self.told.append)
        return source, reader

    def resume(self) -> list[tuple[object, ...]]:
        """Read the rest in another run; return the rows of both."""
        source, reader = self._open()
        source.check_progress({self.split: self.progress})
        assert isinstance(reader, TextFileReader | ParquetFileReader)
        reader = replace(reader, resumed_identities=source.resumed_identities)
        return self.rows_before + values([*reader.read(self.split, self.progress.position)])


def put(path: Path, data: bytes) -> None:
    """Put another file in the place of one."""
    other = path.with_name("other")
    other.write_bytes(data)
    other.replace(path)


def rewrite(path: Path, data: bytes) -> None:
    """Write into the file, and give it its old modification time."""
    before = path.stat()
    with path.open("r+b") as opened:
        opened.write(data)
        opened.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def touch(path: Path) -> None:
    os.utime(path, (1, 1))


def copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def ids(first: int, count: int) -> list[int]:
    return list(range(10_000 + first, 10_000 + first + count))


def as_ids(rows: list[tuple[object, ...]]) -> list[int]:
    return [int(str(re.sub(r"\D", "", str(id)))) for (id,) in rows]


@pytest.mark.parametrize("read", [1, 3, 6])
@pytest.mark.parametrize("change", [touch, copy])
@pytest.mark.parametrize("name", [*TEXTS, PARQUET])
def test_the_same_content_is_read_on_whatever_its_time_and_inode(
    tmp_path: Path, name: str, change: Callable[[Path], None], read: int
) -> None:
    file = PartlyRead(tmp_path, name, encode(name, 0, LINES), read)
    change(file.path)
    assert as_ids(file.resume()) == ids(0, LINES)
    assert file.told == []


OTHERS = {"of the same length": (500, LINES), "longer": (500, 2 * LINES), "shorter": (500, 2)}


@pytest.mark.parametrize("change", [put, rewrite])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", [*TEXTS, PARQUET])
def test_other_content_is_refused(
    tmp_path: Path, name: str, other: str, change: Callable[[Path, bytes], None]
) -> None:
    file = PartlyRead(tmp_path, name, encode(name, 0, LINES))
    data = encode(name, *OTHERS[other])
    change(file.path, data)
    with pytest.raises(ConnectorError) as refused:
        file.resume()
    error = refused.value
    assert error.message.startswith(
        f"{name} is not the file that was read up to {file.progress.position}: "
    )
    assert (error.hint, error.exit_status, error.split) == (RESET_HINT, 3, name)
    # A reader that opens the file only now refuses it as well.
    identities = {name: str(file.progress.identity)}
    reader = file._open()[1]
    assert isinstance(reader, TextFileReader | ParquetFileReader)
    reader = replace(reader, resumed_identities=identities)
    with pytest.raises(ConnectorError, match="is not the file that was read"):
        next(reader.read(file.split, file.progress.position))


@pytest.mark.parametrize("name", [name for name in TEXTS if name.count(".") == 1])
def test_a_changed_file_is_reported_with_what_was_expected(tmp_path: Path, name: str) -> None:
    data = encode(name, 0, LINES)
    file = PartlyRead(tmp_path, name, data)
    at = file.progress.position
    for other, said in (
        (encode(name, 500, LINES), f"bytes 0 to {at} are not those that were read"),
        (data[:20], f"wanted at least {at} bytes, got 20"),
    ):
        put(file.path, other)
        with pytest.raises(ConnectorError, match=f"read up to {at}: {said}$"):
            file.resume()


def test_parquet_of_another_length_is_refused_with_both(tmp_path: Path) -> None:
    data = encode(PARQUET, 0, LINES)
    file = PartlyRead(tmp_path, PARQUET, data)
    put(file.path, data + b"x")
    with pytest.raises(ConnectorError, match=f"wanted {len(data)} bytes, got {len(data) + 1}$"):
        file.resume()


def test_parquet_with_the_same_footer_and_other_data_is_refused(tmp_path: Path) -> None:
    data = encode(PARQUET, 0, LINES)
    row = (10_030).to_bytes(8, "little")
    assert data.count(row) == 1
    file = PartlyRead(tmp_path, PARQUET, data)
    rewrite(file.path, data.replace(row, (10_031).to_bytes(8, "little")))
    with pytest.raises(ConnectorError, match="are not those that were read"):
        file.resume()


@pytest.mark.parametrize("name", TEXTS)
def test_appended_lines_are_read_and_reported_once(tmp_path: Path, name: str) -> None:
    file = PartlyRead(tmp_path, name, encode(name, 0, LINES))
    added = encode(name, LINES, 5, header=False)
    with file.path.open("ab") as opened:
        opened.write(added)
    assert as_ids(file.resume()) == ids(0, LINES + 5)
    assert file.told == [
        f"s: {name} has grown by {len(added)} bytes since it was read: the new lines are read as"
        " well"
    ]


def test_lines_after_the_position_may_be_corrected(tmp_path: Path) -> None:
    file = PartlyRead(tmp_path, "a.txt", encode("a.txt", 0, LINES))
    put(file.path, encode("a.txt", 0, LINES - 2))
    assert as_ids(file.resume()) == ids(0, LINES - 2)


@pytest.mark.parametrize("name", [*TEXTS, PARQUET])
def test_a_position_without_an_identity_is_accepted(tmp_path: Path, name: str) -> None:
    file = PartlyRead(tmp_path, name, encode(name, 0, LINES))
    file.progress = replace(file.progress, identity=None)
    touch(file.path)
    assert as_ids(file.resume()) == ids(0, LINES)


def test_a_finished_or_unread_file_may_change(tmp_path: Path) -> None:
    file = PartlyRead(tmp_path, "a.txt", encode("a.txt", 0, LINES))
    put(file.path, encode("a.txt", 500, LINES))
    over = replace(file.progress, is_finished=True)
    for progress in (over, Progress()):
        file._open()[0].check_progress({file.split: progress})


def test_a_missing_file_is_reported_with_its_position(tmp_path: Path) -> None:
    file = PartlyRead(tmp_path, "a.txt", encode("a.txt", 0, LINES))
    file.path.unlink()
    with pytest.raises(ConnectorError) as missing:
        file.resume()
    position = file.progress.position
    assert missing.value.message == f"a.txt was read up to {position}, and is missing"
    assert missing.value.hint.startswith("put it back; --reset-state s reads s again")


def test_the_last_block_before_the_position_decides(tmp_path: Path) -> None:
    data = bytearray(b"".join(b"%09d\n" % number for number in range(20_000)))
    source, reader = source_of(tmp_path, "{files: {path: a.txt}, format: raw}", block=150_000)
    assert isinstance(source, FolderSource) and isinstance(reader, TextFileReader)
    (tmp_path / "a.txt").write_bytes(data)
    chunk = next(reader.read(Split("s", "a.txt"), None))
    assert isinstance(chunk.position, int) and chunk.identity is not None
    first = chunk.position - BLOCK_BYTES
    found = parse_identity(chunk.identity)
    assert (found.size, found.first, found.end) == (len(data), first, chunk.position)
    progress = {Split("s", "a.txt"): Progress(chunk.position, identity=chunk.identity)}
    for at, is_same in ((first - 1, True), (first, False), (chunk.position - 1, False)):
        changed = data.copy()
        changed[at] ^= 1
        (tmp_path / "a.txt").write_bytes(changed)
        if is_same:
            source.check_progress(progress)
        else:
            with pytest.raises(ConnectorError, match=f"bytes {first} to {chunk.position} are not"):
                source.check_progress(progress)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("suffix", PACK)
def test_a_last_line_that_gets_its_end_later_is_one_row(
    tmp_path: Path, suffix: str, line_end: str
) -> None:
    file = PartlyRead(tmp_path, f"a.txt{suffix}", PACK[suffix](b"one\ntwo"), read=1)
    with file.path.open("ab") as opened:
        opened.write(PACK[suffix](f"{line_end}three\n".encode()))
    assert file.resume() == [("one",), ("two",), ("three",)]


@pytest.mark.parametrize("suffix", PACK)
def test_a_last_line_that_is_continued_later_is_refused(tmp_path: Path, suffix: str) -> None:
    file = PartlyRead(tmp_path, f"a.txt{suffix}", PACK[suffix](b"one\ntwo"), read=1)
    with file.path.open("ab") as opened:
        opened.write(PACK[suffix](b"2\nthree\n"))
    with pytest.raises(ConnectorError, match="up to 7, within a line that has been continued"):
        file.resume()


def test_a_last_line_that_is_continued_while_it_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo")
    _, reader = source_of(tmp_path, "{files: {path: a.txt}, format: raw}")
    reading = reader.read(Split("s", "a.txt"), None)
    assert isinstance(next(reading), Chunk)
    with (tmp_path / "a.txt").open("ab") as opened:
        opened.write(b"2\n")
    with pytest.raises(ConnectorError, match="within a line that has been continued since"):
        next(reading)


PIECES = st.binary(max_size=8) | st.sampled_from([b"\n", b"\n\n", b"x\n", b"\r\n", b"\r"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@given(
    st.sampled_from([*PACK]),
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.floats(0, 1),
    st.integers(0, 9),
    PIECES,
    st.booleans(),
)
def test_what_is_read_in_two_runs_is_what_the_file_has_or_it_is_refused(
    folder: Path,
    suffix: str,
    seed: int,
    read: int,
    at: float,
    removed: int,
    added: bytes,
    is_appended: bool,
) -> None:
    chance = random.Random(seed)
    lines = [b"x" * chance.randrange(40) for _ in range(30)]
    text = b"\n".join(lines) + b"\n" * chance.randrange(2)
    cut = len(text) if is_appended else int(at * len(text))
    changed = text[:cut] + added + text[cut + removed :]
    data = PACK[suffix](text)
    file = PartlyRead(folder, f"a.txt{suffix}", data, read)
    if is_appended:
        put(file.path, data + (PACK[suffix](added) if added else b""))
    else:
        put(file.path, data if changed == text else PACK[suffix](changed))
    try:
        found = file.resume()
    except ConnectorError as refused:
        assert "not the file that was read" in refused.message or "continued" in refused.message
        assert changed != text
    else:
        (folder / "whole.txt").write_bytes(changed)
        _, reader = source_of(folder, "{files: {path: whole.txt}, format: raw}")
        assert found == values([*reader.read(Split("s", "whole.txt"), None)])
