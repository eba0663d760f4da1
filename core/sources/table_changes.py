"""Conversion of a source's records into changes of a table: upserts and deletes by key.

A record is an upsert unless its column `_change` or `_delete` says something else. An
`update_before` deletes the row that the following `update_after` adds again. If both have the same
key, which is the normal case, the two are one upsert. With a sequence, the step behind the source
sees to that: it takes the newest change of each key.

A deletion needs its key, and its sequence if there is one. The columns declared `not null` and the
event time are required in upserts only, so they are checked here. Where each change is a version of
its row, a deletion needs its event time too. An `update_before` has none then: it repeats the row
that the update replaces, with the time of that row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.sources import BadRecord, Chunk
from headrace.core.operators.dead_letters import format_row_text
from headrace.core.plan import nodes
from headrace.core.types.change_columns import (
    CHANGE,
    CHANGES,
    DELETED,
    UPDATE_AFTER,
    UPDATE_BEFORE,
)
from headrace.core.types.elements import DELETE
from headrace.core.types.key_groups import encode_keys

if TYPE_CHECKING:
    import polars as pl

KINDS = f"{', '.join(CHANGES[:-1])} or {CHANGES[-1]}"
"""The kinds in words; null is an upsert."""


class TableRecords:
    """The records of a source; those of a table become changes."""

    def __init__(self, source: nodes.Source) -> None:
        self._table = source.table
        self._event_time = source.event_time
        self._required = [
            field
            for field in source.schema
            if source.table is not None
            and field.name not in source.table.key
            and (field.name in source.not_null_columns or field.name == source.event_time)
        ]

    def convert(self, chunk: Chunk) -> Chunk:
        """Return the chunk with changes in place of records, and with more bad records."""
        if self._table is None or not chunk.frame.height:
            return chunk
        import polars as pl

        frame = _add_old_keys(chunk.frame, self._table.key)
        deletes, errors = _read_changes(frame)
        is_old = _find_old_rows(frame)
        for field in self._required:
            if not frame[field.name].null_count():
                continue
            message = f'column "{field.name}": wanted {field.type} not null, got null'
            times_all = self._table.has_versions and field.name == self._event_time
            missing = frame[field.name].is_null() & ~(is_old if times_all else deletes)
            errors = dict.fromkeys(missing.arg_true(), message) | errors
        if frame.height != chunk.frame.height:
            chunk = replace(chunk, list_positions=None)
        found = sorted(errors)
        bad = [
            BadRecord(errors[row], position, format_row_text(frame.row(row, named=True)))
            for row, position in zip(found, chunk.locate_rows(found), strict=True)
        ]
        good = pl.Series([True]).new_from_index(0, frame.height).scatter(found, False)
        kept = good
        if self._table.sequence is None:
            kept &= ~_find_same_row_updates(frame, self._table.key, good)
        changes = frame.drop(nodes.CHANGE_COLUMNS, strict=False).with_columns(deletes)
        if self._table.has_versions:
            changes = changes.with_columns(is_old)
        if not kept.all():
            changes = changes.filter(kept)
        return chunk.with_rows(changes, kept, bad)


def _add_old_keys(frame: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """Add a deletion of the old row before each change of a key that records with it say."""
    before = [f"{nodes.BEFORE_PREFIX}{name}" for name in key]
    if before[0] not in frame.columns:
        return frame
    import polars as pl

    changed = pl.all_horizontal(pl.col(name).is_not_null() for name in before)
    changed &= pl.any_horizontal(
        pl.col(old) != pl.col(new) for old, new in zip(before, key, strict=True)
    )
    numbered = frame.with_row_index("__number")
    old = numbered.filter(changed & ~pl.col(DELETE))
    if not old.height:
        return frame.drop(before)
    old = old.with_columns(
        pl.lit(True).alias(DELETE),
        *(pl.col(name).alias(new) for name, new in zip(before, key, strict=True)),
    )
    both = pl.concat([old, numbered]).sort("__number", maintain_order=True)
    return both.drop("__number", *before)


def _read_changes(frame: pl.DataFrame) -> tuple[pl.Series, dict[int, str]]:
    """Return which records are deletions, and the errors of those that are no changes."""
    import polars as pl

    deletes = pl.Series(DELETE, [False]).new_from_index(0, frame.height)
    errors: dict[int, str] = {}
    if DELETE in frame.columns:
        deletes = frame[DELETE].fill_null(False)
    if CHANGE in frame.columns and frame[CHANGE].null_count() < frame.height:
        kinds = frame[CHANGE]
        unknown = kinds.is_not_null() & ~kinds.is_in(CHANGES)
        for row in unknown.arg_true():
            errors[row] = f'{CHANGE}: wanted {KINDS}, got "{kinds[row]}"'
        deletes |= kinds.is_in((UPDATE_BEFORE, DELETED)).fill_null(False)
    return deletes.rename(DELETE), errors


def _find_old_rows(frame: pl.DataFrame) -> pl.Series:
    """Return which records only repeat the row before an update."""
    import polars as pl

    if CHANGE not in frame.columns:
        return pl.Series(nodes.IS_OLD_ROW, [False]).new_from_index(0, frame.height)
    return (frame[CHANGE] == UPDATE_BEFORE).fill_null(False).rename(nodes.IS_OLD_ROW)


def _find_same_row_updates(frame: pl.DataFrame, key: tuple[str, ...], good: pl.Series) -> pl.Series:
    """Return which records are an `update_before` that the next record, a good one, takes back."""
    before = _find_old_rows(frame)
    if not before.any():
        return before
    keys = encode_keys(frame[list(key)])
    follows = (frame[CHANGE].shift(-1) == UPDATE_AFTER) & (keys.shift(-1) == keys)
    follows &= good.shift(-1)
    return before & follows.fill_null(False)
