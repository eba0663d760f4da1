"""The parser of patterns: from text to a syntax tree.

    pattern     = sequence { "|" sequence }
    sequence    = part { ["->" | "=>"] part }
    part        = "not" name | name [quantifier] | "(" pattern ")" [quantifier]
    quantifier  = ("?" | "*" | "+" | "{" n "}" | "{" n "," [n] "}") ["?"]

A mistake is an ExpressionError with its characters in the text, and a hint.

Tests: tests/core/patterns/test_parser.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.patterns.pattern import (
    Element,
    Group,
    Negation,
    Part,
    Pattern,
    Quantifier,
    Sequence,
    Sign,
    Variable,
    can_be_empty,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

MAX_REPETITIONS = 1000
"""The largest number in a quantifier, and of rows that all numbers together may ask for."""
MAX_NESTING = 20
"""The largest number of groups inside each other."""

MAX_VARIABLES = 60
"""The largest number of variables."""

_TOKENS = compile_pattern(
    r"(?P<name>[^\W\d]\w*)"
    r"|(?P<count>\{\s*(?P<least>\d+)\s*(?P<comma>,\s*(?P<most>\d*)\s*)?\})"
    r"|(?P<sign>->|=>)"
    r"|(?P<symbol>[()|?*+])"
    r"|(?P<other>\S)"
)
_SIGNS: dict[str, Sign] = {"->": "followed_by", "=>": "every"}
_SYMBOLS = {"?": Quantifier(0, 1), "*": Quantifier(0, None), "+": Quantifier(1, None)}
_HINTS = {
    "#": "a pattern has no comments: write it above the pattern",
    "!": "none of a row is written with a word: not paid",
    "~": "none of a row is written with a word: not paid",
    ",": "a space is the very next row, -> the next one that fits: a -> b",
    ";": "a space is the very next row, -> the next one that fits: a -> b",
    ".": "a part is the name of a variable; define has its condition",
    "{": "a number of repetitions is {2}, {2,4} or {2,}",
    "}": "a number of repetitions is {2}, {2,4} or {2,}",
    "&": "a row that has to fit two conditions is a variable whose condition has `and`",
    "-": "the next row that fits is written a -> b",
    ">": "the next row that fits is written a -> b",
    "=": "every row that fits is written a => b",
    "and": "a space or -> joins two parts, as in a -> b",
    "or": "alternatives are written (a | b)",
    "<": "the row that comes first stands first: a -> b",
    "^": "a match begins with any row of the key",
    "$": "the end of a match is its last row; `a -> not b` waits until the end of within",
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    span: Span
    quantifier: Quantifier | None = None


def parse_pattern(text: str) -> Pattern:
    """Return the pattern of a text. Raises ExpressionError.

    >>> str(parse_pattern("low up{2,4} -> (down | flat)+?"))
    'low up{2,4} -> (down | flat)+?'
    """
    pattern = _Parser(text).parse()
    _check_variables(pattern)
    for sequence in pattern.alternatives:
        if all(can_be_empty(element.part) for element in sequence.elements):
            message = "the pattern matches no row at all"
            hint = "one part must have a row: a+ instead of a*"
            raise ExpressionError(message, _span_of(sequence), hint)
    return pattern


class _Parser:
    """A recursive descent parser over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokenize(text))
        self._end = _Token("end", "", Span(max(len(text.rstrip()) - 1, 0), len(text.rstrip())))
        self._at = 0
        self._depth = 0

    def parse(self) -> Pattern:
        if not self._tokens:
            hint = "as in a b+ -> c"
            raise ExpressionError("wanted a pattern, got nothing", self._end.span, hint)
        alternatives = self._parse_alternatives(is_outermost=True)
        if self._token.kind != "end":
            raise self._error("the end of the pattern")
        return Pattern(alternatives)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else self._end

    def _take(self) -> _Token:
        token = self._token
        self._at += 1
        return token

    def _error(self, wanted: str, hint: str = "") -> ExpressionError:
        token = self._token
        actual = "the end" if token.kind == "end" else f'"{token.text}"'
        found = hint or _HINTS.get(token.text, "")
        return ExpressionError(f"pattern: wanted {wanted}, got {actual}", token.span, found)

    def _parse_alternatives(self, *, is_outermost: bool) -> tuple[Sequence, ...]:
        alternatives = [self._parse_sequence(is_outermost=is_outermost)]
        while self._token.text == "|":
            self._take()
            alternatives.append(self._parse_sequence(is_outermost=is_outermost))
        return tuple(alternatives)

    def _parse_sequence(self, *, is_outermost: bool) -> Sequence:
        if self._token.kind == "sign":
            hint = "a pattern begins with a variable; the sign before a group is its first sign"
            raise self._error("a variable or a group", hint)
        elements = [Element(None, self._parse_part())]
        while self._token.kind != "end" and self._token.text not in ("|", ")"):
            sign: Sign = "next"
            if self._token.kind == "sign":
                sign = _SIGNS[self._take().text]
            elements.append(Element(sign, self._parse_part()))
        _check_negations(elements, is_outermost=is_outermost)
        return Sequence(tuple(elements))

    def _parse_part(self) -> Part:
        token = self._token
        if token.text == "(":
            return self._parse_group()
        if token.kind != "name":
            hint = ""
            if token.kind == "count" or token.text in _SYMBOLS:
                hint = "a quantifier stands right after a variable or a group: a+"
            raise self._error("a variable or a group", hint)
        if token.text.lower() in ("and", "or"):
            raise self._error("a variable or a group", _HINTS[token.text.lower()])
        self._take()
        if token.text.lower() != "not":
            return Variable(token.text, token.span, self._parse_quantifier())
        return self._parse_negation(token)

    def _parse_negation(self, word: _Token) -> Negation:
        name = self._token
        if name.kind != "name" or name.text.lower() == "not":
            hint = "not is about one variable, whose condition may have `or`: not paid"
            raise self._error("a variable after not", hint)
        self._take()
        if self._token.kind == "count" or self._token.text in _SYMBOLS:
            hint = f"write not {name.text}: no such row may come"
            raise self._error("no quantifier after not", hint)
        return Negation(name.text, word.span.extend_to(name.span))

    def _parse_group(self) -> Group:
        start = self._take()
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise ExpressionError(f"pattern: more than {MAX_NESTING} nested groups", start.span)
        if self._token.text == ")":
            raise self._error("a variable or a group")
        alternatives = self._parse_alternatives(is_outermost=False)
        if self._token.text != ")":
            raise self._error('")"')
        self._depth -= 1
        span = start.span.extend_to(self._take().span)
        group = Group(alternatives, span, self._parse_quantifier())
        if not group.quantifier.is_single and any(map(can_be_empty, alternatives)):
            message = f"pattern: {group} repeats a group that may have no row"
            hint = "one of its parts must have a row: (a b?)* instead of (a? b?)*"
            raise ExpressionError(message, span, hint)
        return group

    def _parse_quantifier(self) -> Quantifier:
        token = self._token
        found = token.quantifier or _SYMBOLS.get(token.text)
        if found is None:
            return Quantifier()
        self._take()
        most = found.maximum
        if most is not None and most < max(found.minimum, 1):
            hint = "the smaller number first: {2,4}" if most else "a part that never comes: not a"
            raise ExpressionError(f"pattern: {token.text} repeats nothing", token.span, hint)
        if max(found.minimum, most or 0) > MAX_REPETITIONS:
            message = f"pattern: more than {MAX_REPETITIONS} repetitions"
            hint = "count(a) in a condition can compare larger numbers"
            raise ExpressionError(message, token.span, hint)
        if self._token.text != "?":
            return found
        self._take()
        return Quantifier(found.minimum, most, is_reluctant=True)


def _tokenize(text: str) -> Iterator[_Token]:
    for found in _TOKENS.finditer(text):
        span = Span(*found.span())
        kind = found.lastgroup or ""
        if kind == "name" and not found[0].isascii():
            hint = "a name has letters (a-z, A-Z), digits and _"
            raise ExpressionError(f'pattern: wanted a name, got "{found[0]}"', span, hint)
        quantifier = None
        if found["count"]:
            kind, least = "count", int(found["least"])
            most = least if found["comma"] is None else None
            most = int(found["most"]) if found["most"] else most
            quantifier = Quantifier(least, most)
        yield _Token(kind, found[0], span, quantifier)


def _check_negations(elements: list[Element], *, is_outermost: bool) -> None:
    """Raise the error of a negation at a place that has no meaning."""
    for at, element in enumerate(elements):
        negation = element.part
        if not isinstance(negation, Negation):
            continue
        if at == 0:
            message = f"pattern: nothing comes before {negation}"
            hint = f"a pattern and a group begin with a row, as in start -> {negation}"
            raise ExpressionError(message, negation.span, hint)
        following = elements[at + 1].part if at + 1 < len(elements) else None
        second = next(_find_first_negations(elements[at + 1 :]), None)
        if second is not None:
            message = f"pattern: {negation} is followed by another not"
            hint = "one variable whose condition has `or` stands for both"
            raise ExpressionError(message, second.span, hint)
        if following is None and not is_outermost:
            message = f"pattern: {negation} is at the end of a group"
            hint = f"write it after the group, as in (a b) -> {negation}"
            raise ExpressionError(message, negation.span, hint)
        if following is not None and can_be_empty(following):
            message = f"pattern: {following}, which may be left out, follows {negation}"
            hint = f"name what ends the wait for {negation.name}, or write two alternatives"
            raise ExpressionError(message, following.span, hint)


def _find_first_negations(elements: Iterable[Element]) -> Iterator[Negation]:
    """Yield the negations before which there need not be a row."""
    for element in elements:
        match element.part:
            case Negation() as negation:
                yield negation
            case Group(alternatives=alternatives):
                for sequence in alternatives:
                    yield from _find_first_negations(sequence.elements)
        if not can_be_empty(element.part):
            return


def _check_variables(pattern: Pattern) -> None:
    """Raise the error of a variable that is used twice, or of too many repetitions."""
    seen = set[str]()
    for part in pattern.walk():
        if isinstance(part, Group):
            continue
        if part.name in seen:
            message = f'pattern: the variable "{part.name}" is used twice'
            hint = "give the second one a name and a condition of its own"
            raise ExpressionError(message, part.span, hint)
        seen.add(part.name)
    if len(seen) > MAX_VARIABLES:
        message = f"pattern: {len(seen)} variables, more than {MAX_VARIABLES}"
        raise ExpressionError(message, _span_of(pattern.alternatives[0]))
    total = sum(_count_positions(sequence) for sequence in pattern.alternatives)
    if total > MAX_REPETITIONS:
        message = f"pattern: {total} rows in all repetitions, more than {MAX_REPETITIONS}"
        raise ExpressionError(message, _span_of(pattern.alternatives[0]))


def _count_positions(part: Part | Sequence) -> int:
    """Return the number of rows that the numbers of all quantifiers ask for."""
    match part:
        case Negation():
            return 0
        case Sequence():
            return sum(_count_positions(element.part) for element in part.elements)
        case Group():
            inside = sum(map(_count_positions, part.alternatives))
        case Variable():
            inside = 1
    most = part.quantifier.maximum
    return inside * max(part.quantifier.minimum if most is None else most, 1)


def _span_of(sequence: Sequence) -> Span:
    parts = [element.part for element in sequence.elements]
    return parts[0].span.extend_to(parts[-1].span)
