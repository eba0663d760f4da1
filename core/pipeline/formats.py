"""The record formats of connectors, and their options."""

from __future__ import annotations

from typing import Annotated, Literal

from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import AnyText, Flag, InvalidScalar, ScalarReading, choice_of

FORMATS = ("json", "csv", "parquet", "raw", "debezium_json")
PLANNED_FORMATS = ("avro", "protobuf")

FormatName = Literal["json", "csv", "parquet", "raw", "debezium_json"]


class JsonOptions(DocumentModel):
    """One JSON object per line, or per message."""

    epoch: Annotated[Literal["s", "ms", "us", "ns"] | None, choice_of("s", "ms", "us", "ns")] = (
        Field(
            None,
            description="Timestamps are whole numbers of this unit since 1970; by default they are "
            "ISO 8601 texts.",
        )
    )


class DebeziumOptions(DocumentModel):
    """One change of a table per message, as Debezium writes it. These options say what messages
    without a schema leave open; with one, the schema decides.
    """

    epoch: Annotated[Literal["ms", "us", "ns"] | None, choice_of("ms", "us", "ns")] = Field(
        None, description="The unit of whole numbers in columns of type timestamp and time."
    )
    decimals: Annotated[Literal["text", "base64"] | None, choice_of("text", "base64")] = Field(
        None,
        description="How decimals are written: as `text`, or in `base64` with the scale of the "
        "column's type. By default a text that may be either is an error.",
    )


class ParquetOptions(DocumentModel):
    """Files with columns of their own, which are read by name."""

    union_by_name: Flag = Field(
        False,
        description="Whether columns that a file does not have are null in its rows, and whole "
        "numbers may be read as decimals or doubles, dates as timestamps.",
    )


def _parse_delimiter(text: Text) -> Text:
    if len(text) != 1 or not text.isascii() or text in "\0\r\n":
        raise InvalidScalar('in double quotes "\\t" is a tab' if text == "\\t" else "")
    return text


def _parse_quote(text: Text) -> Text:
    # A quote that occurs in numbers, times or booleans would have to be doubled there.
    if text.isalnum() or text in "+-.:":
        raise InvalidScalar
    return _parse_delimiter(text)


DELIMITER_READING = ScalarReading(
    "one ASCII character that ends no line",
    _parse_delimiter,
    {"type": "string", "pattern": r"^[\u0001-\u0009\u000b\u000c\u000e-\u007f]$"},
)
QUOTE_READING = ScalarReading(
    "one ASCII character that is no letter, digit, +, -, . or :",
    _parse_quote,
    {"type": "string", "pattern": r"^[\u0001-\u0009\u000b\u000c\u000e-*,/;-@\[-`{-\u007f]$"},
)


class CsvOptions(DocumentModel):
    """Comma-separated values, quoted as in RFC 4180."""

    header: Flag = Field(True, description="Whether the first line names the columns.")
    delimiter: Annotated[Text, DELIMITER_READING] = Field(
        Text(","), description="The character between two fields."
    )
    quote: Annotated[Text, QUOTE_READING] = Field(
        Text('"'), description="The character around a field that contains a delimiter."
    )
    null: AnyText = Field(Text(""), description="The unquoted text that means null.")
    union_by_name: Flag = Field(
        False, description="Whether columns that a file does not have are null in its rows."
    )

    def find_conflict(self) -> tuple[str, str] | None:
        """Return the option that conflicts with the others, and what was wanted instead."""
        if self.delimiter == self.quote:
            key = "quote" if "quote" in self.model_fields_set else "delimiter"
            other = "delimiter" if key == "quote" else "quote"
            return key, f"another character than the {other}"
        if self.union_by_name and not self.header:
            return "union_by_name", "false without a header"
        if set(self.null) & {*self.delimiter, *self.quote, "\r", "\n"}:
            return "null", "a text without delimiter, quote and line end in it"
        return None
