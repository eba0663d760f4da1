"""JSON lines to frames: whole blocks at once, in Rust; a block with errors is sorted out.

`pl.read_ndjson` with the schema of the needed columns is strict, fast, and raises for a whole block
if one record in it is wrong. So a block is first read as if it had no errors. If Polars raises,
`json_sorting` finds the faulty records and reads the others. The columns are then converted to
the types of the schema.

Polars makes a row of each line that is not blank, or raises: tests verify this, so lines are not
counted, which would take a tenth of the time of reading them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.formats import json_exact
from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.faults import RecordErrors, build_frame, split_bad_records
from headrace.connectors.formats.json_explain import describe_invalid_field
from headrace.connectors.formats.json_halves import has_lone_surrogate
from headrace.connectors.formats.json_read import list_wire_types, read_lines
from headrace.connectors.formats.json_sorting import find_faults
from headrace.connectors.formats.json_wire import convert_column, needs_no_conversion
from headrace.connectors.formats.lines import LineBlock, LineDecoder, remove_byte_order_mark
from headrace.connectors.formats.required import find_null_violations
from headrace.core.types import Field, Schema

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class JsonDecoder(LineDecoder):
    """Decodes one JSON object a line into the fields of `schema`.

    A field that is not nullable must be present. `epoch` is the unit of numeric timestamps.
    """

    schema: Schema
    epoch: str | None = None

    def decode(self, block: bytes, offset: int) -> DecodedBlock:
        """Decode the block at once; if that fails, without the faulty records."""
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
        """Read the block with Polars; None if any record is faulty."""
        from polars.exceptions import PolarsError

        if has_lone_surrogate(block.data):
            return None
        try:
            return read_lines(block.data, list_wire_types(self.schema, self.epoch))
        except PolarsError:
            return None

    def _add_exact_columns(
        self, raw: pl.DataFrame, block: LineBlock, faults: RecordErrors
    ) -> pl.DataFrame:
        """Add the columns that Polars cannot read exactly."""
        fields = json_exact.list_exact_fields(self.schema)
        if not fields:
            return raw
        columns = []
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
        if not needs_no_conversion(field.type):
            column, wrong = convert_column(raw, field.type, self.epoch)
            for row in wrong:
                faults.setdefault(row, describe_invalid_field(field, block.record_texts[row]))
        for row, why in find_null_violations(field, column).items():
            faults.setdefault(row, why)
        return column
