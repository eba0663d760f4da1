"""The checks of a stream against what a test expects of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.core.errors.problems import Location
from headrace.core.errors.rendering import format_count
from headrace.core.expressions import to_expr
from headrace.core.testing.bound_tests import ExpectedStream
from headrace.core.testing.visible_rows import (
    Row,
    RowDifference,
    find_difference,
    find_missing,
    format_difference,
    format_rows,
)
from headrace.core.types.data_types import to_polars
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between what a test expects and what came; `lines` show the rows."""

    location: Location
    message: str
    lines: tuple[str, ...] = ()
    hint: str = ""
    check: str = ""
    """The key of the expectation that does not hold."""


def check_rows(
    expected: ExpectedStream, rows: Sequence[Row], *, is_ordered: bool
) -> Iterator[Mismatch]:
    """Yield what does not hold of the rows of a stream; without `is_ordered` they have no order."""
    written, place = expected.written, expected.written.location
    name = expected.stream.name
    if expected.rows is not None:
        difference = find_difference(expected.rows, rows, written)
        if difference.is_reordered and is_ordered:
            lines = format_rows([(" ", row) for row in rows])
            yield Mismatch(
                place, f"{name}: the rows came in another order", tuple(lines), check="rows"
            )
        elif difference.missing or difference.unexpected:
            lines = format_difference(difference)
            yield Mismatch(place, f"{name}: {_describe(difference)}", tuple(lines), check="rows")
    if missing := find_missing(expected.contains or (), rows, written.tolerance):
        marked = [*(("-", row) for row in missing), *((" ", row) for row in rows)]
        message = f"{name}: {format_count(len(missing), 'row')} did not come"
        yield Mismatch(place, message, tuple(format_rows(marked)), check="contains")
    if written.count is not None and written.count != len(rows):
        message = f"{name}: wanted {format_count(written.count, 'row')}, got {len(rows)}"
        lines = format_rows([(" ", row) for row in rows])
        yield Mismatch(place, message, tuple(lines), check="count")
    if wrong := _find_violations(expected, rows):
        message = f"{name}: {format_count(len(wrong), 'row')} for which {written.where} is not true"
        lines = format_rows([("+", row) for row in wrong])
        yield Mismatch(place, message, tuple(lines), check="where")


def _describe(difference: RowDifference) -> str:
    parts = []
    if difference.missing:
        parts.append(f"{format_count(len(difference.missing), 'row')} (-) did not come")
    if difference.unexpected:
        count = format_count(len(difference.unexpected), "row")
        parts.append(f"{count} (+) came unexpectedly")
    return ", ".join(parts)


def _find_violations(expected: ExpectedStream, rows: Sequence[Row]) -> list[Row]:
    """Return the rows for which the condition is not true."""
    if expected.condition is None or not rows:
        return []
    import polars as pl

    schema = {field.name: to_polars(field.type) for field in expected.stream.schema}
    data = {name: [row[name] for row in rows] for name in schema}
    holds = pl.DataFrame(data, schema).select(to_expr(expected.condition)).to_series()
    return [row for row, is_true in zip(rows, holds, strict=True) if not is_true]
