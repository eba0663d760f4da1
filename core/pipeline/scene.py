"""The text around a YAML error: lines, indentation, quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.pipeline.file import File
from headrace.core.problems import Problem

# An entry on a line of its own: dashes of lists, a key, and the text after its colon.
ENTRY = re.compile(
    r"""(?P<dashes>(?:-[ ]+)*)
        (?P<key>"[^"]*"|'[^']*'|[^\s#'"\[{%@`&*!|>?,\]}:-](?:[^#:\n]|:(?!\s|$)|\#(?<![ ]\#))*?)
        [ ]*:(?:[ \t]+(?P<value>[^\s#].*?))?[ \t]*$""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Line:
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
        return ENTRY.match(self.text, self.indent)


@dataclass(frozen=True, slots=True)
class Scene:
    """A YAML error: the file, where YAML stopped, where the node it read began, and its message."""

    file: File
    at: int
    begun: int
    words: str

    @property
    def text(self) -> str:
        """The text of the whole file."""
        return self.file.text

    @property
    def here(self) -> str:
        """The character at which YAML stopped; "" at the end."""
        return self.text[self.at : self.at + 1]

    @property
    def at_end(self) -> bool:
        """Whether only blanks and comments are left."""
        return not any(line.body for line in self.below(self.at))

    def line(self, at: int) -> Line:
        """Return the line of an offset."""
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        text = self.text[start : len(self.text) if end < 0 else end].rstrip("\r")
        return Line(start, text)

    def below(self, at: int) -> Iterator[Line]:
        """Yield the rest of the offset's line, then the lines after it."""
        end = self.text.find("\n", at)
        yield Line(at, self.text[at : len(self.text) if end < 0 else end])
        while end >= 0:
            line = self.line(end + 1)
            yield line
            end = self.text.find("\n", line.start)

    def above(self, line: Line) -> Iterator[Line]:
        """Yield the lines before a line, nearest first, without empty lines and comments."""
        while line.start > 0:
            line = self.line(line.start - 1)
            if line.body:
                yield line

    def problem(self, message: str, start: int, end: int, hint: str = "") -> Problem:
        """Return a problem at the characters `[start, end)`."""
        return Problem(message, self.file.place(start, end), hint)
