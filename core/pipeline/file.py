"""A text that problems point into: a pipeline's file, or one `--set` argument.

All later stages use offsets into this text; lines and columns are computed only for display. Lines
end as in editors (LF, CRLF, CR), although YAML accepts more line breaks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from headrace.core.problems import Location

LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, eq=False)
class SourceText:
    """A name and a text. An argument has no lines: its positions have the line number 0."""

    name: str
    text: str
    is_argument: bool = False
    _lines: dict[int, str] = field(default_factory=dict, repr=False)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in LINE_END.finditer(self.text))]

    def locate(self, start: int, end: int) -> Location:
        """Return the position of the characters `[start, end)`, cut at the end of the first line.

        It has at least one character.
        """
        index = bisect_right(self._starts, start) - 1
        first = self._starts[index]
        line = self._line(index)
        column = min(start - first, len(line))
        length = max(1, min(end - first, len(line)) - column)
        return Location(self.name, 0 if self.is_argument else index + 1, column + 1, length, line)

    def locate_file(self) -> Location:
        """Return the position of the file itself, for problems with the whole file."""
        return Location(self.name, 0, 0, 0, "")

    def _line(self, index: int) -> str:
        # Cached, because a line may be as long as the file and have many problems.
        if index not in self._lines:
            ends = self._starts[index + 1] if index + 1 < len(self._starts) else len(self.text)
            self._lines[index] = self.text[self._starts[index] : ends].rstrip("\r\n")
        return self._lines[index]
