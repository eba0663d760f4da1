"""The text around a YAML error: lines, indentation, quotes, and the value in quotes for a hint.

Quotes fix most values that YAML reads as something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace.core.errors.problems import Problem
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

# An entry on a line of its own: dashes of lists, a key, and the text after its colon.
ENTRY_PATTERN = compile_pattern(
    r"""(?P<dashes>(?:-[ ]+)*)
        (?P<key>"[^"]*"|'[^']*'|[^\s#'"\[{%@`&*!|>?,\]}:-](?:[^#:\n]|:(?!\s|$)|\#(?<![ ]\#))*?)
        [ ]*:(?:[ \t]+(?P<value>[^\s#].*?))?[ \t]*$""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One line: its start in the file, and its text."""

    start: int
    text: str

    @property
    def indent(self) -> int:
        """The number of spaces it begins with."""
        return len(self.text) - len(self.text.lstrip(" "))

    @property
    def body(self) -> str:
        """The text without indentation and without a comment."""
        return re.sub(r"(^|\s+)#.*", "", self.text[self.indent :]).rstrip()

    @property
    def entry(self) -> re.Match[str] | None:
        """The line as `key: value`, if it is one."""
        return ENTRY_PATTERN.match(self.text, self.indent)


@dataclass(frozen=True, slots=True)
class YamlErrorContext:
    """A YAML error: the file, where YAML stopped, where the node it read began, and its message."""

    file: SourceText
    offset: int
    node_start: int
    yaml_message: str

    @property
    def text(self) -> str:
        """The text of the whole file."""
        return self.file.text

    @property
    def character(self) -> str:
        """The character at which YAML stopped; "" at the end."""
        return self.text[self.offset : self.offset + 1]

    @property
    def is_at_end(self) -> bool:
        """Whether only blanks and comments are left."""
        return not any(line.body for line in self.lines_below(self.offset))

    def get_line(self, at: int) -> ContextLine:
        """Return the line of an offset."""
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        text = self.text[start : len(self.text) if end < 0 else end].rstrip("\r")
        return ContextLine(start, text)

    def lines_below(self, at: int) -> Iterator[ContextLine]:
        """Yield the rest of the offset's line, then the lines after it."""
        end = self.text.find("\n", at)
        yield ContextLine(at, self.text[at : len(self.text) if end < 0 else end])
        while end >= 0:
            line = self.get_line(end + 1)
            yield line
            end = self.text.find("\n", line.start)

    def lines_above(self, line: ContextLine) -> Iterator[ContextLine]:
        """Yield the lines before a line, nearest first, without empty lines and comments."""
        while line.start > 0:
            line = self.get_line(line.start - 1)
            if line.body:
                yield line

    def make_problem(self, message: str, start: int, end: int, hint: str = "") -> Problem:
        """Return a problem at the characters `[start, end)`."""
        return Problem(message, self.file.locate(start, end), hint)


MAX_SHOWN = 60
SELECT_ALL_HINT = "without select, a step keeps its columns; with: adds columns"
CONDITION_KEYS = ("where", "having")


def quote_yaml(value: str) -> str:
    """Return the value in the kind of quotes that needs fewer escapes.

    >>> quote_yaml("a = 'b'"), quote_yaml('"x" || y'), quote_yaml("x rlike 'a.b'")
    ('"a = \\'b\\'"', '\\'"x" || y\\'', '"x rlike \\'a.b\\'"')
    """
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    return "'" + value.replace("'", "''") + "'"


FLOW_CHARACTERS = set(",[]{}:#&*!|>'\"%@`")
"""Characters that may need quotes in a YAML mapping of one line."""


def format_flow_scalar(text: str) -> str:
    """Return a scalar for a YAML mapping of one line, in quotes if it needs them.

    >>> format_flow_scalar("a + 1"), format_flow_scalar("f(a, b)")
    ('a + 1', '"f(a, b)"')
    """
    plain = text and FLOW_CHARACTERS.isdisjoint(text) and text == text.strip()
    return text if plain else quote_yaml(text)


def split_flow_items(text: str) -> list[str]:
    """Split a text at its commas outside of brackets and quotes.

    >>> split_flow_items("a, f(b, ','), c")
    ['a', "f(b, ',')", 'c']
    """
    items, depth, start, quote = list[str](), 0, 0, ""
    for at, sign in enumerate(text):
        if quote or sign in "'\"`":
            quote = "" if sign == quote else quote or sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and not depth:
            items.append(text[start:at].strip())
            start = at + 1
    return [*items, text[start:].strip()]


def suggest_quotes(value: str, key: str = "") -> str:
    """Return the hint to quote a value, unless quotes do not help; a long value is not shown."""
    value = value.strip()
    if value == "*":
        return SELECT_ALL_HINT
    if key in CONDITION_KEYS and (objection := _find_objection(value)):
        return objection
    if len(value) > MAX_SHOWN or "\n" in value:
        return "put the value in quotes"
    return f"put it in quotes: {key + ': ' if key else ''}{quote_yaml(value)}"


def _find_objection(value: str) -> str:
    """Return the hint for a value that is no expression, with quotes or without; else ""."""
    from headrace.core.expressions.parsing.parser import parse_expression
    from headrace.core.expressions.typed import ExpressionError

    try:
        parse_expression(value)
    except ExpressionError as error:
        objection = "; ".join(filter(None, (error.message, error.hint)))
        return f"in quotes it is no expression either: {objection}"
    return ""
