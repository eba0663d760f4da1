"""The problems of one document while it is read.

A file of a megabyte can have tens of thousands of mistakes: nobody reads them, and looking for what
each name was meant to be would take minutes. So their number is limited, and hints are only worked
out for those that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.core.problems import Place, Problem, Severity

MAX_PROBLEMS = 200


class Findings:
    """Gathers problems up to a limit."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @property
    def full(self) -> bool:
        """Whether no more are taken."""
        return len(self.problems) >= MAX_PROBLEMS

    def add(
        self,
        message: str,
        place: Place,
        hint: str | Callable[[], str] = "",
        subject: str = "",
        severity: Severity = "error",
    ) -> None:
        """Note a problem."""
        if not self.full:
            shown = hint if isinstance(hint, str) else hint()
            self.problems.append(Problem(message, place, shown, subject, severity))

    def extend(self, problems: Iterable[Problem]) -> None:
        """Note problems that are made already."""
        self.problems += list(problems)[: max(0, MAX_PROBLEMS - len(self.problems))]
