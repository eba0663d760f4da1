"""What is wrong with a pipeline, and where: a mistake is a value, gathered and shown with the rest.

bid_totals.yaml:27:41: step "totals": unknown column "prise"
   27 |     aggregate: {n: count(*), total: sum(prise)}
      |                                         ^^^^^ did you mean "price_eur"?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Place:
    """Characters of a file: line and column count from 1, `text` is the whole line.

    Line 0 is no line of a file: `text` is then a `--set` argument, or empty for a file as a whole.
    """

    file: str
    line: int
    column: int
    length: int
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: what was wanted and what came, where, and what to do about it.

    `subject` is the part of the pipeline that it is about, as in `step "totals"`.
    """

    message: str
    place: Place | None = None
    hint: str = ""
    subject: str = ""
    severity: Severity = "error"


class PipelineError(Exception):
    """A pipeline cannot be used; carries every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.message for problem in self.problems))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that the word was probably meant to be, or "".

    >>> nearest("prise", ["auction", "price", "at"])
    'price'
    """
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return names[found[0]] if found else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint for a wrong name: the near one, if there is one."""
    name = nearest(word, known)
    return f'did you mean "{name}"?' if name else ""


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """By place in the file, each said once; what has no place comes first."""
    return sorted(dict.fromkeys(problems), key=_order)


def _order(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)


def render(problem: Problem) -> str:
    """The problem as it is shown: the message behind its place, the line, a caret, the hint."""
    subject = f"{problem.subject}: " if problem.subject else ""
    message = f"{subject}{problem.message}"
    place = problem.place
    if place is None:
        return f"{message}\n  {problem.hint}" if problem.hint else message
    where = f"{place.file}:{place.line}:{place.column}" if place.line else place.file
    margin = f"{place.line:>5}"
    caret = " " * (place.column - 1) + "^" * place.length
    return (
        f"{where}: {message}\n{margin} | {place.text}\n{' ' * len(margin)} | {caret}"
        f" {problem.hint}".rstrip()
    )
