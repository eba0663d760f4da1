"""Rows as a growing text table: a header once, then aligned lines, whatever the values hold.

Values are formatted as by `cast(... as string)`. A column is as wide as the widest value so far,
within limits; a longer value is cut. No character of a value moves the cursor or breaks the line.
Where rows may be deleted, the first column is `+` for a row that is there and `-` for one that is
not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast_form
from headrace.core.types.data_types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    Decimal,
    Schema,
    Type,
)
from headrace.core.types.elements import DELETE

if TYPE_CHECKING:
    import polars as pl

MAX_WIDTH = 40
MIN_WIDTH = 6
GAP = "  "

_NUMBER_TYPES = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"


class TextTable:
    """Formats batches as lines; `room` is the terminal's width, `bold` whether it has styles."""

    def __init__(self, schema: Schema, room: int | None = None, *, bold: bool = False) -> None:
        self._schema = Schema(tuple(sorted(schema, key=lambda field: field.name != DELETE)))
        self._room = room
        self._bold = bold
        self._widths: list[int] = []

    def format_rows(self, frame: pl.DataFrame) -> str:
        """Return the rows as lines; the first call adds the column names above them."""
        cells = [_format_values(frame[field.name], field.type) for field in self._schema]
        heads = ["" if name == DELETE else _escape_controls(name) for name in self._schema.names]
        first = not self._widths
        widths = self._widths or [_measure_width(head) for head in heads]
        self._widths = self._fit_widths(
            max(width, *map(_measure_width, column), 0)
            for width, column in zip(widths, cells, strict=True)
        )
        columns = [
            [_pad(cell, width, right=_is_number(field.type)) for cell in column]
            for field, column, width in zip(self._schema, cells, self._widths, strict=True)
        ]
        lines = [GAP.join(row).rstrip() for row in zip(*columns, strict=True)]
        if first:
            lines.insert(0, self._format_header(heads))
        return "".join(f"{line}\n" for line in lines)

    def _format_header(self, names: list[str]) -> str:
        cells = [
            _pad(name, width, right=_is_number(field.type))
            for name, width, field in zip(names, self._widths, self._schema, strict=True)
        ]
        line = GAP.join(cells).rstrip()
        return f"{_BOLD}{line}{_RESET}" if self._bold else line

    def _fit_widths(self, wanted: Iterable[int]) -> list[int]:
        """Return widths within the limits: on a terminal, the widest columns shrink first."""
        widths = [min(width, MAX_WIDTH) for width in wanted]
        if self._room is None:
            return widths
        spare = self._room - len(GAP) * (len(widths) - 1) - sum(widths)
        while spare < 0 and (widest := max(widths)) > MIN_WIDTH:
            widths[widths.index(widest)] -= 1
            spare += 1
        return widths


def _is_number(type: Type) -> bool:
    return type in _NUMBER_TYPES or isinstance(type, Decimal)


def _format_values(values: pl.Series, type: Type) -> list[str]:
    import polars as pl

    if values.name == DELETE:
        return ["-" if deleted else "+" for deleted in values]
    if type != STRING:
        values = (
            values.to_frame().select(build_cast_form(type, STRING)(pl.col(values.name))).to_series()
        )
    return ["null" if text is None else _escape_controls(text) for text in values]


def _escape_controls(text: str) -> str:
    """Return the text on one line, control characters escaped.

    >>> _escape_controls("a\\n\\x1b[2J")
    'a\\\\n\\\\x1b[2J'
    """
    return _CONTROL_CHARACTERS.sub(lambda found: repr(found[0])[1:-1], text)


def _measure_width(text: str) -> int:
    """Return the number of terminal cells that the text takes.

    >>> _measure_width("añ"), _measure_width("日本"), _measure_width("e\\u0301")
    (2, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_count_cells, text))


def _count_cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pad(text: str, width: int, *, right: bool) -> str:
    """Return the text at exactly that width, cut or padded."""
    text_width = _measure_width(text)
    if text_width > width:
        text, text_width = _truncate(text, width)
    fill = " " * (width - text_width)
    return fill + text if right else text + fill


def _truncate(text: str, width: int) -> tuple[str, int]:
    """Return the text cut to a width and marked with an ellipsis, and the width it takes."""
    text_width = 0
    for at, character in enumerate(text):
        cells = _count_cells(character)
        if text_width + cells > width - 1:
            return text[:at] + "…", text_width + 1
        text_width += cells
    return text, text_width
