"""Isolation of records on which a decoder fails by an exception: they are bad records as well.

A decoder is not meant to raise on data. If it does, perhaps in a library or at a limit of Python,
the exception must neither end the job nor concern the neighbours of its record, so the block is
decoded in halves until such records stand alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headrace.connectors.formats.bad_records import shorten_text
from headrace.connectors.formats.contract import DecodedBlock
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import BadRecord

BlockDecoder: TypeAlias = "Callable[[bytes, int], DecodedBlock]"


def decode_isolated(
    decode: BlockDecoder, find_cut: Callable[[bytes], int], block: bytes, offset: int
) -> DecodedBlock:
    """Decode a block; records on which `decode` raises become bad records.

    `find_cut` returns the length of the longest prefix of whole records.
    """
    from polars.exceptions import PanicException

    try:
        return decode(block, offset)
    except (ConnectorError, MemoryError):
        raise
    except (Exception, PanicException) as error:
        cut = _find_middle(find_cut, block)
        if not cut:
            return _reject_record(decode, block, offset, error)
    import polars as pl

    frames: list[pl.DataFrame] = []
    bad: list[BadRecord] = []
    for start, piece in ((0, block[:cut]), (cut, block[cut:])):
        frame, errors = decode_isolated(decode, find_cut, piece, offset + start)
        frames.append(frame)
        bad.extend(errors)
    height = sum(frame.height for frame in frames)
    return pl.concat(frames) if frames[0].width else pl.DataFrame(height=height), tuple(bad)


def _find_middle(find_cut: Callable[[bytes], int], block: bytes) -> int:
    """Return where to cut the block between two records; 0 if it is one record."""
    cut = find_cut(block[: len(block) // 2])
    end = len(block) // 2
    while not cut and (end := block.find(b"\n", end) + 1) and end < len(block):
        cut = find_cut(block[:end])
    return cut


def _reject_record(
    decode: BlockDecoder, record: bytes, offset: int, error: BaseException
) -> DecodedBlock:
    empty, _ = decode(b"", offset)
    why = shorten_text(str(error).partition("\n")[0])
    text = record.rstrip(b"\r\n").decode("utf-8", "replace")
    bad = BadRecord(f"it cannot be decoded: {type(error).__name__}: {why}", offset, text)
    return empty, (bad,)
