"""The columns of rows that each describe a change of a table."""

from __future__ import annotations

from typing import Literal, TypeAlias

CHANGE = "_change"
"""The column with the kind of a change: one of `CHANGES`."""

SEQUENCE = "_sequence"
"""The column that orders the changes of a key (bigint)."""

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETED = "insert", "update_before", "update_after", "delete"
"""The kinds of changes: a new row, a row that is replaced, its replacement, a row that is gone."""

CHANGES = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETED)

BEFORE = "__before"
"""The hidden column with the row that a change replaces or deletes (a struct); null if none."""

CHANGE_NUMBER = "__sequence"
"""The hidden column that orders the changes of a key, where rows are written as envelopes."""

ChangeForm: TypeAlias = Literal["full", "debezium"]
"""The form in which a sink writes changes: rows with CHANGE and SEQUENCE, or envelopes."""
