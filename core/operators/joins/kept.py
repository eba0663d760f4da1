"""The stored rows of one side of a join that others may still match, in runs by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from headrace.core.elements import FOREVER_US
from headrace.core.frames import of_columns, projected
from headrace.core.operators.joins.sides import Sided
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.state import SLOT, RunsLayout
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

STATES = ("left", "right")
"""The names of the states of both sides."""

FEWER = 8
"""Keys are looked up if the stored rows are more than this many times the probing rows.

Otherwise all stored rows are read.
"""


class Kept:
    """Stored rows with the columns of their side and SLOT."""

    def __init__(
        self,
        operation: nodes.Join,
        which: int,
        place: Place,
        time: Literal["kept", "slot", "lost"] = "kept",
    ) -> None:
        """`time`: whether a row's time is a column, the slot, or not stored."""
        self.side = side = Sided(operation, which, ordered=place.ordered)
        self.key = side.key
        self._time = side.time if time == "slot" else None
        types = dict(side.types)
        if time != "kept":
            del types[side.time]
        self.runs = place.state.runs(STATES[which], RunsLayout(types, side.key, _as_they_are))
        hidden = [name for name in (side.time, side.number) if name in types]
        self._output_columns = (*side.columns, *hidden)
        self._columns = tuple(types)
        self._types = {**types, SLOT: to_polars(BIGINT)}

    @property
    def rows(self) -> int:
        """The number of stored rows."""
        return self.runs.rows

    @property
    def none(self) -> pl.DataFrame:
        """An empty frame of stored rows."""
        import polars as pl

        return pl.DataFrame(schema=self._types)

    def of(self, frame: pl.DataFrame, slot: pl.Expr | None = None) -> pl.DataFrame:
        """Convert input rows to stored rows; SLOT is their time, or the given expression."""
        rows = self.side.rows(frame)
        if slot is not None:
            return projected(rows, *self._columns, slot.alias(SLOT))
        return of_columns(rows, self._columns, rows[self.side.time].alias(SLOT))

    def shown(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of stored rows, and the given expressions."""
        if more:
            assert self._time is None, "with window bounds, rows are emitted without their time"
            return projected(rows, *self._output_columns, *more)
        time = [] if self._time is None else [rows[SLOT].alias(self._time)]
        return of_columns(rows, self._output_columns, *time)

    def few(self, asking: int) -> bool:
        """Whether this number of probing rows is small compared with the stored rows."""
        return asking * FEWER < self.runs.rows

    def met_by(self, asking: pl.DataFrame, near: tuple[int, int] | None) -> pl.DataFrame | None:
        """Return a superset of the rows that these may match; None if there are none."""
        after, until = _reach(asking[SLOT], near)
        if not self.few(asking.height):
            return self.runs.read(after, until)
        keys = asking[[*self.key]]
        return self.runs.of_keys(keys.unique() if keys.height > 1 else keys, after)

    def owed(self, asking: int) -> int:
        """Return the number of stored rows that a probe with this many rows works on."""
        return self.runs.owed(asking=True) if self.few(asking) else self.runs.rows


def _reach(slots: pl.Series, near: tuple[int, int] | None) -> tuple[int, int]:
    if near is None:
        return -1, FOREVER_US
    return int(slots.min()) + near[0] - 1, int(slots.max()) + near[1]  # type: ignore[arg-type]


def _as_they_are(rows: pl.DataFrame) -> pl.DataFrame:
    return rows
