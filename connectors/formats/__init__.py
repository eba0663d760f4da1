"""Formats: the encoding of records as bytes, for any connector that carries bytes.

Lines of JSON, CSV and raw text are decoded in blocks and encoded in batches; Parquet is read by row
and written by file, because its rows are not self-contained.

Tests: tests/connectors/formats.
"""
