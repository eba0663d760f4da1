"""What is to be seen around the place where YAML stopped: lines, indentation, quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.pipeline.file import File
from headrace.core.problems import Problem

# An entry on a line of its own: dashes of lists, a key, and what stands behind its colon.
ENTRY = re.compile(
    r"""(?P<dashes>(?:-[ ]+)*)
        (?P<key>"[^"]*"|'[^']*'|[^\s#'"\[{%@`&*!|>?,\]}:-](?:[^#:\n]|:(?!\s|$)|\#(?<![ ]\#))*?)
        [ ]*:(?:[ \t]+(?P<value>[^\s#].*?))?[ \t]*$""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: where it starts in the file, and its text."""

    start: int
    text: str

    @property
    def indent(self) -> int:
        """How many spaces it begins with."""
        return len(self.text) - len(self.text.lstrip(" "))

    @property
    def body(self) -> str:
        """The text without indentation, and without a comment behind it."""
        return re.sub(r"(^|\s+)#.*", "", self.text[self.indent :]).rstrip()

    @property
    def entry(self) -> re.Match[str] | None:
        """The line as `key: value`, if it is one."""
        return ENTRY.match(self.text, self.indent)


@dataclass(frozen=True, slots=True)
class Scene:
    """The file, where YAML stopped, where what it was reading began, and YAML's own words."""

    file: File
    at: int
    begun: int
    words: str

    @property
    def text(self) -> str:
        """All of the file."""
        return self.file.text

    @property
    def here(self) -> str:
        """The character at which YAML stopped; empty at the end."""
        return self.text[self.at : self.at + 1]

    @property
    def at_end(self) -> bool:
        """Whether nothing but blanks and comments is left."""
        return not any(line.body for line in self.below(self.at))

    def line(self, at: int) -> Line:
        """The line of an offset."""
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        text = self.text[start : len(self.text) if end < 0 else end].rstrip("\r")
        return Line(start, text)

    def below(self, at: int) -> Iterator[Line]:
        """What is left of the offset's line, and the lines after it."""
        end = self.text.find("\n", at)
        yield Line(at, self.text[at : len(self.text) if end < 0 else end])
        while end >= 0:
            line = self.line(end + 1)
            yield line
            end = self.text.find("\n", line.start)

    def above(self, line: Line) -> Iterator[Line]:
        """The lines before one, nearest first, that hold more than a comment."""
        while line.start > 0:
            line = self.line(line.start - 1)
            if line.body:
                yield line

    def problem(self, message: str, start: int, end: int, hint: str = "") -> Problem:
        """A problem at some characters."""
        return Problem(message, self.file.place(start, end), hint)
