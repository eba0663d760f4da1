"""Raw lines: one column of text or bytes, one row per line.

An empty line is an empty value. A carriage return before the line feed is dropped if the column is
text, and belongs to the value if it is binary. A null is written as an empty line.
"""

from __future__ import annotations

from io import BytesIO
from itertools import accumulate
from typing import TYPE_CHECKING

from headrace.connectors.formats.bad_records import RecordErrors, split_bad_records
from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.lines import LineDecoder, RecordLine, remove_byte_order_mark
from headrace.core.types.data_types import STRING, Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class RawDecoder(LineDecoder):
    """Decodes lines into the one column of the schema; without a column, it only counts lines."""

    schema: Schema

    def decode(self, block: bytes, offset: int) -> DecodedBlock:
        """Decode a row of each line; text that is not UTF-8 is a bad record."""
        import polars as pl

        block, offset = remove_byte_order_mark(block, offset)
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if not len(self.schema):
            return pl.DataFrame(height=len(lines)), ()
        field = self.schema.fields[0]
        if field.type != STRING:
            return pl.DataFrame({field.name: pl.Series(lines, dtype=pl.Binary)}), ()
        texts = pl.Series(field.name, map(_decode_utf8, lines), dtype=pl.String)
        faults = RecordErrors(dict.fromkeys(texts.is_null().arg_true(), "wanted UTF-8"))
        frame = texts.str.strip_suffix("\r").to_frame()
        starts = list(accumulate((len(text) + 1 for text in lines), initial=offset))
        return split_bad_records(frame, faults, lambda row: RecordLine(starts[row], lines[row]))


@dataclass(frozen=True, slots=True)
class RawEncoder:
    """Encodes the one column of the schema, one line per row."""

    schema: Schema

    @property
    def suffix(self) -> str:
        return ".txt"

    def header(self) -> bytes:
        """Return no bytes."""
        return b""

    def encode(self, frame: pl.DataFrame) -> bytes:
        """Encode the values, each with a line end."""
        column = frame[self.schema.fields[0].name]
        if self.schema.fields[0].type != STRING:
            return b"".join(b"%b\n" % (value or b"") for value in column.to_list())
        out = BytesIO()
        column.fill_null("").to_frame().write_csv(out, include_header=False, quote_style="never")
        return out.getvalue()


def _decode_utf8(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
