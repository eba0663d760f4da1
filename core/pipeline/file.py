"""A text that problems point into: a pipeline's file, or one `--set` argument.

Everything behind the reader speaks of offsets into this text; lines and columns are worked out only
for what is shown. Lines end as editors end them (LF, CRLF, CR), whatever YAML also takes for one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from headrace.core.problems import Place

LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, eq=False)
class File:
    """A name and a text. An argument has no lines: its places carry the line number 0."""

    name: str
    text: str
    argument: bool = False
    _lines: dict[int, str] = field(default_factory=dict, repr=False)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in LINE_END.finditer(self.text))]

    def place(self, start: int, end: int) -> Place:
        """The characters `[start, end)`, cut at the end of their first line; at least one."""
        index = bisect_right(self._starts, start) - 1
        first = self._starts[index]
        line = self._line(index)
        column = min(start - first, len(line))
        length = max(1, min(end - first, len(line)) - column)
        return Place(self.name, 0 if self.argument else index + 1, column + 1, length, line)

    def whole(self) -> Place:
        """The file itself, for what is wrong with all of it."""
        return Place(self.name, 0, 0, 0, "")

    def _line(self, index: int) -> str:
        # Kept, because a line may be as long as the file and carry many problems.
        if index not in self._lines:
            ends = self._starts[index + 1] if index + 1 < len(self._starts) else len(self.text)
            self._lines[index] = self.text[self._starts[index] : ends].rstrip("\r\n")
        return self._lines[index]
