"""The options of CSV, converted for the decoder and the encoder."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.formats.csv_shape import CsvSyntax
from headrace.core.pipeline.formats import CsvOptions
from headrace.core.pipeline.part import DocumentModel


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """A CSV dialect; `null` is the unquoted text that means null."""

    has_header: bool
    syntax: CsvSyntax
    null: str


def build_dialect(options: DocumentModel | None) -> CsvDialect:
    """Return the dialect of the options."""
    given = options if isinstance(options, CsvOptions) else CsvOptions()
    delimiter, quote, null = (text.reveal() for text in (given.delimiter, given.quote, given.null))
    return CsvDialect(given.header, CsvSyntax(delimiter.encode(), quote.encode()), null)
