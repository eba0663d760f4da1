"""Errors of patterns and replacements."""

from __future__ import annotations


class RegexError(Exception):
    """A pattern is invalid, or has no exact counterpart: the reason, and an alternative."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ReplacementError(RegexError):
    """The replacement is invalid, not the pattern."""
