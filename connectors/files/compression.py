"""Compression of text files, chosen by the suffix of the name: `.gz` and `.zst`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, TypeAlias, cast

from headrace.connectors.files.options import Compression

if TYPE_CHECKING:
    from types import ModuleType

SUFFIXES: dict[Compression, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}

GZIP_LEVEL, ZSTD_LEVEL = 6, 3
Decompressor: TypeAlias = Callable[[IO[bytes]], IO[bytes]]


def find_decompressor(name: str) -> Decompressor | None:
    """Return the decompressor for a file of that name; None if it is not compressed."""
    if name.endswith(SUFFIXES["gzip"]):
        return _open_gzip
    if name.endswith(SUFFIXES["zstd"]):
        return _open_zstd
    return None


def compress(data: bytes, compression: Compression) -> bytes:
    """Compress text as a stream; concatenated streams are one valid file."""
    match compression:
        case "gzip":
            import gzip

            return gzip.compress(data, GZIP_LEVEL, mtime=0)
        case "zstd":
            return cast(bytes, _import_zstd().compress(data, ZSTD_LEVEL))
    return data


def list_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions, besides OSError, of truncated or damaged compressed data."""
    import zlib

    known: tuple[type[Exception], ...] = (EOFError, zlib.error)
    # A module that was never loaded has raised nothing.
    zstd = sys.modules.get("compression.zstd") or sys.modules.get("backports.zstd")
    return (*known, zstd.ZstdError) if zstd else known


def _open_gzip(file: IO[bytes]) -> IO[bytes]:
    import gzip

    return cast(IO[bytes], gzip.GzipFile(fileobj=file))


def _open_zstd(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], _import_zstd().ZstdFile(file))


def _import_zstd() -> ModuleType:
    """Import zstd: from Python's library since 3.14, from a backport before."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
