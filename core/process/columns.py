"""What `on_rows` is handed: states and outputs of many keys at once, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl


class Column(Protocol):
    """One state, or timer, of the keys of the rows that are handled.

    A list is a list of its elements, a map one of structs of `key` and `value`.
    """

    def get(self) -> pl.Series:
        """For each row what its key had before these rows, in their order."""
        ...

    def set(self, values: pl.Series) -> None:
        """A value for each row; each key keeps that of its last row. Null is nothing."""
        ...


class AllState(Protocol):
    """The states of the keys of the rows that are handled, by the names that the class declares."""

    def __getattr__(self, name: str) -> Column:
        """A state or a timer."""
        ...


class AllOut(Protocol):
    """Where rows go: `out(frame)` to those of the step, `out.audit(frame)` to an output."""

    def __call__(self, frame: pl.DataFrame, of: pl.Series | None = None) -> None:
        """Put out rows of the declared columns, each with the time of the row that it is of.

        `of` says of which: for each the number of a row that was handed over, from 0 and rising;
        or, for each row that was handed over, whether it has one. Without it there is one for each.
        """
        ...

    def __getattr__(self, output: str) -> AllOut:
        """A named output."""
        ...
