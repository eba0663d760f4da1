"""The contract of a format: bytes of whole records to a frame, and a frame to bytes.

A decoder knows nothing of files or brokers, never waits and can be pickled: the same one serves the
files connector, Kafka and Spark's executors. It never raises on data: an unreadable record becomes
a `BadRecord`, and whether a record is readable depends on its own bytes alone, never on its
neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.core.api.sources import BadRecord

if TYPE_CHECKING:
    import polars as pl

DecodedBlock: TypeAlias = "tuple[pl.DataFrame, tuple[BadRecord, ...]]"


class Decoder(Protocol):
    """Reads records."""

    @property
    def has_header(self) -> bool:
        """Whether a split starts with a header, which `with_header` must get first."""
        ...

    @property
    def quote_bytes(self) -> bytes:
        """The quote of text that may contain line ends; empty if each line end ends a record."""
        ...

    def with_header(self, header: bytes) -> Decoder:
        """Return the decoder of a split with this header. Raises ConnectorError on a mismatch."""
        ...

    def find_cut(self, data: bytes) -> int:
        """Return the length of the longest prefix of whole records, with their line ends.

        `data` starts where a record starts. The caller offers the rest again with more bytes after
        it; at the end of a split, the rest is a last record without a line end.
        """
        ...

    def decode(self, block: bytes, offset: int) -> DecodedBlock:
        """Decode whole records to rows and bad records, each in order.

        `offset` is the position of the block's first byte within the split; the position of a bad
        record is that of its own first byte.
        """
        ...


class BytesEncoder(Protocol):
    """An `Encoder` that also gives the header and the suffix of its files."""

    @property
    def suffix(self) -> str:
        """The suffix of file names, with the dot."""
        ...

    def header(self) -> bytes:
        """Return the first bytes of a file; often none."""
        ...

    def encode(self, frame: pl.DataFrame) -> bytes:
        """Encode rows, each ending in a line end; equal rows give equal bytes."""
        ...
