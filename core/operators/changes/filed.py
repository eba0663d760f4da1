"""The current rows of large groups: the last version of each row.

A changelog row is stored without a lookup. The versions of a row are merged when runs are
compacted, and when all rows of a group are read. A version is the slot it is stored under: the
number of the batch among those that touched its group, which the operator counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.frames import add_columns, select_columns
from headrace.core.operators.changes.latest import IS_DELETE, ROW_ID
from headrace.core.operators.grouping import GroupingKey
from headrace.core.state import SLOT, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

ROWS_STATE = "rows"
"""The name of the runs in the state."""
VERSION = "__version"
"""The number of batches that have touched a group."""


class VersionedRows:
    """Versioned rows with these columns, including ROW_ID, and the key of the group."""

    def __init__(
        self, state: StepState, grouping: GroupingKey, columns: Mapping[str, pl.DataType]
    ) -> None:
        import polars as pl

        kept = {**grouping.types, **columns, IS_DELETE: pl.Boolean()}
        self._key = list(grouping.internal_names)
        self._names = (*kept, SLOT)
        self._runs = state.open_runs(
            ROWS_STATE, RunsLayout(kept, grouping.internal_names, select_newest)
        )

    @property
    def deferred_rows(self) -> int:
        """The number of earlier rows that the next calls work on."""
        return self._runs.estimate_deferred_rows(asking=True)

    def add(self, changes: pl.DataFrame) -> None:
        """Store changelog rows, each of another row, with their group, IS_DELETE and VERSION."""
        import polars as pl

        if changes.height:
            slotted = add_columns(changes, pl.col(VERSION).alias(SLOT))
            self._runs.add(select_columns(slotted, *self._names))

    def put_back(self, rows: pl.DataFrame) -> None:
        """Store rows that were taken."""
        self._runs.add(select_columns(rows, *self._names))

    def take(self, groups: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the current rows of these groups."""
        taken = self._runs.take_keys(groups.select(self._key))
        if taken is None:
            return None
        last = select_newest(taken)
        return last.filter(~last[IS_DELETE])


def select_newest(versions: pl.DataFrame) -> pl.DataFrame:
    """Return the last version of each row."""
    return versions.sort(SLOT).unique(ROW_ID, keep="last", maintain_order=True)
