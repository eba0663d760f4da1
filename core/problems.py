"""Problems of a pipeline: each error is a value with a location, and all are reported together.

bid_totals.yaml:27:41: step "totals": unknown column "prise"
   27 |     aggregate: {n: count(*), total: sum(prise)}
      |                                         ^^^^^ did you mean "price_eur"?
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Place:
    """A range of characters in a file: line and column count from 1, `text` is the whole line.

    Line 0 means no line of a file: `text` is then a `--set` argument, or empty for a whole file.
    `replaced` is the value, in quotes, that replaced a `${...}` at this location.
    """

    file: str
    line: int
    column: int
    length: int
    text: str
    replaced: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning: what was expected and what was found, its location, and a hint.

    `subject` is the part of the pipeline that it is about, as in `step "totals"`.
    """

    message: str
    place: Place | None = None
    hint: str = ""
    subject: str = ""
    severity: Severity = "error"

    def __post_init__(self) -> None:
        for name in ("message", "hint", "subject"):
            object.__setattr__(self, name, brief(getattr(self, name)))


QUOTED = re.compile(r"""(")[^"]*"|(?<=[\s(])(')[^']*'(?!\w)|()\S{200,}""")
MAX_QUOTED = 80
SHOWN = 60


def brief(text: str) -> str:
    """Shorten long quoted values in a message: a value may be as long as its file.

    >>> brief('wanted a name, got "' + "x" * 100 + '"')
    'wanted a name, got "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."'
    """
    return text if len(text) <= MAX_QUOTED else QUOTED.sub(_cut, text)


def _cut(found: re.Match[str]) -> str:
    quote = found[found.lastindex or 0]
    whole = found[0]
    is_path = "/" in whole and len(whole) <= 200 and not re.search(r"\s", whole)
    if len(whole) <= MAX_QUOTED or is_path:
        return whole
    return f"{whole[: SHOWN - 3 + len(quote)]}...{quote}"


class PipelineError(Exception):
    """A pipeline cannot be used; has every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.message for problem in self.problems))


MAX_WORD = 80
MAX_CANDIDATES = 100


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to the word, or "" if none is.

    Of a great number of names only those of about the same length are compared, so that a file full
    of unknown names is still reported at once.

    >>> nearest("prise", ["auction", "price", "at"])
    'price'
    """
    if len(word) > MAX_WORD:
        return ""
    names = {name.lower(): name for name in known if _may_be_near(word, name)}
    close = sorted(names, key=lambda name: abs(len(name) - len(word)))[:MAX_CANDIDATES]
    found = difflib.get_close_matches(word.lower(), close, n=1, cutoff=0.6)
    return names[found[0]] if found else ""


def _may_be_near(word: str, name: str) -> bool:
    """Whether the lengths allow a similarity of 0.6."""
    shorter, longer = sorted((len(word), len(name)))
    return 7 * shorter >= 3 * longer


def nearest_file(name: str, known: Iterable[str]) -> str:
    """Return the most similar file name, compared by the part before the dot; "" if none is.

    >>> nearest_file("order.yaml", ["orders.yaml", "other.yaml"]), nearest_file("x.py", [".ci"])
    ('orders.yaml', '')
    """
    stem, _, ending = name.partition(".")
    by_stem: dict[str, str] = {}
    for one in sorted(known, key=lambda one: not one.endswith(ending)):
        by_stem.setdefault(one.partition(".")[0], one)
    found = nearest(stem, filter(None, by_stem)) if stem else ""
    return by_stem[found] if found else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar known name, or "" if none is similar."""
    name = nearest(word, known)
    return f'did you mean "{name}"?' if name else ""


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by location and drop duplicates; those without a line come first.

    A problem in text that two parts share by a YAML anchor is reported for the first of them.
    """
    once: dict[object, Problem] = {}
    for problem in problems:
        about = problem.subject if problem.place is None else ""
        once.setdefault((problem.message, problem.place, problem.severity, about), problem)
    return sorted(once.values(), key=_order)


def _order(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)
