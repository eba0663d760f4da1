"""Errors of user classes, with the row or timer that was being handled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from inspect import isgenerator
from typing import Any

from headrace.core.operators.map import FailedRow
from headrace.core.operators.process.cells import CELL_CLASS_NAME, describe_undeclared
from headrace.core.operators.process.outs import Collectors, OutputValueError
from headrace.core.operators.process.work import EVERY_KEY
from headrace.core.process.declared import Declared
from headrace.core.user_code import UserCode, UserCodeError, format_error, format_row, locate_error

RETURN_HINT = "emit rows with out(...); a method returns nothing"
RULE_HINT = "apply a rule to a key when its next row comes or its timer fires"

READ_ONLY_ERROR = re.compile(
    "'(mappingproxy|tuple)' object (has no attribute|does not support)"
    r"|'\|=' is not supported by mappingproxy|can only concatenate tuple"
)
"""Python's messages when user code changes a map or a list that all keys share."""
UNDECLARED_ERROR = re.compile(f"'{CELL_CLASS_NAME}' object has no attribute '(\\w+)'$")
"""Python's message when user code reads or sets an undeclared state."""


class UserClassErrors:
    """The error messages of one class."""

    def __init__(self, code: UserCode, outs: Collectors, states: Mapping[str, Declared]) -> None:
        """`states` are the states that the class declares."""
        self._code = code
        self._states = tuple(states)
        self._has_shared = any(said.shared for said in states.values())
        self._collectors = outs

    @property
    def display_name(self) -> str:
        """The name of the class in messages."""
        return self._code.display_name

    def build_row_error(
        self, error: BaseException, key: object, row: dict[str, Any]
    ) -> UserCodeError:
        """Return the error of a row."""
        text = format_row(row)
        of = f"in the rule {text}" if key is EVERY_KEY else f"in the row {text} of the key {key!r}"
        return self._build_error(error, of)

    def build_timer_error(
        self, error: BaseException, key: object, name: str, at: datetime | None
    ) -> UserCodeError:
        """Return the error of a timer."""
        return self._build_error(error, f'in timer "{name}" at {at} of the key {key!r}')

    def build_batch_error(self, error: BaseException, rows: int) -> UserCodeError:
        """Return the error of a batch of rows."""
        return self._build_error(error, f"in {rows} rows")

    def build_return_error(self, found: object, method: str) -> UserCodeError:
        """Return the error of a method that returned a value."""
        what = "yields" if isgenerator(found) else f"returned a {type(found).__name__}"
        hint = RULE_HINT if method == "on_rule" else RETURN_HINT
        return UserCodeError(f"{self.display_name}: {method} {what}", hint)

    def build_init_error(self, error: BaseException) -> UserCodeError:
        """Return the error of creating an object of the class."""
        return self._build_error(error, f"making a {self._code.name}")

    def build_failed_row(self, error: Exception, row: dict[str, Any]) -> FailedRow:
        """Return the failed row, or the key and time of a failed timer, as a FailedRow."""
        return FailedRow(self._format_message(error), row)

    def _build_error(self, error: BaseException, of: str) -> UserCodeError:
        hint = error.hint if isinstance(error, UserCodeError) else ""
        if isinstance(error, Exception) and not hint:
            hint = self._collectors.find_hint(error)
        if self._has_shared and READ_ONLY_ERROR.match(str(error)):
            hint = "state shared by all keys is written in on_rule"
        elif (found := UNDECLARED_ERROR.match(str(error))) and found[1] in self._states:
            hint = RULE_HINT
        return UserCodeError(f"{self._format_message(error)} ({of})", hint)

    def _format_message(self, error: BaseException) -> str:
        place = locate_error(error, self._code.path)
        if isinstance(error, UserCodeError | OutputValueError):
            return error.message if place == self._code.path.name else f"{place}: {error.message}"
        if isinstance(error, AttributeError) and (found := UNDECLARED_ERROR.match(str(error))):
            if found[1] in self._states:  # on_rule sees only shared states
                return f'{place}: state "{found[1]}" belongs to a key, and a rule has none'
            return f"{place}: AttributeError: {describe_undeclared(found[1], self._states)}"
        return f"{place}: {format_error(error)}"
