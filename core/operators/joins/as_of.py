"""`as_of`: each left row is joined with the right row of its key that is valid at its time.

That is the right row with the latest time that is not after the left row's. So rows of both sides
wait until the watermark has passed them; then the left rows are emitted in the order of their time.
The cost of advancing time depends on the rows that are due, not on the number of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.frames import filtered, of_columns, picked
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.sides import LEFT, RIGHT, Sided
from headrace.core.operators.joins.versions import AT, Versions
from headrace.core.operators.operator import MOST_ROWS, Clockless, Output, Timely, aside
from headrace.core.operators.place import Place
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOf
from headrace.core.state import KEY, SLOT, RunsLayout

if TYPE_CHECKING:
    import polars as pl

WAITING = "left"
"""The name of the state of left rows."""
ROW = "__row"


class AsOfJoin(Clockless, Timely):
    """The operator of an inner or left join with `as_of`."""

    def __init__(self, operation: nodes.Join, matching: AsOf, place: Place) -> None:
        self._context = place
        self._state = place.state
        self._late_to = operation.late_to
        self._is_inner = operation.type == "inner"
        self._left = Sided(operation, LEFT, ordered=place.ordered)
        self._pairs = Pairs(operation, place.stream, ordered=place.ordered)
        self._versions = Versions(operation, matching.ttl_us, place)
        self._version_columns = [n for n in self._versions.columns if n != self._versions.side.time]
        kept = {name: type for name, type in self._left.types.items() if name != self._left.time}
        layout = RunsLayout(kept, self._left.key, lambda rows: rows)
        self._waiting = place.state.runs(WAITING, layout)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer left rows for the watermark."""
        yield from aside(self._waiting.owed(asking=False))
        rows = self._left.rows((yield from self._context.in_time(frame, self._late_to[LEFT])))
        if self._is_inner and (lacks := self._left.lacks_key(rows)) is not None:
            rows = rows.filter(~lacks)
        self._waiting.add(rows.rename({self._left.time: SLOT}))

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer right rows for the watermark."""
        yield from aside(self._versions.owed(asking=False))
        self._versions.add((yield from self._context.in_time(frame, self._late_to[RIGHT])))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the left rows that the watermark has passed."""
        if watermark_us <= self._state.clock_us:
            return
        self._state.clock_us = watermark_us
        until_us = watermark_us if watermark_us == FOREVER_US else watermark_us - 1
        first = self._waiting.first()
        asked = first is not None and first <= until_us
        if asked or self._versions.is_due(until_us):
            yield from aside(self._versions.owed(asking=True))
        due = self._versions.due(until_us)
        rows = self._waiting.take(until_us) if asked else None
        if rows is not None:
            times = rows[SLOT].alias(self._left.time)
            yield from self._beside(rows.hstack([times]), due)
        self._versions.keep(due)

    @property
    def held(self) -> int:
        """The number of buffered rows."""
        return self._waiting.rows + self._versions.rows

    def _beside(self, rows: pl.DataFrame, due: pl.DataFrame | None) -> Iterator[Output]:
        """Join these rows, sorted by time, each with the version that it matches."""
        keys = self._left.encoded(rows)[KEY]
        if (lacks := self._left.lacks_key(rows)) is not None:
            keys = keys.set(lacks, None)
        versions, met = self._versions.met(keys, rows[self._left.time], due)
        versions = of_columns(versions, self._version_columns)
        if self._is_inner and met.null_count():
            meets = met.is_not_null()
            rows, met = filtered(rows, meets), met.filter(meets)
        for start in range(0, rows.height, MOST_ROWS):
            part = rows.slice(start, MOST_ROWS)
            yield from self._pairs.rows(self._made(part, versions, met.slice(start, MOST_ROWS)))

    def _made(self, rows: pl.DataFrame, versions: pl.DataFrame, met: pl.Series) -> pl.DataFrame:
        """Combine rows and versions, and apply the join condition."""
        pairs = _paired(rows, versions, met)
        if not self._pairs.asks:
            return pairs
        if self._is_inner:
            return self._pairs.meant(pairs)
        import polars as pl

        found = pairs.with_row_index(ROW).filter(met.is_not_null())
        right = self._pairs.meant(found)[ROW]
        none = pl.Series(AT, [None], dtype=met.dtype).new_from_index(0, len(met))
        return _paired(rows, versions, none.scatter(right, met[right]))


def _paired(rows: pl.DataFrame, versions: pl.DataFrame, met: pl.Series) -> pl.DataFrame:
    return rows.hstack(picked(versions, met).get_columns()) if versions.width else rows
