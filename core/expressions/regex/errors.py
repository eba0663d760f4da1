"""What is wrong with a pattern, for whoever made it."""

from __future__ import annotations


class PatternError(Exception):
    """A pattern is wrong, or has no exact counterpart: what, and what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ReplacementError(PatternError):
    """What is wrong is not in the pattern but in what is put in place of its matches."""
