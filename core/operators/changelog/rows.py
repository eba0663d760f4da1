"""Changelog rows: compaction of a batch, and the stored versions of rows.

A changelog row is stored without a lookup. The versions of a row are merged when runs are
compacted, and when all rows of a group are read. A version is the slot it is stored under: the
number of the batch among those that touched its group, which the operator counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY, KEY_INDEX, SLOT, RunsLayout, StepState
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME
from headrace.core.types.frames import add_columns, gather_rows, select_columns
from headrace.core.types.key_groups import encode_keys

if TYPE_CHECKING:
    import polars as pl


ROW_ID = "__id"
"""The key of a changelog row, encoded as one string, which identifies the row."""


IS_DELETE = "__gone"
"""Whether a changelog row is a delete."""


NEWEST_TIME = "__last"
"""The greatest event time of the changelog rows of a group."""


EARLIER_TIME = "__earlier"
"""The stored NEWEST_TIME of a group, next to that of new rows."""


class ChangeCompactor:
    """The compaction of changelog batches, whose rows have these columns as their key."""

    def __init__(self, grouping: GroupingKey, id: Sequence[str]) -> None:
        self._grouping = grouping
        self._id = list(id)

    def compact(self, frame: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        """Return one row per changed row, with its group.

        The columns are KEY, the key of the group, these columns, EVENT_TIME, ROW_ID and IS_DELETE.
        """
        import polars as pl

        is_delete = pl.col(DELETE) if DELETE in frame.columns else pl.lit(False)
        rows = add_columns(frame, is_delete.alias(IS_DELETE), pl.lit("").alias(ROW_ID))
        if self._id:
            rows = rows.with_columns(encode_keys(frame[self._id]).alias(ROW_ID))
        rows = self._grouping.project_rows(rows, (*columns, ROW_ID, IS_DELETE))
        return self._grouping.encode_keys(rows.unique(ROW_ID, keep="last", maintain_order=True))


def find_groups(changes: pl.DataFrame, grouping: GroupingKey) -> pl.DataFrame:
    """Return the groups of these rows: KEY, the columns of the key, NEWEST_TIME."""
    import polars as pl

    timed = EVENT_TIME in changes.columns
    last = pl.col(EVENT_TIME).max() if timed else pl.lit(None, dtype=to_polars(TIMESTAMP))
    key = (pl.col(name).first() for name in grouping.internal_names)
    return changes.group_by(KEY, maintain_order=True).agg(*key, last.alias(NEWEST_TIME))


def add_stored_values(groups: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Add the stored values of groups that have any; NEWEST_TIME is then the later of both.

    `found` are the rows that were found for the KEY of these groups.
    """
    import polars as pl

    stored = found.drop(KEY_INDEX, KEY)
    if found.height < groups.height:
        at = pl.repeat(None, groups.height, dtype=pl.UInt32, eager=True)
        numbers = pl.int_range(found.height, dtype=pl.UInt32, eager=True)
        stored = gather_rows(stored, at.scatter(found[KEY_INDEX], numbers))
    newest = stored[NEWEST_TIME]
    joined = groups.hstack(stored.drop(NEWEST_TIME).get_columns())
    if newest.null_count() == len(newest):
        return joined
    later = pl.max_horizontal(NEWEST_TIME, newest.alias(EARLIER_TIME))
    return joined.with_columns(later.alias(NEWEST_TIME))


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

        stored_types = {**grouping.types, **columns, IS_DELETE: pl.Boolean()}
        self._key = list(grouping.internal_names)
        self._names = (*stored_types, SLOT)
        self._runs = state.open_runs(
            ROWS_STATE, RunsLayout(stored_types, grouping.internal_names, select_newest)
        )

    @property
    def deferred_rows(self) -> int:
        """The number of earlier rows that the next calls work on."""
        return self._runs.estimate_deferred_rows(for_lookup=True)

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
        versions = self._runs.take_keys(groups.select(self._key))
        if versions is None:
            return None
        last = select_newest(versions)
        return last.filter(~last[IS_DELETE])


def select_newest(versions: pl.DataFrame) -> pl.DataFrame:
    """Return the last version of each row."""
    return versions.sort(SLOT).unique(ROW_ID, keep="last", maintain_order=True)
