"""The problems of one document while it is read.

A file of a megabyte can have tens of thousands of errors: a list of all is of no use, and searching
for the name that each of them may mean would take minutes. Their number is therefore limited, and
hints are computed only for the problems that are retained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.core.problems import Location, Problem, Severity

MAX_PROBLEMS = 200


class DocumentProblems:
    """A list of problems with a limit."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return len(self.problems) >= MAX_PROBLEMS

    def add(
        self,
        message: str,
        place: Location,
        hint: str | Callable[[], str] = "",
        subject: str = "",
        severity: Severity = "error",
    ) -> None:
        """Add a problem; its hint is computed only if the limit is not reached."""
        if not self.is_full:
            shown = hint if isinstance(hint, str) else hint()
            self.problems.append(Problem(message, place, shown, subject, severity))

    def extend(self, problems: Iterable[Problem]) -> None:
        """Add problems up to the limit."""
        self.problems += list(problems)[: max(0, MAX_PROBLEMS - len(self.problems))]
