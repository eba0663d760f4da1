"""The stored rows of one side of a join that others may still match, in runs by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from headrace.core.elements import MAX_WATERMARK_US
from headrace.core.frames import pick_columns, select_columns
from headrace.core.operators.joins.sides import JoinSideColumns
from headrace.core.operators.place import KeyedContext
from headrace.core.plan import nodes
from headrace.core.state import SLOT, RunsLayout
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

SIDE_STATES = ("left", "right")
"""The names of the states of both sides."""

LOOKUP_FACTOR = 8
"""Keys are looked up if the stored rows are more than this many times the probing rows.

Otherwise all stored rows are read.
"""


class JoinSideBuffer:
    """Stored rows with the columns of their side and SLOT."""

    def __init__(
        self,
        operation: nodes.Join,
        which: int,
        place: KeyedContext,
        time: Literal["kept", "slot", "lost"] = "kept",
    ) -> None:
        """`time`: whether a row's time is a column, the slot, or not stored."""
        self.side = side = JoinSideColumns(operation, which, ordered=place.is_ordered)
        self.key = side.key
        self._time = side.time if time == "slot" else None
        types = dict(side.types)
        if time != "kept":
            del types[side.time]
        self.runs = place.state.open_runs(
            SIDE_STATES[which], RunsLayout(types, side.key, _skip_merge)
        )
        hidden = [name for name in (side.time, side.number) if name in types]
        self._output_columns = (*side.columns, *hidden)
        self._columns = tuple(types)
        self._types = {**types, SLOT: to_polars(BIGINT)}

    @property
    def row_count(self) -> int:
        """The number of stored rows."""
        return self.runs.rows

    @property
    def empty_frame(self) -> pl.DataFrame:
        """An empty frame of stored rows."""
        import polars as pl

        return pl.DataFrame(schema=self._types)

    def project_input(self, frame: pl.DataFrame, slot: pl.Expr | None = None) -> pl.DataFrame:
        """Convert input rows to stored rows; SLOT is their time, or the given expression."""
        rows = self.side.project_input(frame)
        if slot is not None:
            return select_columns(rows, *self._columns, slot.alias(SLOT))
        return pick_columns(rows, self._columns, rows[self.side.time].alias(SLOT))

    def project_output(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of stored rows, and the given expressions."""
        if more:
            assert self._time is None, "with window bounds, rows are emitted without their time"
            return select_columns(rows, *self._output_columns, *more)
        time = [] if self._time is None else [rows[SLOT].alias(self._time)]
        return pick_columns(rows, self._output_columns, *time)

    def is_selective(self, asking: int) -> bool:
        """Whether this number of probing rows is small compared with the stored rows."""
        return asking * LOOKUP_FACTOR < self.runs.rows

    def find_candidates(
        self, asking: pl.DataFrame, near: tuple[int, int] | None
    ) -> pl.DataFrame | None:
        """Return a superset of the rows that these may match; None if there are none."""
        after, until = _compute_reach(asking[SLOT], near)
        if not self.is_selective(asking.height):
            return self.runs.read(after, until)
        keys = asking[[*self.key]]
        return self.runs.read_keys(keys.unique() if keys.height > 1 else keys, after)

    def count_deferred_rows(self, asking: int) -> int:
        """Return the number of stored rows that a probe with this many rows works on."""
        return (
            self.runs.estimate_deferred_rows(asking=True)
            if self.is_selective(asking)
            else self.runs.rows
        )


def _compute_reach(slots: pl.Series, near: tuple[int, int] | None) -> tuple[int, int]:
    if near is None:
        return -1, MAX_WATERMARK_US
    return int(slots.min()) + near[0] - 1, int(slots.max()) + near[1]  # type: ignore[arg-type]


def _skip_merge(rows: pl.DataFrame) -> pl.DataFrame:
    return rows
