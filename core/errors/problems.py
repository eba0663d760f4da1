"""Problems of a pipeline: each error is a value with a location, and all are reported together.

A problem is shown with its line, a caret, and a hint if there is one:

    bid_totals.yaml:27:41: step "totals": unknown column "prise"
       27 |     aggregate: {n: count(*), total: sum(prise)}
          |                                         ^^^^^ did you mean "price_eur"?
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Location:
    """A range of characters in a file: line and column count from 1, `text` is the whole line.

    Line 0 means no line of a file: `text` is then a `--set` argument, or empty for a whole file.
    `replaced_value` is the value, in quotes, that replaced a `${...}` at this location.
    """

    file: str
    line: int
    column: int
    length: int
    text: str
    replaced_value: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning: what was expected and what was found, its location, and a hint.

    `subject` is the part of the pipeline that it is about, as in `step "totals"`.
    """

    message: str
    location: Location | None = None
    hint: str = ""
    subject: str = ""
    severity: Severity = "error"

    def __post_init__(self) -> None:
        for name in ("message", "hint", "subject"):
            object.__setattr__(self, name, shorten_quotes(getattr(self, name)))


QUOTED_PATTERN = re.compile(r"""(")[^"]*"|(?<=[\s(])(')[^']*'(?!\w)|()\S{200,}""")
MAX_QUOTED_LENGTH = 80
CUT_LENGTH = 60


def shorten_quotes(text: str) -> str:
    """Shorten long quoted values in a message: a value may be as long as its file.

    >>> shorten_quotes('wanted a name, got "' + "x" * 100 + '"')
    'wanted a name, got "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."'
    """
    return text if len(text) <= MAX_QUOTED_LENGTH else QUOTED_PATTERN.sub(_cut_quote, text)


def _cut_quote(found: re.Match[str]) -> str:
    quote = found[found.lastindex or 0]
    whole = found[0]
    is_path = "/" in whole and len(whole) <= 200 and not re.search(r"\s", whole)
    if len(whole) <= MAX_QUOTED_LENGTH or is_path:
        return whole
    return f"{whole[: CUT_LENGTH - 3 + len(quote)]}...{quote}"


class PipelineError(Exception):
    """A pipeline cannot be used; has every problem that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.message for problem in self.problems))


MAX_WORD_LENGTH = 80
MAX_CANDIDATES = 300


def find_nearest_name(word: str, known: Iterable[str], similarity: float = 0.6) -> str:
    """Return the known name that is most similar to the word, or "" if none is.

    Of a great number of names only those of about the same length are compared, so that a file full
    of unknown names is still reported at once.

    >>> find_nearest_name("prise", ["auction", "price", "at"])
    'price'
    """
    import difflib

    if len(word) > MAX_WORD_LENGTH:
        return ""
    names = {name.lower(): name for name in known if _may_be_similar(word, name)}
    close = sorted(names, key=lambda name: abs(len(name) - len(word)))[:MAX_CANDIDATES]
    found = difflib.get_close_matches(word.lower(), close, n=1, cutoff=similarity)
    return names[found[0]] if found else ""


def _may_be_similar(word: str, name: str) -> bool:
    """Whether the lengths allow a similarity of 0.6."""
    shorter, longer = sorted((len(word), len(name)))
    return 7 * shorter >= 3 * longer


def find_nearest_file(name: str, known: Iterable[str]) -> str:
    """Return the most similar file name, compared by the part before the dot; "" if none is.

    >>> (
    ...     find_nearest_file("order.yaml", ["orders.yaml", "other.yaml"]),
    ...     find_nearest_file("x.py", [".ci"]),
    ... )
    ('orders.yaml', '')
    """
    stem, _, ending = name.partition(".")
    by_stem: dict[str, str] = {}
    for one in sorted(known, key=lambda one: not one.endswith(ending)):
        by_stem.setdefault(one.partition(".")[0], one)
    found = find_nearest_name(stem, filter(None, by_stem)) if stem else ""
    return by_stem[found] if found else ""


def suggest_name(word: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar known name, or "" if none is similar."""
    name = find_nearest_name(word, known)
    return f'did you mean "{name}"?' if name else ""


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by location and drop duplicates; those without a line come first.

    A problem in text that two parts share by a YAML anchor is reported for the first of them.
    """
    once: dict[object, Problem] = {}
    for problem in problems:
        about = problem.subject if problem.location is None else ""
        once.setdefault((problem.message, problem.location, problem.severity, about), problem)
    return sorted(once.values(), key=_location_key)


def _location_key(problem: Problem) -> tuple[int, int]:
    return (problem.location.line, problem.location.column) if problem.location else (0, 0)
