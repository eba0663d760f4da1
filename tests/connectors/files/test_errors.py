"""Files that do not stay what they were, or never were what their name says."""

from __future__ import annotations

import errno
import gzip
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.connectors.files.errors import translate_errors
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import Chunk
from headrace.core.api.splits import Split
from tests.support.file_pipelines import PACK, UNPACK, chunks, source_of

LINE = b'{"id": 1}\n'
SOURCE = "{{files: {{path: {}}}, schema: {{id: bigint}}}}"


def trouble(folder: Path, name: str, change: Callable[[Path], object]) -> ConnectorError:
    """Return the error of a file that changes after its first chunk."""
    _, reader = source_of(folder, SOURCE.format(name), block=200)
    reading = reader.read(Split("s", name), None)
    assert isinstance(next(reading), Chunk)
    change(folder / name)
    with pytest.raises(ConnectorError) as raised:
        list(reading)
    assert (raised.value.split, raised.value.exit_status) == (name, 1)
    return raised.value


def truncate(file: Path) -> None:
    os.truncate(file, 30)


def truncate_a_little(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 10)


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


def rewrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(LINE.replace(b"1", b"2"))
    seen = file.stat().st_mtime_ns
    os.utime(file, ns=(seen, seen + 1_000_000))


def become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Path.unlink, "a.jsonl vanished while it was read"),
        (truncate, "a.jsonl shrank from 1000 to 30 bytes while it was read"),
        (truncate_a_little, "a.jsonl shrank from 1000 to 990 bytes while it was read"),
        (replace, "a.jsonl was replaced by another file while it was read"),
        (become_a_folder, "a.jsonl was replaced by another file while it was read"),
        (rewrite, "a.jsonl was changed while it was read"),
    ],
)
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE * 100)
    error = trouble(tmp_path, "a.jsonl", change)
    assert error.message == said
    assert error.hint.startswith("a file must not change")
    assert error.position == 200


def test_a_file_that_grows_is_read_to_its_new_end(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(LINE * 100)
    _, reader = source_of(tmp_path, SOURCE.format("a.jsonl"), block=200)
    reading = reader.read(Split("s", "a.jsonl"), None)
    rows = next(reading).frame.height
    with file.open("ab") as opened:
        opened.write(LINE * 50)
    assert rows + sum(chunk.frame.height for chunk in reading) == 150


@pytest.mark.parametrize("suffix", PACK)
def test_a_file_shorter_than_its_position_is_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(PACK[suffix](LINE))
    _, reader = source_of(tmp_path, SOURCE.format(f"a{suffix}"))
    assert chunks(reader, Split("s", f"a{suffix}"), len(LINE)) == []
    with pytest.raises(ConnectorError, match="is shorter than it was") as raised:
        chunks(reader, Split("s", f"a{suffix}"), len(LINE) + 1)
    assert raised.value.position == len(LINE) + 1


def test_a_file_that_vanished_before_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    source, reader = source_of(tmp_path, SOURCE.format("a.jsonl"))
    (split,) = source.discover_splits()
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(ConnectorError, match=r"cannot read a\.jsonl: no such file") as raised:
        chunks(reader, split)
    assert raised.value.split == "a.jsonl"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.gz", gzip.compress(os.urandom(5000))[:-100], "ended before the end-of-stream marker"),
        ("a.gz", gzip.compress(LINE * 9)[:-3], "ended before the end-of-stream marker"),
        ("a.gz", gzip.compress(LINE * 9) + b"rubbish", "not a gzipped file"),
        ("a.gz", LINE, "not a gzipped file"),
        ("a.gz", b"", "it is empty, which no compressed file is"),
        ("a.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\xff" * 50, "invalid block type"),
        ("a.zst", PACK[".zst"](LINE * 9)[:-3], "ended before the end-of-stream marker"),
        ("a.zst", LINE, "unable to decompress zstandard data"),
        ("a.zst", b"", "it is empty, which no compressed file is"),
    ],
    ids=range(9),  # bytes with the time would give a test another name in each process
)
def test_a_damaged_compressed_file(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    _, reader = source_of(tmp_path, SOURCE.format(name))
    with pytest.raises(ConnectorError) as raised:
        chunks(reader, Split("s", name))
    assert raised.value.message.startswith(f"cannot read {name}: ")
    assert said in raised.value.message
    assert (raised.value.split, raised.value.position) == (name, 0)
    assert raised.value.hint.startswith("it may be damaged")


def test_a_wrong_header_is_reported_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id;name\n1;x\n")
    _, reader = source_of(tmp_path, "{files: {path: a.csv}, format: csv, schema: {id: bigint}}")
    with pytest.raises(ConnectorError, match='the CSV header has no column "id"') as raised:
        chunks(reader, Split("s", "a.csv"))
    assert (raised.value.split, raised.value.position) == ("a.csv", 0)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_put_together_are_one(tmp_path: Path, suffix: str) -> None:
    data = PACK[suffix](LINE * 3) + PACK[suffix](LINE * 4)
    (tmp_path / f"a{suffix}").write_bytes(data)
    assert UNPACK[suffix](data) == LINE * 7
    _, reader = source_of(tmp_path, SOURCE.format(f"a{suffix}"), block=16)
    assert sum(chunk.frame.height for chunk in chunks(reader, Split("s", f"a{suffix}"))) == 7


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.jsonl", "wb") as opened:
        opened.write(LINE)
    source, _ = source_of(tmp_path, SOURCE.format("'*.jsonl'"))
    with pytest.raises(ConnectorError, match=re.escape("the name of \ufffd.jsonl is not UTF-8")):
        source.discover_splits()


AS_NOBODY = """
import os, sys
from pathlib import Path
from headrace.core.api.failures import ConnectorError
from tests.support.file_pipelines import chunks, source_of

folder, text = Path(sys.argv[1]), "{files: {path: '%s'}, schema: {id: bigint}}"
opened = [source_of(folder, text % path) for path in sys.argv[2:]]
if os.getuid() == 0:
    os.setuid(65534)
for source, reader in opened:
    try:
        chunks(reader, source.discover_splits()[0])
    except ConnectorError as error:
        print(error.message, error.exit_status, error.hint)
"""


UNREAD = {
    "a.jsonl": "cannot read a.jsonl: permission denied 1",
    "closed": "cannot look into closed: permission denied 2",
    "closed/*.jsonl": "cannot look into closed/*.jsonl: permission denied 2",
    "open/**/*.jsonl": "cannot look into open/**/*.jsonl: permission denied 2",
}


def test_what_may_not_be_read() -> None:
    # Not under pytest's own folder, which other users may not enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for made in ("closed", "open", "open/closed"):
            (folder / made).mkdir()
        (folder / "a.jsonl").write_bytes(LINE)
        for closed in ("a.jsonl", "closed", "open/closed"):
            (folder / closed).chmod(0)
        (folder / "p.yaml").touch()
        arguments = [sys.executable, "-c", AS_NOBODY, name, *UNREAD]
        ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
    for line, said in zip(ran.stdout.splitlines(), UNREAD.values(), strict=True):
        assert line.startswith(f"{said} look at its permissions")


@pytest.mark.parametrize(
    ("number", "is_final"),
    [
        (errno.EACCES, True),
        (errno.EISDIR, True),
        (errno.ENAMETOOLONG, True),
        (errno.ENOTDIR, True),
        (errno.EROFS, True),
        (errno.ENOSPC, False),
        (errno.EIO, False),
    ],
)
def test_an_error_that_lasts_ends_the_job(number: int, is_final: bool) -> None:
    with pytest.raises(ConnectorError) as raised, translate_errors("write a.jsonl"):
        raise OSError(number, os.strerror(number))
    assert raised.value.is_final == is_final
