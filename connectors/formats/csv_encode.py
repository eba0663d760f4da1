"""Frames to CSV, by RFC 4180 but with plain line feeds.

A field is quoted only if necessary: if it contains a delimiter, a quote or a line end, or is the
empty text, which is not null. If null has a text of its own, every other field is quoted, so that
none is mistaken for null; likewise if numbers and times may contain the delimiter, because Polars
looks for it in texts only. Values other than texts are written as in JSON.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

from headrace.connectors.formats.csv_syntax import RFC_4180, CsvSyntax
from headrace.core.expressions.casts import build_cast_form
from headrace.core.types import out_of_range_times
from headrace.core.types.data_types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    Field,
    Interval,
    Schema,
    Time,
    is_numeric,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

TIMESTAMP_FORMAT = "%Y-%m-%dT%H:%M:%S%.6fZ"
LOCAL_TIMESTAMP_FORMAT = TIMESTAMP_FORMAT.removesuffix("Z")
TIME_FORMAT = "%H:%M:%S%.6f"
INFINITY_WORDS = {"inf": "Infinity", "-inf": "-Infinity"}
AMBIGUOUS_DELIMITER = re.compile(rb"[\w+.:-]", re.ASCII)
"""Delimiters that may occur in values other than texts."""


@dataclass(frozen=True, slots=True)
class CsvEncoder:
    """Encodes rows of this schema."""

    schema: Schema
    has_header: bool = True
    syntax: CsvSyntax = RFC_4180
    null: str = ""

    @property
    def suffix(self) -> str:
        return ".csv"

    def header(self) -> bytes:
        """Return the names of the columns, if files have a header."""
        import polars as pl

        if not self.has_header:
            return b""
        names = pl.DataFrame({name: pl.Series([], dtype=pl.String) for name in self.schema.names})
        return self._write_frame(names, include_header=True)

    def encode(self, frame: pl.DataFrame) -> bytes:
        """Encode rows as records."""
        columns = [self._prepare_column(field, frame[field.name]) for field in self.schema]
        return self._write_frame(frame.select(columns), include_header=False)

    def _prepare_column(self, field: Field, column: pl.Series) -> pl.Series:
        """Convert a column so that Polars writes it as required."""
        import polars as pl

        if field.type == BINARY:
            return column.bin.encode("base64")
        if isinstance(field.type, Interval):
            text = build_cast_form(field.type, STRING)
            return column.to_frame("v").select(text(pl.col("v"))).to_series().alias(column.name)
        if isinstance(field.type, Time):
            return column.dt.strftime(TIME_FORMAT)
        if field.type == TIMESTAMP_NTZ and not out_of_range_times.has_out_of_range(column):
            return column.dt.strftime(LOCAL_TIMESTAMP_FORMAT)
        if field.type in (DATE, *TIMESTAMP_TYPES):
            return (
                out_of_range_times.format_times(column)
                if out_of_range_times.has_out_of_range(column)
                else column
            )
        if field.type in (FLOAT, DOUBLE) and (self._quotes_all or column.is_infinite().any()):
            return column.cast(pl.String).replace(INFINITY_WORDS)
        # Polars quotes everything but numbers.
        return column.cast(pl.String) if self._quotes_all and is_numeric(field.type) else column

    @property
    def _quotes_all(self) -> bool:
        return bool(self.null) or bool(AMBIGUOUS_DELIMITER.fullmatch(self.syntax.delimiter))

    def _write_frame(self, frame: pl.DataFrame, *, include_header: bool) -> bytes:
        out = BytesIO()
        frame.write_csv(
            out,
            include_header=include_header,
            separator=self.syntax.delimiter.decode(),
            quote_char=self.syntax.quote.decode(),
            quote_style="non_numeric" if self._quotes_all else "necessary",
            datetime_format=TIMESTAMP_FORMAT,
            null_value=self.null,
        )
        return out.getvalue()
