"""The formats that stand beside a connector, and their options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import AnyText, Character, Flag, choice

FORMATS = ("json", "csv", "parquet", "raw")
LATER_FORMATS = ("avro", "protobuf")

FormatName = Literal["json", "csv", "parquet", "raw"]


class JsonOptions(Part):
    """One JSON object a line, or a message."""

    epoch: Annotated[Literal["s", "ms", "us", "ns"] | None, choice("s", "ms", "us", "ns")] = Field(
        None,
        description="Timestamps are whole numbers in this unit since 1970; by default they are "
        "ISO-8601 texts.",
    )


class CsvOptions(Part):
    """Comma-separated values, quoted as in RFC 4180."""

    header: Flag = Field(True, description="Whether the first line names the columns.")
    delimiter: Character = Field(Text(","), description="What stands between two fields.")
    quote: Character = Field(Text('"'), description="What stands around a field with a delimiter.")
    null: AnyText = Field(Text(""), description="The unquoted text that means null.")
