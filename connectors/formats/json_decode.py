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
from headrace.connectors.formats.contract import Decoded
from headrace.connectors.formats.faults import Faults, framed, parted
from headrace.connectors.formats.json_explain import misfit
from headrace.connectors.formats.json_halves import has_lone_half
from headrace.connectors.formats.json_read import read, wires
from headrace.connectors.formats.json_sorting import sort_out
from headrace.connectors.formats.json_wire import converted, is_plain
from headrace.connectors.formats.lines import Block, ByLine, without_mark
from headrace.connectors.formats.required import lacking
from headrace.core.types import Field, Schema

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class JsonDecoder(ByLine):
    """Decodes one JSON object a line into the fields of `schema`.

    A field that is not nullable must be present. `epoch` is the unit of numeric timestamps.
    """

    schema: Schema
    epoch: str | None = None

    def decode(self, block: bytes, offset: int) -> Decoded:
        """Decode the block at once; if that fails, without the faulty records."""
        lines = Block(*without_mark(block, offset))
        raw, faults = self._at_once(lines), Faults()
        if raw is None:
            raw, faults = sort_out(self.schema, self.epoch, lines.texts)
        raw = self._with_exact(raw, lines, faults)
        columns = [self._finished(field, raw[field.name], lines, faults) for field in self.schema]
        frame = framed(columns, raw.height)
        return parted(frame, faults, lines.record)

    def _at_once(self, block: Block) -> pl.DataFrame | None:
        """Read the block with Polars; None if any record is faulty."""
        from polars.exceptions import PolarsError

        if has_lone_half(block.data):
            return None
        try:
            return read(block.data, wires(self.schema, self.epoch))
        except PolarsError:
            return None

    def _with_exact(self, raw: pl.DataFrame, block: Block, faults: Faults) -> pl.DataFrame:
        """Add the columns that Polars cannot read exactly."""
        fields = json_exact.exact_fields(self.schema)
        if not fields:
            return raw
        columns = []
        cut_out = json_exact.cut_out(fields, block, sound=not faults)
        for field, written in zip(fields, cut_out, strict=True):
            before = raw[field.name] if field.name in raw.columns else None
            column, unfit = json_exact.put_in(field, self.epoch, written, before)
            columns.append(column)
            for row in unfit:
                faults.setdefault(row, misfit(field, block.texts[row]))
        return raw.with_columns(columns)

    def _finished(self, field: Field, raw: pl.Series, block: Block, faults: Faults) -> pl.Series:
        """Convert a column to its type; invalid values and forbidden nulls become faults."""
        column = raw
        if not is_plain(field.type):
            column, wrong = converted(raw, field.type, self.epoch)
            for row in wrong:
                faults.setdefault(row, misfit(field, block.texts[row]))
        for row, why in lacking(field, column).items():
            faults.setdefault(row, why)
        return column
