"""The rows that readers of a stream see, compared with those that a test expects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from headrace.core.pipeline.pipeline_tests.model import StreamExpectation
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

Row: TypeAlias = Mapping[str, object]
MAX_SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class RowDifference:
    """Expected rows that did not come, rows that came unexpectedly, and those that are equal."""

    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]
    equal: tuple[Row, ...]
    is_reordered: bool = False

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.is_reordered)


def fold_changes(changes: Iterable[Row], kind: nodes.StreamKind) -> list[dict[str, object]]:
    """Return the table that changes result in; rows of other streams are their own table."""
    if isinstance(kind, nodes.Append):
        return [dict(row) for row in changes]
    table: dict[object, list[dict[str, object]]] = {}
    for change in changes:
        row = {name: value for name, value in change.items() if name != DELETE}
        is_removed = bool(change.get(DELETE))
        key = _make_hashable([row[name] for name in kind.key] if kind.key is not None else row)
        if kind.key is not None:
            table[key] = [] if is_removed else [row]
        elif is_removed:
            table[key] = table.get(key, [])[:-1]
        else:
            table.setdefault(key, []).append(row)
    return [row for rows in table.values() for row in rows]


def _make_hashable(value: object) -> object:
    match value:
        case dict():
            return tuple((key, _make_hashable(inner)) for key, inner in value.items())
        case list():
            return tuple(map(_make_hashable, value))
    return value


def have_equal_rows(one: Sequence[Row], other: Sequence[Row]) -> bool:
    """Whether these are the same rows in any order; rows that are only almost equal are not."""
    if one == other:
        return True
    try:
        return Counter(map(_make_hashable, one)) == Counter(map(_make_hashable, other))
    except TypeError:
        return False


def find_difference(
    expected: Sequence[Row], rows: Sequence[Row], written: StreamExpectation
) -> RowDifference:
    """Compare all rows of a stream with those expected."""
    left = list(rows)
    missing, equal = list[Row](), list[Row]()
    for row in expected:
        found = next((each for each in left if are_equal_rows(row, each, written.tolerance)), None)
        if found is None:
            missing.append(row)
        else:
            equal.append(found)
            left.remove(found)
    in_order = len(expected) == len(rows) and all(
        are_equal_rows(one, other, written.tolerance)
        for one, other in zip(expected, rows, strict=True)
    )
    is_reordered = written.is_ordered and not missing and not left and not in_order
    return RowDifference(tuple(missing), tuple(left), tuple(equal), is_reordered)


def find_missing(contained: Sequence[Row], rows: Sequence[Row], tolerance: float) -> list[Row]:
    """Return the rows of `contained` that are not among the rows; each counts once."""
    left, missing = list(rows), list[Row]()
    for row in contained:
        found = next((each for each in left if are_equal_rows(row, each, tolerance)), None)
        if found is None:
            missing.append(row)
        else:
            left.remove(found)
    return missing


def are_equal_rows(expected: Row, row: Row, tolerance: float) -> bool:
    """Whether a row has the expected values; it may have other columns."""
    return all(
        _are_equal(value, bool(row.get(name)) if name == DELETE else row.get(name), tolerance)
        for name, value in expected.items()
    ) and (DELETE in expected or not row.get(DELETE))


def _are_equal(one: object, other: object, tolerance: float) -> bool:
    match one, other:
        case float(), float():
            if math.isnan(one) or math.isnan(other):
                return math.isnan(one) and math.isnan(other)
            return one == other or abs(one - other) <= tolerance
        case list(), list():
            return len(one) == len(other) and all(
                _are_equal(a, b, tolerance) for a, b in zip(one, other, strict=True)
            )
        case dict(), dict():
            return one.keys() == other.keys() and all(
                _are_equal(value, other[key], tolerance) for key, value in one.items()
            )
    return one == other


def format_difference(difference: RowDifference) -> list[str]:
    """Format the difference as a table: expected rows that are missing, then what came instead."""
    marked = [
        *(("-", row) for row in difference.missing),
        *(("+", row) for row in difference.unexpected),
        *((" ", row) for row in difference.equal),
    ]
    return format_rows(marked)


def format_rows(marked: Sequence[tuple[str, Row]]) -> list[str]:
    """Format rows, each after a mark, as a table."""
    names = list(dict.fromkeys(name for _, row in marked for name in row))
    shown = marked[:MAX_SHOWN_ROWS]
    cells = [[name for name in names]]
    cells += [[format_cell(row[n]) if n in row else "" for n in names] for _, row in shown]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    marks = [" ", *(mark for mark, _ in shown)]
    lines = [
        f"{mark} {'  '.join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))}".rstrip()
        for mark, row in zip(marks, cells, strict=True)
    ]
    left = len(marked) - len(shown)
    return [*lines, f"  ... and {left} more"] if left else lines


def format_cell(value: object) -> str:
    """Format a value as it is written in a test.

    >>> format_cell(None), format_cell(True), format_cell([1, {"a": "b"}])
    ('null', 'true', '[1, {a: b}]')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list():
            return f"[{', '.join(map(format_cell, value))}]"
        case dict():
            return f"{{{', '.join(f'{k}: {format_cell(v)}' for k, v in value.items())}}}"
        case str() | int() | float() | Decimal():
            return str(value)
        case _ if hasattr(value, "isoformat"):
            return str(value.isoformat()).replace("+00:00", "Z")
    return str(value)
