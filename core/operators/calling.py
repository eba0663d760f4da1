"""A user function that is called once per key and window, with the rows of the group."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.operators.telling import GroupErrorContext
from headrace.core.user_code import UserCode, UserCodeError, get_instance
from headrace.core.windows import Window

if TYPE_CHECKING:
    import polars as pl


class GroupFunction:
    """A user function, or an instance of a callable user class; loaded on first use."""

    def __init__(self, code: UserCode, telling: GroupErrorContext) -> None:
        self.name = code.display_name
        self._code = code
        self._error_context = telling
        self._function: Callable[..., object] | None = None
        self._wants_window = False

    def bind_groups(self, groups: pl.DataFrame, by: Sequence[str]) -> GroupCalls:
        """Bind the function to the groups of a frame, one row each, named by the columns `by`."""
        if self._function is None:
            function = self._code.load()
            self._function = get_instance(self._code) if isinstance(function, type) else function
            self._wants_window = count_arguments(self._function) > 1
        return GroupCalls(
            self._function, self._wants_window, self._code, self._error_context, groups.select(by)
        )


class GroupCalls:
    """The calls of a user function for the groups of a frame."""

    def __init__(
        self,
        function: Callable[..., object],
        wants_window: bool,
        code: UserCode,
        telling: GroupErrorContext,
        groups: pl.DataFrame,
    ) -> None:
        self._function = function
        self._wants_window = wants_window
        self._code = code
        self._error_context = telling
        self._groups = groups

    def call(self, at: int, rows: pl.DataFrame) -> object:
        """Call the function with the rows of a group and return its result."""
        try:
            if self._wants_window:
                return self._function(rows, self._build_window(at))
            return self._function(rows)
        except Exception as error:
            raise self.add_context(at, UserCodeError(self._code.format_error(error))) from error

    def add_context(self, at: int, error: UserCodeError) -> UserCodeError:
        """Add the key and window of the group to the error."""
        where = (
            self._error_context.describe_group(self._groups.row(at, named=True))
            if self._groups.width
            else ""
        )
        return UserCodeError(f"{error.message} ({where})" if where else error.message, error.hint)

    def _build_window(self, at: int) -> Window:
        row = self._groups.row(at, named=True) if self._groups.width else {}
        return self._error_context.build_window(row)


def count_arguments(function: Callable[..., Any]) -> int:
    """Return how many arguments a function accepts, at most two."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(2, sum(each.kind in plain for each in found))
