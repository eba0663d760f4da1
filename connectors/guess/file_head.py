"""The start of a data file as text, up to `MAX_BYTES`, decompressed, and the file's format.

The file name gives the format; the first bytes give it where the name does not, and overrule a
wrong name. Only the start is read, so a guess costs the same for a file of any size: as many lines
of JSON as a guess has rows, and twice as many of CSV, in which a row may have several.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import PurePath
from typing import BinaryIO, Literal, TypeAlias

from headrace.core.pipeline.yaml_document.source_file import format_path
from headrace.core.types.lazy_dataclass import dataclass

Format: TypeAlias = Literal["json", "csv", "parquet"]

MAX_ROWS = 10_000
MAX_BYTES = 8 << 20

_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_SUFFIXES: dict[str, Format] = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
_KNOWN_SUFFIXES = ".jsonl, .json, .csv or .parquet, optionally with .gz or .zst"


class UnreadableFile(Exception):
    """A file from which no schema can be guessed; the message gives the reason and a hint."""


class EmptyFile(UnreadableFile):
    """A file without rows, which gives no evidence of the types of its columns."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """The first lines of a text file; `cut` if the file has more."""

    path: str
    name: str
    format: Format
    text: str
    is_cut: bool


def read_head(path: str) -> FileHead:
    """Read the start of a JSON or CSV file; of a Parquet file, only its format: it has a schema."""
    name = format_path(path)
    magic = _read_first_bytes(path, name)
    if magic.startswith(_PARQUET):
        return FileHead(path, name, "parquet", "", True)
    data, cut = _read_decompressed(path, name, magic)
    text = _decode_lines(data, name, cut)
    if not text or text.isspace():
        raise EmptyFile(f"{name} is empty: a schema is guessed from the rows of a file")
    return FileHead(path, name, _detect_format(path, name, text), text, cut)


def _read_first_bytes(path: str, name: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except IsADirectoryError:
        raise UnreadableFile(f"{name} is a folder, wanted one of its files") from None
    except OSError as error:
        raise UnreadableFile(f"cannot read {name}: {(error.strerror or '').lower()}") from None


def _read_decompressed(path: str, name: str, magic: bytes) -> tuple[bytes, bool]:
    """Return the first bytes, and whether the file has more."""
    if magic.startswith(_ZSTD):
        return _read_zstd(path, name), False
    compressed = magic.startswith(_GZIP)
    opened: Callable[[str], BinaryIO] = gzip.open if compressed else _open_plain  # type: ignore[assignment]
    # Rows of CSV may have several lines.
    most = MAX_ROWS if magic.startswith(b"{") else 2 * MAX_ROWS
    pieces, size, lines = [b""], 0, 0
    try:
        with opened(path) as file:
            while size < MAX_BYTES and lines <= most and (piece := file.read(1 << 16)):
                pieces.append(piece)
                size += len(piece)
                lines += piece.count(b"\n") - piece.count(b"\n\n")
            return b"".join(pieces), bool(file.read(1))
    except (EOFError, OSError) as error:
        if not size:
            raise UnreadableFile(f"{name} cannot be decompressed: {error}") from None
    return b"".join(pieces), False


def _open_plain(path: str) -> BinaryIO:
    return open(path, "rb")


def _read_zstd(path: str, name: str) -> bytes:
    """Decompress the first lines with Polars: Python has no zstd before 3.14."""
    import polars as pl

    try:
        lines = pl.scan_lines(path, glob=False).head(MAX_ROWS + 1).collect()["line"]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableFile(f"{name} cannot be decompressed: {error}") from None
    return "\n".join(lines).encode()


def _decode_lines(data: bytes, name: str, cut: bool) -> str:
    """Decode the whole lines of the data; an incomplete last line is left out."""
    if b"\0" in data:
        raise UnreadableFile(f"{name} is binary, wanted {_KNOWN_SUFFIXES}")
    if cut:
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            raise UnreadableFile(f"the first line of {name} is longer than {MAX_BYTES >> 20} MB")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"0x{data[error.start]:02x}"
        raise UnreadableFile(f"{name} is not UTF-8: line {line} has the byte {byte}") from None


def _detect_format(path: str, name: str, text: str) -> Format:
    plain = PurePath(path.removesuffix(".gz").removesuffix(".zst"))
    by_name = _SUFFIXES.get(plain.suffix.lower())
    if by_name == "parquet":
        raise UnreadableFile(f"{name} is not a Parquet file: it does not start with PAR1")
    if by_name:
        return by_name
    first = text.lstrip()[:1]
    if first in ("{", "["):
        return "json"
    if any(delimiter in text.partition("\n")[0] for delimiter in ",;\t"):
        return "csv"
    raise UnreadableFile(f"cannot detect the format of {name}, wanted {_KNOWN_SUFFIXES}")
