"""Keys as Python values: a single value, or a tuple for several columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.keygroups import encoded
from headrace.core.operators.process.loaded import listed

if TYPE_CHECKING:
    import polars as pl

NAN = float("nan")
"""The NaN that replaces every other: a dict finds it only as the identical object."""


class Keys:
    """The key of an operator: its internal columns, and its Python values."""

    def __init__(self, types: Mapping[str, pl.DataType]) -> None:
        self._types = dict(types)
        self._names = list(types)

    def ids(self, frame: pl.DataFrame) -> list[Any]:
        """Return the key of each row."""
        columns = [self._values(frame[name]) for name in self._names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def encoded(self, frame: pl.DataFrame) -> pl.Series:
        """Return the encoded key of each row."""
        return encoded(frame[self._names])

    def of(self, cells: Iterable[Any]) -> pl.Series:
        """Return the encoded key of each cell."""
        return self.encoded(self.columns([cell._id for cell in cells]))

    def columns(self, ids: Sequence[Any]) -> pl.DataFrame:
        """Convert Python keys to columns."""
        import polars as pl

        if len(self._names) == 1:
            ((name, type),) = self._types.items()
            return pl.Series(name, ids, dtype=type).to_frame()
        return pl.DataFrame(list(ids), schema=self._types, orient="row")

    def _values(self, column: pl.Series) -> list[Any]:
        shown = "the key"
        if len(self._names) > 1:
            shown = f"column {self._names.index(column.name) + 1} of the key"
        found = listed(column, shown, "cast it to string")
        if column.dtype.is_float() and column.is_nan().any():
            return [NAN if each != each else each for each in found]
        return found
