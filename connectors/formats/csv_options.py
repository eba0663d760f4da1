"""The options of CSV, converted for the decoder and the encoder."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.formats.csv_shape import Shape
from headrace.core.pipeline.formats import CsvOptions
from headrace.core.pipeline.part import Part


@dataclass(frozen=True, slots=True)
class Dialect:
    """A CSV dialect; `null` is the unquoted text that means null."""

    has_header: bool
    shape: Shape
    null: str


def dialect(options: Part | None) -> Dialect:
    """Return the dialect of the options."""
    given = options if isinstance(options, CsvOptions) else CsvOptions()
    delimiter, quote, null = (text.reveal() for text in (given.delimiter, given.quote, given.null))
    return Dialect(given.header, Shape(delimiter.encode(), quote.encode()), null)
