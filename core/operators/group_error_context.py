"""Error context of user code in keyed operators: the key and the window of the failed group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.core.aggregates.user_aggregates import GroupCodeError
from headrace.core.api.state import SLOT
from headrace.core.api.window_classes import Window as Named
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.windows.grid import build_grid
from headrace.core.plan.nodes import WINDOW_BOUNDS
from headrace.core.plan.nodes.windows import Session, Window

if TYPE_CHECKING:
    import polars as pl

SESSION_START, SESSION_END = "__start", "__end"
"""The bounds of a session, as in the states of sessions."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class GroupErrorContext:
    """The error context of a step's groups, which adds their key and window to user errors."""

    def __init__(self, grouping: GroupingKey, window: Window | None) -> None:
        self._names = dict(zip(grouping.internal_names, grouping.names, strict=True))
        self._window = window

    @contextmanager
    def __call__(self, rows: pl.DataFrame) -> Iterator[None]:
        """Return a context in which the groups of errors consist of these rows."""
        try:
            yield
        except GroupCodeError as failed:
            where = self.describe_group({**failed.of, **_find_group_row(rows, failed.of)})
            message = f"{failed.message} ({where})" if where else failed.message
            raise GroupCodeError(message, failed.of, failed.hint) from failed.__cause__

    @contextmanager
    def resolve_numbers(self, groups: pl.DataFrame, number: str) -> Iterator[None]:
        """Return a context in which errors name a group by its number among these."""
        try:
            yield
        except GroupCodeError as failed:
            at = failed.of[number]
            assert isinstance(at, int)
            where = self.describe_group(groups.row(at, named=True))
            message = f"{failed.message} ({where})" if where else failed.message
            raise GroupCodeError(message, {}, failed.hint) from failed.__cause__

    def describe_group(self, group: Mapping[str, object]) -> str:
        """Describe the key and the window.

        >>> from headrace.core.expressions.typed import ColumnReference, Span
        >>> from headrace.core.plan.nodes import ComputedColumn
        >>> from headrace.core.plan.nodes.windows import Tumble
        >>> from headrace.core.types.data_types import STRING
        >>> key = ComputedColumn("user", ColumnReference(STRING, True, Span(0, 0), "user"))
        >>> context = GroupErrorContext(GroupingKey([key]), Window(Tumble(60_000_000)))
        >>> context.describe_group({"__k0": "ann", "__slot": 120_000_000})
        "key user='ann', window 1970-01-01T00:01:00 to 1970-01-01T00:02:00"
        """
        names = {**self._names, **{name: name for name in self._names.values()}}
        key = {names[n]: value for n, value in group.items() if n in names}
        text = ", ".join(f"{name}={value!r}" for name, value in key.items())
        return ", ".join(
            filter(None, (f"key {text}" if text else "", self._describe_window(group)))
        )

    def build_window(self, group: Mapping[str, object]) -> Named:
        """Build the window object, with the key, that user code receives."""
        key = {user: group.get(name) for name, user in self._names.items()}
        shape = self._window.shape if self._window else None
        if isinstance(shape, Session) and SESSION_END in group:
            end = _to_datetime(group[SESSION_END]) + timedelta(microseconds=shape.gap_us)
            return Named(key, _to_datetime(group[SESSION_START]), end)
        if WINDOW_BOUNDS[0] in group and WINDOW_BOUNDS[1] in group:
            return Named(key, *(_to_datetime(group[name]) for name in WINDOW_BOUNDS))
        return Named(key, None, None)

    def _describe_window(self, group: Mapping[str, object]) -> str:
        bounds = [group.get(name) for name in WINDOW_BOUNDS]
        if all(isinstance(each, datetime) for each in bounds):
            return f"window {' to '.join(map(_format_time, bounds))}"
        window, start, end, slot = self._window, *map(group.get, (SESSION_START, SESSION_END, SLOT))
        if window is None or not window.has_bounds:
            return ""
        if isinstance(window.shape, Session):
            known = isinstance(start, int) and isinstance(end, int)
            return (
                f"rows of a session from {_format_time(start)} to {_format_time(end)}"
                if known
                else ""
            )
        if not isinstance(slot, int):
            return ""
        grid = build_grid(window.shape)
        if grid.is_one_to_one:
            return f"window {_format_time(grid.window_start(slot))} to {_format_time(slot)}"
        return f"rows of windows around {_format_time(slot)}"


def _find_group_row(rows: pl.DataFrame, of: Mapping[str, object]) -> Mapping[str, object]:
    """Return the hidden values of the first row of the group, which name its window."""
    import polars as pl

    known = [pl.col(n).eq_missing(pl.lit(v)) for n, v in of.items() if n in rows.columns]
    found = rows.filter(*known).head(1) if known else rows.head(1)
    row = found.row(0, named=True) if found.height else {}
    return {name: value for name, value in row.items() if name.startswith("__")}


def _to_datetime(at: object) -> datetime:
    """Convert a time, or a number of microseconds, to a datetime."""
    if isinstance(at, int):
        return EPOCH + timedelta(microseconds=at)
    assert isinstance(at, datetime)
    return at


def _format_time(at: object) -> str:
    return _to_datetime(at).replace(tzinfo=None).isoformat()
