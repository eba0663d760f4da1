"""What a format can do: bytes of whole records to a frame, and a frame to bytes.

A decoder knows nothing of files or brokers, waits for nothing and can be pickled: the same one
works behind the files connector, behind Kafka and inside Spark's executors. It never raises on
data: what cannot be read is a `BadRecord`, and whether a record can be read depends on its own
bytes alone, never on what stands beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.contracts import BadRecord

if TYPE_CHECKING:
    import polars as pl

Decoded: TypeAlias = "tuple[pl.DataFrame, tuple[BadRecord, ...]]"


class Decoder(Protocol):
    """Reads records."""

    @property
    def has_header(self) -> bool:
        """Whether a split opens with a record that is no row, and that `begin` wants first."""
        ...

    @property
    def quote(self) -> bytes:
        """What may stand around text with line ends in it; nothing: each of them ends a record."""
        ...

    def begin(self, header: bytes) -> Decoder:
        """The decoder of a split with this header; raises ConnectorError if it does not fit."""
        ...

    def cut(self, data: bytes) -> int:
        """How long the longest prefix of whole records is, each with its line end.

        `data` begins where a record begins. What lies behind the cut is to be offered again with
        more bytes behind it; at the end of a split it is a last record without a line end.
        """
        ...

    def decode(self, block: bytes, offset: int) -> Decoded:
        """The rows of whole records, and the records that are none, each in order.

        `offset` is the position of the block's first byte within the split; the position of a bad
        record is that of its own first byte.
        """
        ...


class BytesEncoder(Protocol):
    """Writes rows: an `Encoder` that also says how its files begin and are called."""

    @property
    def suffix(self) -> str:
        """How the names of files with such bytes end, with the dot."""
        ...

    def header(self) -> bytes:
        """What a file begins with; often nothing."""
        ...

    def encode(self, frame: pl.DataFrame) -> bytes:
        """The bytes of these rows, each ending in a line end; equal rows are equal bytes."""
        ...
