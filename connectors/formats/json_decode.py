"""The decoder of JSON lines: whole blocks at once, in Rust; a block with errors is sorted out.

`pl.read_ndjson` with the schema of the needed columns is strict, fast, and raises for a whole block
if one record in it is wrong. So a block is first read as if it had no errors; a small one by
`json_few_lines`, where both give the same. The columns are then
converted to the types of the schema. Polars makes a row of each line that is not blank, or raises:
tests verify this, so lines are not counted, which would take a tenth of the time of reading them.

If Polars raises, the faulty records are found by three questions, each answered by Polars itself,
for many records at a time:

1. Which records are JSON objects at all? Read leniently, a block raises only for others; a block
   that raises is halved until such records stand alone. Records that a second parser doubts are
   tried first, one by one: with hundreds of them among thousands, halving alone would take seconds.
2. Which single values are of a wrong type? Those that are null when read leniently, but not when
   read as text. If a double is declared and the text is NaN, Infinity or -Infinity, that is its
   value: no number has such a text.
3. Which arrays and structs are invalid? They are read strictly, and halved.

A rejected record becomes `{}` for the following questions, so that row numbers stay valid.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.connectors.formats import json_exact, json_reader
from headrace.connectors.formats.bad_records import (
    RecordErrors,
    build_frame,
    find_null_violations,
    split_bad_records,
)
from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.json_errors import (
    describe_invalid_field,
    describe_malformed,
    is_doubtful,
)
from headrace.connectors.formats.json_few_lines import read_few_lines
from headrace.connectors.formats.json_reader import has_lone_surrogate, list_wire_types, read_lines
from headrace.connectors.formats.json_wire import (
    contains_type,
    convert_column,
    needs_no_conversion,
    to_wire_type,
)
from headrace.connectors.formats.lines import BLANK, LineBlock, LineDecoder, remove_byte_order_mark
from headrace.connectors.formats.record_isolation import decode_isolated
from headrace.core.types.data_types import DOUBLE, FLOAT, Decimal, Field, Schema, is_nested
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


LinesReader: TypeAlias = "Callable[[list[bytes]], pl.DataFrame]"


EMPTY_OBJECT = b"{}"


def find_faults(
    schema: Schema, epoch: str | None, records: Sequence[bytes]
) -> tuple[pl.DataFrame, RecordErrors]:
    """Return a row of each record, null for a faulty one, and the faults."""
    sorting = _FaultFinder(schema, epoch, list(records))
    return sorting.read_frame(), sorting.faults


class _FaultFinder:
    def __init__(self, schema: Schema, epoch: str | None, texts: list[bytes]) -> None:
        self.schema = schema
        self.epoch = epoch
        self.types = list_wire_types(schema, epoch)
        self.texts = texts
        self.faults = RecordErrors()

    def read_frame(self) -> pl.DataFrame:
        """Answer the questions in turn."""
        frame = self.read_single_values(self.read_objects())
        nested = [
            self.read_nested_values(f)
            for f in self.schema
            if f.name in self.types and is_nested(f.type)
        ]
        return frame.with_columns(nested)

    def mark_bad(self, row: int, why: str) -> None:
        """Mark a record as bad."""
        self.faults.setdefault(row, why)
        self.texts[row] = EMPTY_OBJECT

    def read_objects(self) -> pl.DataFrame:
        """Give up records that are not JSON objects; read the valid single values of the rest."""
        from polars.exceptions import PolarsError

        for row, text in enumerate(self.texts):
            if text.lstrip(BLANK)[:1] != b"{":
                self.mark_bad(row, describe_malformed(text))
        if has_lone_surrogate(b"\n".join(self.texts)):
            for row, text in enumerate(self.texts):
                if has_lone_surrogate(text):
                    self.mark_bad(row, "wanted a JSON object: a text has half of a surrogate pair")
        try:
            return self.read_leniently(self.texts)
        except PolarsError:
            for row, text in enumerate(self.texts):
                if is_doubtful(text) and not self.is_object(text):
                    self.mark_bad(row, describe_malformed(text))
            return self.read_by_halving(
                range(len(self.texts)), self.read_leniently, describe_malformed
            )

    def is_object(self, text: bytes) -> bool:
        """Whether Polars accepts the text as a JSON object."""
        from polars.exceptions import PolarsError

        try:
            read_lines(text, {}, lenient=True)
        except PolarsError:
            return False
        return True

    def read_leniently(self, texts: list[bytes]) -> pl.DataFrame:
        """Read single values leniently."""
        single = {name: type for name, type in self.types.items() if not type.is_nested()}
        return read_lines(b"\n".join(texts), single, lenient=True)

    def read_by_halving(
        self, rows: Sequence[int], read: LinesReader, why: Callable[[bytes], str]
    ) -> pl.DataFrame:
        """Read these records by halving; those that cannot be read even alone are given up."""
        import polars as pl
        from polars.exceptions import PolarsError

        try:
            return read([self.texts[row] for row in rows])
        except PolarsError:
            if len(rows) == 1:
                self.mark_bad(rows[0], why(self.texts[rows[0]]))
                return read([EMPTY_OBJECT])
        middle = len(rows) // 2
        halves = rows[:middle], rows[middle:]
        return pl.concat([self.read_by_halving(half, read, why) for half in halves])

    def read_single_values(self, values: pl.DataFrame) -> pl.DataFrame:
        """Complete the single values; give up records with an invalid one."""
        import polars as pl

        fields = [
            field
            for field in self.schema
            if field.name in values.columns and values[field.name].null_count()
            if to_wire_type(field.type, self.epoch) != pl.String()
        ]
        types: dict[str, pl.DataType] = {field.name: pl.String() for field in fields}
        texts = read_lines(b"\n".join(self.texts), types, lenient=True)
        for field in fields:
            value, text = values[field.name], texts[field.name]
            if field.type in (FLOAT, DOUBLE):
                value = json_reader.fill_words(value, text)
                values = values.with_columns(value)
            for row in (value.is_null() & text.is_not_null()).arg_true():
                self.mark_bad(row, describe_invalid_field(field, self.texts[row]))
        return values

    def read_nested_values(self, field: Field) -> pl.Series:
        """Read an array or struct column; give up records with an invalid value within."""
        import polars as pl

        type = self.types[field.name]

        def read_strict(texts: list[bytes]) -> pl.DataFrame:
            return read_lines(b"\n".join(texts), {field.name: type})

        def read_with_words(texts: list[bytes]) -> pl.DataFrame:
            return json_reader.read_nested_column(field, self.epoch, texts)

        def explain_error(text: bytes) -> str:
            return describe_invalid_field(field, text)

        words = contains_type(field.type, FLOAT, DOUBLE)
        some = [row for row, text in enumerate(self.texts) if words and json_reader.has_words(text)]
        rest = sorted(set(range(len(self.texts))).difference(some))
        pieces = (
            self.read_by_halving(rest, read_strict, explain_error),
            self.read_by_halving(some, read_with_words, explain_error),
        )
        order = pl.Series(rest + some, dtype=pl.UInt32).arg_sort()
        return pl.concat(pieces)[field.name].gather(order)


@dataclass(slots=True)
class JsonDecoder(LineDecoder):
    """Decodes one JSON object a line into the fields of `schema`.

    A field that is not nullable must be present. `epoch` is the unit of numeric timestamps.
    """

    schema: Schema
    epoch: str | None = None
    _wire_types: dict[str, pl.DataType] | None = dataclasses.field(
        default=None, init=False, repr=False, compare=False
    )

    def decode(self, block: bytes, offset: int) -> DecodedBlock:
        """Decode the block at once; if that fails, without the faulty records."""
        return decode_isolated(self._decode_block, self.find_cut, block, offset)

    def _decode_block(self, block: bytes, offset: int) -> DecodedBlock:
        lines = LineBlock(*remove_byte_order_mark(block, offset))
        raw, faults = self._read_block(lines), RecordErrors()
        if raw is None:
            raw, faults = find_faults(self.schema, self.epoch, lines.record_texts)
        raw = self._add_exact_columns(raw, lines, faults)
        columns = [
            self._convert_column(field, raw[field.name], lines, faults) for field in self.schema
        ]
        frame = build_frame(columns, raw.height)
        return split_bad_records(frame, faults, lines.get_record)

    def _read_block(self, block: LineBlock) -> pl.DataFrame | None:
        """Read the block at once; None if any record is faulty."""
        from polars.exceptions import PolarsError

        if self._wire_types is None:
            self._wire_types = list_wire_types(self.schema, self.epoch, decimals=True)
        if (few := read_few_lines(block.data, self._wire_types)) is not None:
            return few
        if has_lone_surrogate(block.data):
            return None
        try:
            return read_lines(block.data, self._wire_types)
        except PolarsError:
            return self._read_without_decimals(block)

    def _read_without_decimals(self, block: LineBlock) -> pl.DataFrame | None:
        """Read the block without decimals, which may be in quotes; None if a record is faulty."""
        from polars.exceptions import PolarsError

        types = list_wire_types(self.schema, self.epoch)
        try:
            return read_lines(block.data, types) if types != self._wire_types else None
        except PolarsError:
            return None

    def _add_exact_columns(
        self, raw: pl.DataFrame, block: LineBlock, faults: RecordErrors
    ) -> pl.DataFrame:
        """Add the columns that Polars cannot read exactly."""
        exact = json_exact.list_exact_fields(self.schema)
        doubles = [f for f in exact if isinstance(f.type, Decimal) and f.name in raw.columns]
        columns = json_exact.convert_doubles(doubles, raw, block, faults)
        fields = [field for field in exact if field not in doubles]
        if not fields:
            return raw.with_columns(columns)
        cut_out = json_exact.extract_values(fields, block, sound=not faults)
        for field, written in zip(fields, cut_out, strict=True):
            before = raw[field.name] if field.name in raw.columns else None
            column, unfit = json_exact.insert_values(field, self.epoch, written, before)
            columns.append(column)
            for row in unfit:
                faults.setdefault(row, describe_invalid_field(field, block.record_texts[row]))
        return raw.with_columns(columns)

    def _convert_column(
        self, field: Field, raw: pl.Series, block: LineBlock, faults: RecordErrors
    ) -> pl.Series:
        """Convert a column to its type; invalid values and forbidden nulls become faults."""
        column = raw
        if not needs_no_conversion(field.type) and not raw.dtype.is_decimal():
            column, wrong = convert_column(raw, field.type, self.epoch)
            for row in wrong:
                faults.setdefault(row, describe_invalid_field(field, block.record_texts[row]))
        for row, why in find_null_violations(field, column).items():
            faults.setdefault(row, why)
        return column
