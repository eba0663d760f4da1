"""Keys as Python values: a single value, or a tuple for several columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.keygroups import encode_keys
from headrace.core.operators.process.loaded import list_values

if TYPE_CHECKING:
    import polars as pl

CANONICAL_NAN = float("nan")
"""The NaN that replaces every other: a dict finds it only as the identical object."""


class KeyCodec:
    """The key of an operator: its internal columns, and its Python values."""

    def __init__(self, types: Mapping[str, pl.DataType]) -> None:
        self._types = dict(types)
        self._names = list(types)

    def decode(self, frame: pl.DataFrame) -> list[Any]:
        """Return the key of each row."""
        columns = [self._list_values(frame[name]) for name in self._names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def encode(self, frame: pl.DataFrame) -> pl.Series:
        """Return the encoded key of each row."""
        return encode_keys(frame[self._names])

    def encode_cells(self, cells: Iterable[Any]) -> pl.Series:
        """Return the encoded key of each cell."""
        return self.encode(self.build_columns([cell._id for cell in cells]))

    def build_columns(self, ids: Sequence[Any]) -> pl.DataFrame:
        """Convert Python keys to columns."""
        import polars as pl

        if len(self._names) == 1:
            ((name, type),) = self._types.items()
            return pl.Series(name, ids, dtype=type).to_frame()
        return pl.DataFrame(list(ids), schema=self._types, orient="row")

    def _list_values(self, column: pl.Series) -> list[Any]:
        shown = "the key"
        if len(self._names) > 1:
            shown = f"column {self._names.index(column.name) + 1} of the key"
        found = list_values(column, shown, "cast it to string")
        if column.dtype.is_float() and column.is_nan().any():
            return [CANONICAL_NAN if each != each else each for each in found]
        return found
