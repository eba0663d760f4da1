"""The bad records of a block while it is decoded: error texts by the number of the record.

One check is here because all formats share it: columns and struct fields that must not be null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.lines import RecordLine
from headrace.core.api.sources import BadRecord
from headrace.core.api.splits import Position
from headrace.core.types.data_types import Array, Field, MapType, Schema, Struct, Type

if TYPE_CHECKING:
    import polars as pl


MAX_SHOWN = 60


class RecordErrors(dict[int, str]):
    """The first error of each bad record of a block, by the number of the record."""


def describe_invalid_value(field: Field, got: str) -> str:
    """Return the error text of a field whose value is not of its type."""
    return f'column "{field.name}": wanted {field.type}, got {got}'


def shorten_text(text: str) -> str:
    """Return the text, cut if it is long."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def build_frame(columns: Sequence[pl.Series], rows: int) -> pl.DataFrame:
    """Build a frame of these columns; without columns, it still has the rows."""
    import polars as pl

    return pl.DataFrame(columns) if columns else pl.DataFrame(height=rows)


def split_bad_records(
    frame: pl.DataFrame, faults: RecordErrors, record: Callable[[int], RecordLine]
) -> DecodedBlock:
    """Split a frame with a row for each record into the good rows and the bad records."""
    import polars as pl

    if not faults:
        return frame, ()
    bad = []
    for row in sorted(faults):
        position, text = record(row)
        bad.append(BadRecord(faults[row], position, text.decode("utf-8", "replace")))
    if not frame.width:
        return pl.DataFrame(height=frame.height - len(bad)), tuple(bad)
    good = pl.Series([True], dtype=pl.Boolean).new_from_index(0, frame.height)
    return frame.filter(good.scatter(list(faults), False)), tuple(bad)


def split_null_violations(frame: pl.DataFrame, schema: Schema, first: int) -> DecodedBlock:
    """Split rows into those without forbidden nulls and bad records.

    A bad row's position is its number, counted from `first`; its raw text is its JSON.
    """
    import polars as pl

    faults: dict[int, str] = {}
    for field in schema:
        faults = find_null_violations(field, frame[field.name]) | faults
    if not faults:
        return frame, ()
    from headrace.connectors.formats.json_encode import JsonEncoder

    rows = sorted(faults)
    texts = JsonEncoder(schema).encode(frame[rows]).decode().split("\n")
    bad = tuple(
        BadRecord(faults[row], first + row, text) for row, text in zip(rows, texts, strict=False)
    )
    numbers = pl.int_range(frame.height, eager=True)
    return frame.filter(~numbers.is_in(rows)), bad


def list_row_numbers(first: int, last: int, bad_records: Sequence[BadRecord]) -> list[Position]:
    """Return the numbers of rows from `first` up to, not including, `last`, without bad ones."""
    bad = {each.position for each in bad_records}
    return [row for row in range(first, last) if row not in bad]


def find_null_violations(field: Field, column: pl.Series) -> dict[int, str]:
    """Return an error text for each row of a column with a forbidden null."""
    import polars as pl

    violations: dict[int, str] = {}
    wanted = f'column "{field.name}": wanted {field.type}'
    if has_required_field(field.type):
        within = (
            column.to_frame("v").select(_has_null_violation(pl.col("v"), field.type)).to_series()
        )
        violations = dict.fromkeys(within.arg_true(), f"{wanted}, got null within")
    if not field.nullable and column.null_count():
        violations |= dict.fromkeys(column.is_null().arg_true(), f"{wanted} not null, got null")
    return violations


def has_required_field(type: Type) -> bool:
    """Whether the type contains a struct field that must not be null."""
    match type:
        case Array(element):
            return has_required_field(element)
        case MapType(_, value):
            return has_required_field(value)
        case Struct(fields):
            return any(not field.nullable or has_required_field(field.type) for field in fields)
    return False


def _has_null_violation(value: pl.Expr, type: Type) -> pl.Expr:
    """Whether a required field within a value is null; a null value itself is not counted."""
    import polars as pl

    match type:
        case Array(element):
            return (
                value.list.eval(_has_null_violation(pl.element(), element))
                .list.any()
                .fill_null(False)
            )
        case MapType(_, of):
            return _has_null_violation(value.map.values(), Array(of))
        case Struct(fields):
            parts = [
                _has_null_violation(value.struct.field(field.name), field.type) for field in fields
            ]
            nulls = [value.struct.field(f.name).is_null() for f in fields if not f.nullable]
            return value.is_not_null() & pl.any_horizontal([*parts, *nulls])
    return pl.lit(False)
