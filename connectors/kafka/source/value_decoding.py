"""Rows from record values: joined into a block of lines, which a format decodes at once.

A decoder of lines knows nothing of records, so each value must be one line, and each line one row
or one bad record. That holds for nearly all blocks, and is checked by counting. Otherwise values
are handled one by one: a null is skipped, an empty or blank value is bad, a line feed within a
value is hidden from the decoder, and a value that might reach into its neighbour (an open quote)
is decoded alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from headrace.connectors.formats.csv_syntax import CsvSyntax
from headrace.connectors.formats.lines import BLANK, BYTE_ORDER_MARK
from headrace.core.types.data_types import STRING, Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

    from headrace.connectors.formats.contract import Decoder
    from headrace.connectors.formats.debezium import DebeziumDecoder

RecordValues: TypeAlias = Sequence["bytes | None"]

BLOCK_OFFSET = 1
"""The offset of blocks: not 0, the start of a file, where a byte order mark is removed."""

AMBIGUOUS_LINES = (b"\n\n", b"\n\r\n", b"\n" + BYTE_ORDER_MARK)
"""Lines of CSV that Polars treats differently at some positions, so handled one by one."""


@dataclass(slots=True)
class DecodedValues:
    """The rows of some values, the errors of others, and the nulls that were left out.

    Values are identified by number; each that is neither bad nor skipped has a row.
    """

    frame: pl.DataFrame
    errors: dict[int, str] = field(default_factory=dict)
    skipped: Sequence[int] = ()


class ValueDecoder(Protocol):
    """Decodes values to rows. Never raises or waits, and works in any thread."""

    def decode_values(self, values: RecordValues) -> DecodedValues:
        """Decode values to rows, in order."""
        ...


@dataclass(frozen=True, slots=True)
class LineValueDecoder:
    """Decodes values with a decoder of lines."""

    decoder: Decoder
    empty_error: str
    """The error text of an empty value."""
    is_empty: Callable[[bytes], bool]
    has_line_per_value: Callable[[bytes, int], bool]
    """Whether a block has exactly one line for each of that many values."""
    to_line: Callable[[bytes], bytes | None]
    """Converts a value to a line; None if it might reach into its neighbours."""

    def decode_values(self, values: RecordValues) -> DecodedValues:
        """Decode all values at once if each is a line, else one by one."""
        try:
            block = b"\n".join(cast("Sequence[bytes]", values))
        except TypeError:
            return self._decode_one_by_one(values)
        if not values or not self.has_line_per_value(block, len(values)):
            return self._decode_one_by_one(values)
        rows = self._decode_lines(block, cast("Sequence[bytes]", values))
        return self._decode_one_by_one(values) if rows is None else rows

    def _decode_lines(self, block: bytes, lines: Sequence[bytes]) -> DecodedValues | None:
        """Decode a block of lines; None if the rows do not match the lines."""
        frame, bad = self.decoder.decode(block, BLOCK_OFFSET)
        if frame.height + len(bad) != len(lines):
            return None
        if not bad:
            return DecodedValues(frame)
        starts = list(accumulate((len(line) + 1 for line in lines), initial=BLOCK_OFFSET))
        numbers = [bisect_right(starts, cast("int", each.position)) - 1 for each in bad]
        return DecodedValues(frame, dict(zip(numbers, (each.error for each in bad), strict=True)))

    def _decode_one_by_one(self, values: RecordValues) -> DecodedValues:
        numbers, lines, alone, skipped = [], [], [], []
        bad: dict[int, str] = {}
        for number, value in enumerate(values):
            if value is None:
                skipped.append(number)
            elif self.is_empty(value):
                bad[number] = self.empty_error
            elif (line := self.to_line(value)) is None:
                alone.append(number)
            else:
                numbers.append(number)
                lines.append(line)
        rows = self._decode_lines(b"\n".join(lines), lines)
        if rows is None:
            numbers, alone, rows = [], sorted(numbers + alone), self._build_empty()
        bad |= {numbers[at]: error for at, error in rows.errors.items()}
        good = [number for number in numbers if number not in bad]
        return self._merge_alone(values, good, rows.frame, alone, bad, skipped)

    def _merge_alone(
        self,
        values: RecordValues,
        good: list[int],
        frame: pl.DataFrame,
        alone: list[int],
        bad: dict[int, str],
        skipped: list[int],
    ) -> DecodedValues:
        """Decode some values alone, and merge their rows in order."""
        import polars as pl

        frames = [frame]
        for number in alone:
            found, wrong = self.decoder.decode(values[number] or b"", BLOCK_OFFSET)
            if found.height == 1 and not wrong:
                frames.append(found)
                good.append(number)
            elif wrong and not found.height and len(wrong) == 1:
                bad[number] = wrong[0].error
            else:
                bad[number] = f"wanted one record, got {found.height + len(wrong)}"
        if len(frames) > 1:
            order = sorted(range(len(good)), key=good.__getitem__)
            frame = pl.concat(frames)[order] if frame.width else pl.DataFrame(height=len(good))
        return DecodedValues(frame, dict(sorted(bad.items())), skipped)

    def _build_empty(self) -> DecodedValues:
        return DecodedValues(self.decoder.decode(b"", BLOCK_OFFSET)[0])


def build_json_decoder(decoder: Decoder) -> LineValueDecoder:
    """Build the reader of JSON values; a line feed within one is replaced by other white space.

    Within a JSON string neither is allowed, so a value stays valid or invalid. Blank values are not
    searched for: the decoder makes no row of them, which the count shows.
    """
    return LineValueDecoder(
        decoder,
        "wanted a JSON object, got nothing",
        lambda value: not value.strip(BLANK),
        lambda block, count: block.count(b"\n") == count - 1,
        lambda value: value.replace(b"\n", b"\r"),
    )


def build_csv_decoder(decoder: Decoder, shape: CsvSyntax) -> LineValueDecoder:
    """Build the reader of CSV values without headers; line feeds may stand within quotes."""

    def is_whole(block: bytes, count: int) -> bool:
        lines = b"\n%b\n" % block  # Polars reads a lone carriage return differently within a block
        if lines.count(b"\n") != count + 1 or any(odd in lines for odd in AMBIGUOUS_LINES):
            return False
        if lines.count(b"\r") != lines.count(b"\r\n"):
            return False
        if shape.quote not in block:
            return True
        rest = shape.remove_quoted(block)
        return shape.quote not in rest and rest.count(b"\n") == count - 1

    def line(value: bytes) -> bytes | None:
        text = strip_mark_and_end(value)
        rest = shape.remove_quoted(text)
        return None if shape.quote in rest or b"\n" in rest or b"\r" in text else text

    def is_empty(value: bytes) -> bool:
        return not strip_mark_and_end(value)

    return LineValueDecoder(
        decoder, "wanted a record of CSV, got nothing", is_empty, is_whole, line
    )


def strip_mark_and_end(value: bytes) -> bytes:
    """Remove the byte order mark and the line end that some clients send with a value."""
    while value.startswith(BYTE_ORDER_MARK):
        value = value.removeprefix(BYTE_ORDER_MARK)
    return value.removesuffix(b"\n").removesuffix(b"\r")


@dataclass(frozen=True, slots=True)
class RawValueDecoder:
    """Reads raw values into the one column of the schema; without a column, it only counts."""

    schema: Schema
    skips_nulls: bool = False

    def decode_values(self, values: RecordValues) -> DecodedValues:
        """Read a row of each value; text that is not UTF-8 and a forbidden null are bad."""
        import polars as pl

        if self.skips_nulls and None in values:
            skipped = [number for number, value in enumerate(values) if value is None]
            numbers = [number for number, value in enumerate(values) if value is not None]
            rows = self.decode_values([values[number] for number in numbers])
            errors = {numbers[at]: why for at, why in rows.errors.items()}
            return DecodedValues(rows.frame, errors, skipped)
        if not len(self.schema):
            return DecodedValues(pl.DataFrame(height=len(values)))
        wanted = self.schema.fields[0]
        raw_values = pl.Series(wanted.name, values, dtype=pl.Binary)
        column = decode_texts(raw_values, _decode_utf8) if wanted.type == STRING else raw_values
        bad = dict.fromkeys(
            (column.is_null() & raw_values.is_not_null()).arg_true(), "wanted UTF-8"
        )
        if not wanted.nullable:
            why = f'column "{wanted.name}": wanted {wanted.type} not null, got null'
            bad |= dict.fromkeys(raw_values.is_null().arg_true(), why)
        if not bad:
            return DecodedValues(column.to_frame())
        good = pl.Series([True]).new_from_index(0, len(values)).scatter(list(bad), False)
        return DecodedValues(column.filter(good).to_frame(), dict(sorted(bad.items())))


@dataclass(frozen=True, slots=True)
class DebeziumValueDecoder:
    """Decodes messages of Debezium; those without a change, and nulls, are skipped."""

    decoder: DebeziumDecoder

    def decode_values(self, values: RecordValues) -> DecodedValues:
        """Decode values to changes, in order."""
        found = self.decoder.decode_messages(values)
        return DecodedValues(found.frame, found.errors, found.skipped)


def decode_texts(values: pl.Series, otherwise: Callable[[bytes], str | None]) -> pl.Series:
    """Convert bytes to text; `otherwise` converts values if some are not UTF-8."""
    import polars as pl

    try:
        return values.cast(pl.String)
    except pl.exceptions.PolarsError:
        texts = [None if value is None else otherwise(value) for value in values]
        return pl.Series(values.name, texts, dtype=pl.String)


def _decode_utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
