"""Matched rows as tuples, and as frames for expressions over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.matches.match_state import list_matched_columns, to_physical_type
from headrace.core.patterns.automaton import Automaton
from headrace.core.patterns.runs import AT, TIME, History, Row
from headrace.core.plan.nodes import VARIABLE, Match
from headrace.core.types.row_order import add_row_order

if TYPE_CHECKING:
    import polars as pl

MATCH = "__match"
"""The column with the number of the match of a row."""


class MatchedRowColumns:
    """The columns of matched rows: their places in tuples, and their types."""

    def __init__(self, match: Match, automaton: Automaton) -> None:
        self.types = list_matched_columns(match)
        self.places = {name: at for at, name in enumerate(self.types, TIME)}
        self._key_types = GroupingKey(match.key).types
        self._variable_names = [automaton.names[each] for each in automaton.variables]
        """The variables of positions."""

    def find_positions(self, variable: str | None) -> frozenset[int]:
        """Return the positions of a variable; None: all of them."""
        found = enumerate(self._variable_names)
        return frozenset(at for at, each in found if variable in (None, each))

    def list_values(self, rows: pl.DataFrame) -> list[list[Any]]:
        """Return the values of rows, by column, as they are in tuples."""
        columns = (rows[name] for name in self.types)
        return [column.cast(to_physical_type(column.dtype)).to_list() for column in columns]

    def build_frame(self, histories: Iterable[History | None]) -> pl.DataFrame:
        """Return the rows of matches, with the number of the match, the variable and the order."""
        import polars as pl

        numbers, positions, rows = list[int](), list[int](), list[Row]()
        found = list(histories)
        for number in range(len(found) - 1, -1, -1):
            history = found[number]
            while history is not None:
                history, position, row = history
                numbers.append(number)
                positions.append(position)
                rows.append(row)
        for each in (numbers, positions, rows):
            each.reverse()  # a history leads from its last row to its first one
        variables = [*map(self._variable_names.__getitem__, positions)]
        columns = [[*map(itemgetter(at), rows)] for at in range(len(self.types) + 1)]
        frame = pl.DataFrame(
            [
                pl.Series(MATCH, numbers, dtype=pl.UInt32),
                pl.Series(VARIABLE, variables, dtype=pl.String),
                *self._build_columns(columns[TIME:]),
            ]
        )
        return add_row_order(frame, pl.Series("at", columns[AT], dtype=pl.Int64))

    def build_row_frame(self, row: Row) -> pl.DataFrame:
        """Return a frame of one row, without its order."""
        import polars as pl

        return pl.DataFrame(self._build_columns([(value,) for value in row[TIME:]]))

    def build_key_frame(self, rows: Sequence[Row]) -> pl.DataFrame:
        """Return the columns of the key of rows."""
        import polars as pl

        return pl.DataFrame(
            [
                pl.Series(name, [row[at] for row in rows], dtype=to_physical_type(type)).cast(type)
                for at, (name, type) in enumerate(self._key_types.items(), TIME + 1)
            ]
        )

    def _build_columns(self, columns: Sequence[Sequence[Any]]) -> list[pl.Series]:
        import polars as pl

        return [
            pl.Series(name, values, dtype=to_physical_type(type)).cast(type)
            for (name, type), values in zip(self.types.items(), columns, strict=True)
        ]
