"""Errors of user classes, with the row or timer that was being handled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from inspect import isgenerator
from typing import Any

from headrace.core.operators.map import FailedRow
from headrace.core.operators.process.cells import CELL, undeclared
from headrace.core.operators.process.outs import Misfit, Outs
from headrace.core.operators.process.work import EVERY
from headrace.core.process.declared import Declared
from headrace.core.user_code import UserCode, UserCodeError, row_said, said, where

RETURNED = "emit rows with out(...); a method returns nothing"
OF_RULE = "apply a rule to a key when its next row comes or its timer fires"

READ_ONLY = re.compile(
    "'(mappingproxy|tuple)' object (has no attribute|does not support)"
    r"|'\|=' is not supported by mappingproxy|can only concatenate tuple"
)
"""Python's messages when user code changes a map or a list that all keys share."""
UNDECLARED = re.compile(f"'{CELL}' object has no attribute '(\\w+)'$")
"""Python's message when user code reads or sets an undeclared state."""


class Failing:
    """The error messages of one class."""

    def __init__(self, code: UserCode, outs: Outs, states: Mapping[str, Declared]) -> None:
        """`states` are the states that the class declares."""
        self._code = code
        self._states = tuple(states)
        self._has_shared = any(said.shared for said in states.values())
        self._collectors = outs

    @property
    def shown(self) -> str:
        """The name of the class in messages."""
        return self._code.shown

    def of_row(self, error: BaseException, key: object, row: dict[str, Any]) -> UserCodeError:
        """Return the error of a row."""
        text = row_said(row)
        of = f"in the rule {text}" if key is EVERY else f"in the row {text} of the key {key!r}"
        return self._told(error, of)

    def of_timer(
        self, error: BaseException, key: object, name: str, at: datetime | None
    ) -> UserCodeError:
        """Return the error of a timer."""
        return self._told(error, f'in timer "{name}" at {at} of the key {key!r}')

    def of_many(self, error: BaseException, rows: int) -> UserCodeError:
        """Return the error of a batch of rows."""
        return self._told(error, f"in {rows} rows")

    def returned(self, found: object, method: str) -> UserCodeError:
        """Return the error of a method that returned a value."""
        what = "yields" if isgenerator(found) else f"returned a {type(found).__name__}"
        hint = OF_RULE if method == "on_rule" else RETURNED
        return UserCodeError(f"{self.shown}: {method} {what}", hint)

    def of_making(self, error: BaseException) -> UserCodeError:
        """Return the error of creating an object of the class."""
        return self._told(error, f"making a {self._code.name}")

    def letter(self, error: Exception, row: dict[str, Any]) -> FailedRow:
        """Return the failed row, or the key and time of a failed timer, as a FailedRow."""
        return FailedRow(self._message(error), row)

    def _told(self, error: BaseException, of: str) -> UserCodeError:
        hint = error.hint if isinstance(error, UserCodeError) else ""
        if isinstance(error, Exception) and not hint:
            hint = self._collectors.hint(error)
        if self._has_shared and READ_ONLY.match(str(error)):
            hint = "state shared by all keys is written in on_rule"
        elif (found := UNDECLARED.match(str(error))) and found[1] in self._states:
            hint = OF_RULE
        return UserCodeError(f"{self._message(error)} ({of})", hint)

    def _message(self, error: BaseException) -> str:
        place = where(error, self._code.path)
        if isinstance(error, UserCodeError | Misfit):
            return error.message if place == self._code.path.name else f"{place}: {error.message}"
        if isinstance(error, AttributeError) and (found := UNDECLARED.match(str(error))):
            if found[1] in self._states:  # on_rule sees only shared states
                return f'{place}: state "{found[1]}" belongs to a key, and a rule has none'
            return f"{place}: AttributeError: {undeclared(found[1], self._states)}"
        return f"{place}: {said(error)}"
