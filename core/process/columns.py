"""The arguments of `on_rows`: the states and outputs of a batch of keys, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl


class KeyedColumn(Protocol):
    """One state or timer of the keys of the current rows.

    A list state is a list column, a map state a list of structs of `key` and `value`.
    """

    def get(self) -> pl.Series:
        """Return for each row, in order, the value that its key had before these rows."""
        ...

    def set(self, values: pl.Series) -> None:
        """Set a value for each row; a key keeps the value of its last row. Null clears it."""
        ...


class AllState(Protocol):
    """The states of the keys of the current rows, by their declared names."""

    def __getattr__(self, name: str) -> KeyedColumn:
        """Return the column of a state or a timer."""
        ...


class AllOut(Protocol):
    """The output of rows: `out(frame)` emits to the step, `out.audit(frame)` to a named output."""

    def __call__(self, frame: pl.DataFrame, of: pl.Series | None = None) -> None:
        """Emit rows of the declared columns, each with the time of an input row.

        `of` assigns output rows to input rows: either the input row's index for each output row, in
        ascending order, or a boolean for each input row, whether it has an output row. Without it
        there is one output row for each input row.
        """
        ...

    def __getattr__(self, output: str) -> AllOut:
        """Return a named output."""
        ...
