"""What a user said about CSV, as the signs and texts that reading and writing go by."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.formats.csv_shape import Shape
from headrace.core.pipeline.formats import CsvOptions
from headrace.core.pipeline.part import Part


@dataclass(frozen=True, slots=True)
class Dialect:
    """The habits of some files; `null` is the unquoted text that means null."""

    has_header: bool
    shape: Shape
    null: str


def dialect(options: Part | None) -> Dialect:
    """The habits that are asked for."""
    given = options if isinstance(options, CsvOptions) else CsvOptions()
    delimiter, quote, null = (text.reveal() for text in (given.delimiter, given.quote, given.null))
    return Dialect(given.header, Shape(delimiter.encode(), quote.encode()), null)
