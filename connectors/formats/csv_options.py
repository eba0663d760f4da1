"""What a user said about CSV, as the signs and texts that reading and writing go by."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.formats.csv_shape import Shape
from headrace.core.contracts import ConnectorError
from headrace.core.pipeline.formats import CsvOptions
from headrace.core.pipeline.part import Part


@dataclass(frozen=True, slots=True)
class Dialect:
    """The habits of some files; `null` is the unquoted text that means null."""

    has_header: bool
    shape: Shape
    null: str


def dialect(options: Part | None) -> Dialect:
    """The habits that are asked for; raises ConnectorError if they contradict each other."""
    given = options if isinstance(options, CsvOptions) else CsvOptions()
    delimiter, quote, null = (text.reveal() for text in (given.delimiter, given.quote, given.null))
    if not (delimiter + quote).isascii():
        raise _wrong("the delimiter and the quote of CSV are ASCII characters")
    if delimiter == quote or {delimiter, quote} & set("\r\n"):
        raise _wrong("the delimiter and the quote of CSV differ, and are no line ends")
    if set(null) & {delimiter, quote, "\r", "\n"}:
        raise _wrong("the text for null in CSV has no delimiter, quote or line end in it")
    return Dialect(given.header, Shape(delimiter.encode(), quote.encode()), null)


def _wrong(message: str) -> ConnectorError:
    return ConnectorError(message, "look at csv: {delimiter:, quote:, null:}", exit_status=2)
