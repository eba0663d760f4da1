"""The syntax tree of a pattern, and the meaning of each of its parts.

The rows of a key are matched in row order; a match may begin with any row that fits a first
variable. After each matched row there are parts that may follow, in the order of preference: a
further repetition before what comes after it (after it if the quantifier is reluctant), the
alternatives of a group in their order; the end of the pattern is one of them.

- The sign before a part says which row it takes: `next` (a space) only the very next one,
  `followed_by` (`->`) the earliest later one that fits, `every` (`=>`) each later one that fits.
- The first part of a group has the sign before the group. Between repetitions of a variable or of a
  group holds the sign before it, `next` where none is; the first variable of a group has none of
  its own. A part that is left out takes its sign with it: in `a -> b? c` without b, c is the very
  next row.
- A row that fits none of the parts gives up those with the sign `next`; the others wait on. A row
  that fits some is taken by these, and all other parts are given up. Where several fit, each is
  tried, the preferred ones first: the first one that leads to a match counts.
- If only parts with the sign `every` fit, the row is also left out, as if it had fit none of these,
  and that is tried last. With `after_match: none` each row that such a part takes is a match of its
  own, beside what is left.
- A negation has no row. A row that fits its variable gives up what comes after the negation, also
  if it fits that, too. At the end of the pattern the match is complete when `within` has passed.
- A match from a start is decided when no preferred choice can still lead to a match.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from headrace.core.expressions.typed import Span
from headrace.core.types.lazy_dataclass import dataclass

Sign: TypeAlias = Literal["next", "followed_by", "every"]
"""The sign before a part: a space, `->` or `=>`."""

SIGN_TEXTS: dict[Sign, str] = {"next": " ", "followed_by": " -> ", "every": " => "}


@dataclass(frozen=True, slots=True)
class Quantifier:
    """The number of repetitions; `maximum` None: any number. Reluctant ones prefer few."""

    minimum: int = 1
    maximum: int | None = 1
    is_reluctant: bool = False

    @property
    def is_single(self) -> bool:
        """Whether it means exactly one repetition."""
        return self.minimum == 1 and self.maximum == 1

    def __str__(self) -> str:
        if self.is_single:
            return ""
        symbols = {(0, 1): "?", (0, None): "*", (1, None): "+"}
        text = symbols.get((self.minimum, self.maximum))
        if text is None:
            most = "" if self.maximum is None else str(self.maximum)
            one = self.minimum == self.maximum
            text = f"{{{self.minimum}}}" if one else f"{{{self.minimum},{most}}}"
        return text + ("?" if self.is_reluctant else "")


ONCE = Quantifier()


@dataclass(frozen=True, slots=True)
class Variable:
    """Rows that fit the condition of a variable, as many as the quantifier says."""

    name: str
    span: Span
    quantifier: Quantifier = ONCE

    def __str__(self) -> str:
        return f"{self.name}{self.quantifier}"


@dataclass(frozen=True, slots=True)
class Negation:
    """No row that fits the condition of a variable, until what follows in the pattern."""

    name: str
    span: Span

    def __str__(self) -> str:
        return f"not {self.name}"


@dataclass(frozen=True, slots=True)
class Group:
    """One of several sequences, repeated as often as the quantifier says."""

    alternatives: tuple[Sequence, ...]
    span: Span
    quantifier: Quantifier = ONCE

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.alternatives))}){self.quantifier}"


Part: TypeAlias = Variable | Negation | Group


@dataclass(frozen=True, slots=True)
class Element:
    """A part of a sequence, with the sign before it; None for the first part of a sequence."""

    sign: Sign | None
    part: Part


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts that follow each other; there is at least one, and the first is no negation."""

    elements: tuple[Element, ...]

    def __str__(self) -> str:
        signs = ("" if e.sign is None else SIGN_TEXTS[e.sign] for e in self.elements)
        texts = zip(signs, self.elements, strict=True)
        return "".join(f"{sign}{element.part}" for sign, element in texts)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A whole pattern: one of several sequences."""

    alternatives: tuple[Sequence, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.alternatives))

    def walk(self) -> Iterator[Part]:
        """Yield all parts, a group before those in it."""
        yield from _walk(self.alternatives)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that have rows, in the order of the text."""
        return tuple(part.name for part in self.walk() if isinstance(part, Variable))

    @property
    def negated_variables(self) -> tuple[str, ...]:
        """The variables that are negated, in the order of the text."""
        return tuple(part.name for part in self.walk() if isinstance(part, Negation))

    @property
    def last_negation(self) -> Negation | None:
        """A negation at the end of the pattern."""
        last = (sequence.elements[-1].part for sequence in self.alternatives)
        return next((part for part in last if isinstance(part, Negation)), None)

    @property
    def names(self) -> tuple[str, ...]:
        """All variables, each with a condition, in the order of the text."""
        return tuple(part.name for part in self.walk() if not isinstance(part, Group))


def _walk(alternatives: tuple[Sequence, ...]) -> Iterator[Part]:
    for sequence in alternatives:
        for element in sequence.elements:
            yield element.part
            if isinstance(element.part, Group):
                yield from _walk(element.part.alternatives)


def can_be_empty(part: Part | Sequence) -> bool:
    """Whether a part may match without any row. A negation has no row."""
    match part:
        case Negation():
            return True
        case Sequence():
            return all(can_be_empty(element.part) for element in part.elements)
        case Group():
            return part.quantifier.minimum == 0 or any(map(can_be_empty, part.alternatives))
    return part.quantifier.minimum == 0


def find_first_variables(alternatives: tuple[Sequence, ...]) -> Iterator[str]:
    """Yield the variables that may have the first row."""
    for sequence in alternatives:
        for element in sequence.elements:
            match element.part:
                case Variable(name=name):
                    yield name
                case Group(alternatives=inner):
                    yield from find_first_variables(inner)
            if not can_be_empty(element.part):
                break
