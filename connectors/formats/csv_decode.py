"""The decoder of CSV: well-formed blocks by Polars at once, others record by record.

Polars reads CSV fast, but fills a short record with nulls, and takes a quoted field with the text
of null for null. So a block is first checked by its signs: no misplaced quote, as many delimiters
as its records need, no quoted null. Polars itself raises on a record that is too long, if it reads
all columns and the last record has its line end; with the right count of delimiters, no record is
then too short. Any other block is read record by record here, which gives the same rows, and also
the bad records. The columns of a header may be in any order, and undeclared ones are allowed; a
declared column that is missing or named twice is an error of the file, not of a record.

Fields are read as text and converted to the columns' types; an invalid text is null:

    boolean                   true, false, in any case
    tinyint ... bigint        digits with a sign or none, within the type's range
    float, double             digits with a point and an exponent; NaN, Infinity, -Infinity
    decimal(p,s)              the same, rounded half up to its scale; within its precision
    date, timestamp           as in JSON: see `times`
    binary                    base64

Polars' casts accept more than that (`inf`, overflow to infinity) or round differently, so a
pattern is checked first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.connectors.formats import times
from headrace.connectors.formats.bad_records import (
    RecordErrors,
    build_frame,
    describe_invalid_value,
    find_null_violations,
    shorten_text,
    split_bad_records,
)
from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.csv_syntax import RFC_4180, CsvSyntax
from headrace.connectors.formats.decimals import parse_decimals
from headrace.connectors.formats.json_reader import NON_FINITE_VALUES
from headrace.connectors.formats.lines import BYTE_ORDER_MARK, RecordLine, remove_byte_order_mark
from headrace.connectors.formats.record_isolation import decode_isolated
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.casts import build_cast_form
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Interval,
    Schema,
    Time,
    Type,
    to_polars,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


def parse_header(
    header: bytes, shape: CsvSyntax, declared: Schema, *, is_union: bool = False
) -> tuple[str, ...]:
    """Return the names of a file's columns, in its order. In a union, it may lack columns that may
    be null, but not all. Raises ConnectorError."""
    line = header.removeprefix(BYTE_ORDER_MARK).removesuffix(b"\n").removesuffix(b"\r")
    fields = shape.split_fields(line)
    if fields is None:
        raise _build_header_error("a quote of the CSV header is out of place")
    try:
        names = tuple(text.decode() for _, text in fields)
    except UnicodeDecodeError:
        raise _build_header_error("the CSV header is not UTF-8") from None
    twice = [name for name, times in Counter(names).items() if times > 1 and name in declared]
    if twice:
        raise _build_header_error(f'the CSV header names "{twice[0]}" twice')
    missing = [field.name for field in declared if field.name not in names]
    if is_union and len(missing) < len(declared):
        missing = [f.name for f in declared if f.name in missing and not f.nullable]
    if missing:
        hint = (
            _build_delimiter_hint(names)
            or suggest_name(missing[0], names)
            or f"it has {', '.join(names)}"
        )
        raise _build_header_error(f'the CSV header has no column "{missing[0]}"', hint)
    return names


def _build_delimiter_hint(names: Sequence[str]) -> str:
    """Return the hint for a header that was not split, because the file has another delimiter."""
    signs = [sign for sign in ";\t|," if sign in names[0]]
    shown = signs[0].replace("\t", "\\t") if len(names) == 1 and signs else ""
    return f'did you mean csv: {{delimiter: "{shown}"}}?' if shown else ""


def _build_header_error(message: str, hint: str = "") -> ConnectorError:
    return ConnectorError(message, hint or "csv: {header: false} reads files without one")


INTEGER_PATTERN = r"^[+-]?[0-9]+$"


NUMBER_PATTERN = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def convert_texts(texts: pl.Series, type: Type) -> pl.Series:
    """Convert texts to their type."""
    if type == STRING:
        return texts
    if type == TIMESTAMP:
        return times.parse_timestamp_column(texts)
    if isinstance(type, Decimal):
        return parse_decimals(texts, type)
    return texts.to_frame().select(_build_conversion(texts.name, type)).to_series()


def _build_conversion(name: str, type: Type) -> pl.Expr:
    import polars as pl

    text = pl.col(name)
    if type == BOOLEAN:
        lower = text.str.to_lowercase()
        return pl.when(lower.is_in(["true", "false"])).then(lower == "true").alias(name)
    if type == DATE:
        return times.parse_dates(text)
    if isinstance(type, Interval):
        return build_cast_form(STRING, type)(text).alias(name)
    if isinstance(type, Time):
        return times.parse_clock_times(text, type.precision).alias(name)
    if type == TIMESTAMP_NTZ:
        return times.parse_local_timestamps(text).alias(name)
    if type == BINARY:
        return text.str.decode("base64", strict=False)
    if type in (FLOAT, DOUBLE):
        number = text.cast(to_polars(type), strict=False)
        fits = text.str.contains(NUMBER_PATTERN) & number.is_finite()
        words = text.replace_strict(NON_FINITE_VALUES, default=None, return_dtype=to_polars(type))
        return pl.when(fits).then(number).otherwise(words)
    whole = text.cast(to_polars(type), strict=False)
    return pl.when(text.str.contains(INTEGER_PATTERN)).then(whole)


COMPRESSED_PREFIXES = (b"\x1f\x8b", b"x\x01", b"x^", b"x\x9c", b"x\xda", b"\x28\xb5\x2f\xfd")
"""The bytes that Polars takes for gzip, zlib or zstd; a first field may start with them, too."""


@dataclass(frozen=True)
class CsvDecoder:
    """Decodes the fields of `schema` from records with the fields `names`, in that order.

    Fields that are not `declared` are null if the records lack them; in a union, all are.
    `names` is empty until a split's header is known. A field that is not nullable must hold
    something. `null` is the unquoted text that means null.
    """

    schema: Schema
    declared: Schema
    names: tuple[str, ...] = ()
    syntax: CsvSyntax = RFC_4180
    null: bytes = b""
    is_union: bool = False

    @property
    def has_header(self) -> bool:
        return not self.names

    @property
    def quote_bytes(self) -> bytes:
        return self.syntax.quote

    def with_header(self, header: bytes) -> CsvDecoder:
        """Return the decoder for records with this header."""
        names = parse_header(header, self.syntax, self.declared, is_union=self.is_union)
        return replace(self, names=names)

    def find_cut(self, data: bytes) -> int:
        """Return the length up to the last line end outside of quotes."""
        mark = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
        whole = self.syntax.find_cut(data[mark:])
        return whole + mark if whole else 0

    def decode(self, block: bytes, offset: int) -> DecodedBlock:
        """Decode the block at once, or record by record if it is not well-formed."""
        return decode_isolated(self._decode_block, self.find_cut, block, offset)

    def _decode_block(self, block: bytes, offset: int) -> DecodedBlock:
        import polars as pl

        block, offset = remove_byte_order_mark(block, offset)
        texts, faults = self._read_block(block), RecordErrors()
        if texts is None:
            texts, faults = self._read_records(self._split_records(block, offset))
        columns = [
            self._convert_column(field, texts[field.name], faults)
            if field.name in texts.columns
            else pl.Series(field.name, [None] * texts.height, to_polars(field.type))
            for field in self.schema
        ]
        frame = build_frame(columns, texts.height)
        records = self._split_records(block, offset) if faults else []
        return split_bad_records(frame, faults, records.__getitem__)

    def _read_block(self, block: bytes) -> pl.DataFrame | None:
        """Read the fields with Polars, if the block is well-formed."""
        import polars as pl

        records = self._count_well_formed(block)
        if records is None:
            return None
        try:
            texts = pl.read_csv(
                block if block.endswith(b"\n") else block + b"\n",
                has_header=False,
                schema={str(at): pl.String for at in range(len(self.names))},
                separator=self.syntax.delimiter.decode(),
                quote_char=self.syntax.quote.decode(),
                null_values=[self.null.decode()] if self.null else None,
                empty_string_is_null=not self.null,
            )
        except pl.exceptions.PolarsError:
            return None
        if texts.height != records:
            return None
        named = {str(at): name for at, name in self._decoded_fields}
        return texts.select(list(named) or "0").rename(named)

    def _count_well_formed(self, block: bytes) -> int | None:
        """Count the records if the block is well-formed, each with the right number of fields."""
        quoted = self.syntax.quote + self.null + self.syntax.quote
        if not block or block.startswith(COMPRESSED_PREFIXES) or (self.null and quoted in block):
            return None
        rest = self.syntax.remove_quoted(block)
        if self.syntax.quote in rest:
            return None
        records = rest.count(b"\n") + (not block.endswith(b"\n"))
        if b"\r" in rest and rest.count(b"\r") != rest.count(b"\r\n"):
            return None  # Polars takes some of them for the end of a line
        delimiters = rest.count(self.syntax.delimiter)
        return records if delimiters == records * (len(self.names) - 1) else None

    def _read_records(self, records: list[RecordLine]) -> tuple[pl.DataFrame, RecordErrors]:
        """Read the fields of each record separately; a bad record has nulls."""
        import polars as pl

        faults = RecordErrors()
        rows = []
        for at, record in enumerate(records):
            values = self._parse_record(record.text)
            if isinstance(values, str):
                faults[at] = values
                values = []
            rows.append([values[column] if values else None for column, _ in self._decoded_fields])
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self._decoded_fields)
        texts = [
            pl.Series(name, column, dtype=pl.String)
            for (_, name), column in zip(self._decoded_fields, columns, strict=True)
        ]
        return pl.DataFrame(height=len(records)).with_columns(texts), faults

    def _parse_record(self, record: bytes) -> list[str | None] | str:
        """Return the fields of a record, or its error."""
        fields = self.syntax.split_fields(record)
        if fields is None:
            return "a quote is out of place: within a quoted field it is doubled"
        if len(fields) != len(self.names):
            return f"wanted {len(self.names)} fields, got {len(fields)}"
        try:
            return [
                None if not quoted and text == self.null else text.decode()
                for quoted, text in fields
            ]
        except UnicodeDecodeError:
            return "wanted UTF-8"

    def _split_records(self, block: bytes, offset: int) -> list[RecordLine]:
        return list(self.syntax.split_records(block, offset, len(self.names)))

    def _convert_column(self, field: Field, texts: pl.Series, faults: RecordErrors) -> pl.Series:
        """Convert a column to its type; invalid values and forbidden nulls become faults."""
        column = convert_texts(texts, field.type)
        for row in (column.is_null() & texts.is_not_null()).arg_true():
            faults.setdefault(row, describe_invalid_value(field, f'"{shorten_text(texts[row])}"'))
        for row, why in find_null_violations(field, column).items():
            faults.setdefault(row, why)
        return column

    @cached_property
    def _decoded_fields(self) -> tuple[tuple[int, str], ...]:
        """The positions in a record and the names of the fields to decode.

        Columns that are not declared may be missing.
        """
        found = (name for name in self.schema.names if name in self.names)
        return tuple((self.names.index(name), name) for name in found)
