"""Record batches as brokers keep them, made without one: compressed, in transactions, with gaps."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from headrace.connectors.kafka.source.fetched_batches import (
    CONTROL_FLAG,
    HEADER_STRUCT,
    TRANSACTIONAL_FLAG,
)

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NO_PRODUCER = -1
ATTRIBUTES_AT = 21
CRC_AT = 17

Headers = Sequence["tuple[str, bytes | None]"]


def batch(
    base: int,
    values: Sequence[bytes | None],
    *,
    codec: str = "none",
    producer: int = NO_PRODUCER,
    transactional: bool = False,
    deltas: Sequence[int] = (),
    until: int | None = None,
    timestamp: int = 1000,
    keys: Sequence[bytes | None] = (),
    headers: Sequence[Headers] = (),
) -> bytes:
    """A batch from an offset on; record n is of the time `timestamp` + n.

    `deltas` are the places of the records where some were compacted away, and `until` is where the
    next batch begins, if the last ones were.
    """
    places = list(deltas) or list(range(len(values)))
    builder = DefaultRecordBatchBuilder(
        2, CODECS[codec], int(transactional), producer, 0, 0, 1 << 30
    )
    for at, (place, value) in enumerate(zip(places, values, strict=True)):
        key = keys[at] if keys else None
        row_headers = list(headers[at]) if headers else []
        builder.append(place, timestamp + at, key, value, row_headers)
    built = builder.build()
    if until is not None:
        struct.pack_into(">i", built, ATTRIBUTES_AT + 2, until - base - 1)
    return finished(built, base)


def mark(base: int, producer: int, *, commit: bool) -> bytes:
    """Build the control batch that ends a transaction."""
    key = struct.pack(">hh", 0, int(commit))
    builder = DefaultRecordBatchBuilder(2, 0, 1, producer, 0, -1, 1 << 30)
    builder.append(0, 1000, key, b"\0\0\0\0\0\0", [])
    built = builder.build()
    struct.pack_into(">h", built, ATTRIBUTES_AT, CONTROL_FLAG | TRANSACTIONAL_FLAG)
    return finished(built, base)


def finished(built: bytearray, base: int) -> bytes:
    """At its offset, with its checksum."""
    struct.pack_into(">q", built, 0, base)
    struct.pack_into(">I", built, CRC_AT, calc_crc32c(bytes(built[ATTRIBUTES_AT:])))
    assert len(built) >= HEADER_STRUCT.size
    return bytes(built)
