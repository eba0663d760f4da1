"""Two rows with one key: those of a full join whose keys are null on both sides.

A reader that needs the key of the join cannot have both, so the job fails by name. While changes
take different ways, a key may have two rows for a moment. What counts is what is there at an
aligned checkpoint, and at the end of the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.api.state import KEY
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.types.elements import WEIGHT

if TYPE_CHECKING:
    import polars as pl


class IndistinctRows(ExpressionFailure):
    """Two rows of a full join have the same key, because all its columns are null in both."""

    hint = (
        "where: COLUMN is not null, in a step before the join, leaves out the rows of a side "
        "without a key"
    )

    def __init__(self) -> None:
        super().__init__(
            "rows of both sides of a full join have a key of nulls, and replace each other"
        )


class RepeatedKeys:
    """The keys of a retract stream that have more than one row now.

    After a restart it starts empty: no checkpoint has such keys.
    """

    def __init__(self) -> None:
        self._keys: set[object] = set()

    def update(self, changed: pl.Series, rows: pl.DataFrame) -> None:
        """Take note of the rows, with weights, that the changed keys have now."""
        import polars as pl

        found: set[object] = set()
        if rows.height and (rows[KEY].n_unique() != rows.height or rows[WEIGHT].max() != 1):
            there = rows.filter(pl.col(WEIGHT) > 0).group_by(KEY).agg(pl.col(WEIGHT).sum())
            found = set(there.filter(pl.col(WEIGHT) > 1)[KEY])
        if self._keys or found:
            self._keys = self._keys.difference(changed) | found

    def check(self) -> None:
        """Check that no key has more than one row. Raises IndistinctRows."""
        if self._keys:
            raise IndistinctRows
