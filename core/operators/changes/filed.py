"""The rows of large groups as they are now: of each row its last change.

A change is filed, and nothing is looked up for that. The versions of a row come together when runs
are merged, and when all rows of a group are asked for. A version is the slot it is filed under: the
number of the batch among those that touched its group, which the operator counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core.frames import added, projected
from headrace.core.operators.changes.latest import GONE, ID
from headrace.core.operators.grouping import Grouping
from headrace.core.state import SLOT, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

ROWS = "rows"
"""What the runs are called in the state."""
VERSION = "__version"
"""How many batches have touched a group."""


class Filed:
    """Rows with these columns, ID among them, and those of the group."""

    def __init__(
        self, state: StepState, grouping: Grouping, columns: Mapping[str, pl.DataType]
    ) -> None:
        import polars as pl

        kept = {**grouping.types, **columns, GONE: pl.Boolean()}
        self._key = list(grouping.inside)
        self._names = (*kept, SLOT)
        self._runs = state.runs(ROWS, RunsLayout(kept, grouping.inside, newest))

    @property
    def owed(self) -> int:
        """On how many rows the next calls work that had come before."""
        return self._runs.owed(asking=True)

    def add(self, changes: pl.DataFrame) -> None:
        """Keep changes, each of another row, which have their group, GONE and VERSION."""
        import polars as pl

        if changes.height:
            slotted = added(changes, pl.col(VERSION).alias(SLOT))
            self._runs.add(projected(slotted, *self._names))

    def put_back(self, rows: pl.DataFrame) -> None:
        """Keep rows that were taken."""
        self._runs.add(projected(rows, *self._names))

    def take(self, groups: pl.DataFrame) -> pl.DataFrame | None:
        """The rows of these groups as they are now; they are kept no longer."""
        taken = self._runs.take_keys(groups.select(self._key))
        if taken is None:
            return None
        last = newest(taken)
        return last.filter(~last[GONE])


def newest(versions: pl.DataFrame) -> pl.DataFrame:
    """The last version of each row."""
    return versions.sort(SLOT).unique(ID, keep="last", maintain_order=True)
