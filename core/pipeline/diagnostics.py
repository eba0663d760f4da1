"""Problems of a document while it is read: of a value, of the rules between clauses, and all.

An error in a value is raised before its position in the file is known.

A file of a megabyte can have tens of thousands of errors: a list of all is of no use, and searching
for the name that each of them may mean would take minutes. Their number is therefore limited, and
hints are computed only for the problems that are retained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace

from headrace.core.errors.problems import Location, Problem, Severity
from headrace.core.types.lazy_dataclass import dataclass

KEY = "[key]"
"""The last part of a complaint's location when it is about a key rather than its value."""


@dataclass(frozen=True, slots=True)
class ValueProblem:
    """One error, in the value as a whole or in the part of the value at `at`.

    With `wanted` the message reads "wanted ..., got ..."; otherwise it is `message`.
    `span` are the characters of a text that the error is about, where that is not the whole text.
    """

    value: object = None
    wanted: str = ""
    message: str = ""
    hint: str = ""
    span: tuple[int, int] | None = None
    at: tuple[int | str, ...] = ()


class InvalidValue(ValueError):
    """An error that carries everything wrong with a value, through the model to the report.

    `partial` is the part of the value that could be read, where that is of use; validation
    continues with it.
    """

    def __init__(self, *complaints: ValueProblem, partial: object = None) -> None:
        super().__init__("a value could not be read")
        self.problems = complaints
        self.partial = partial


MAX_VALUE_PROBLEMS = 200


@dataclass(slots=True)
class ValueProblemCollector:
    """The errors in the elements of one value, up to a limit."""

    problems: list[ValueProblem] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached: further errors are of no use."""
        return len(self.problems) >= MAX_VALUE_PROBLEMS

    def add(self, unread: InvalidValue, *at: int | str) -> None:
        """Add the errors of the element at a location."""
        self.problems += (replace(one, at=(*at, *one.at)) for one in unread.problems)

    def raise_if_any(self, partial: object = None) -> None:
        """Raise InvalidValue with the collected errors, if there are any."""
        if self.problems:
            raise InvalidValue(*self.problems, partial=partial)


def make_expected_error(
    value: object, what: str, hint: str = "", span: tuple[int, int] | None = None
) -> InvalidValue:
    """Return the error "wanted ..., got ..."."""
    return InvalidValue(ValueProblem(value, wanted=what, hint=hint, span=span))


def make_value_error(
    value: object, message: str, hint: str = "", span: tuple[int, int] | None = None
) -> InvalidValue:
    """Return an error with its own message."""
    return InvalidValue(ValueProblem(value, message=message, hint=hint, span=span))


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


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A violated rule: the key of the step, or with `is_about_value` its value; a message and a "
    "hint."""

    at: tuple[str, ...]
    message: str
    hint: str = ""
    severity: Severity = "error"
    is_about_value: bool = False
