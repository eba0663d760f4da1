"""Lines of text aligned in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def align_columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Align rows in columns: the first to the left, the others, which are numbers, to the right.

    >>> list(align_columns([("", "in"), ("orders", "5")]))
    ['        in', 'orders   5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *numbers])
