"""Formats: the encoding of records as bytes, for any connector that carries bytes.

Lines of JSON, CSV and raw text are decoded in blocks and encoded in batches; Parquet is read by row
and written by file, because its rows are not self-contained.

Tests: tests/connectors/formats.
"""

from __future__ import annotations

from headrace.connectors.formats.contract import BytesEncoder, Decoder
from headrace.connectors.formats.factories import (
    build_decoder,
    build_encoder,
    build_parquet_encoder,
    build_parquet_reader,
)

__all__ = [
    "BytesEncoder",
    "Decoder",
    "build_decoder",
    "build_encoder",
    "build_parquet_encoder",
    "build_parquet_reader",
]
