"""The text of a pipeline's file or of one `--set` argument, which problems point into.

All later stages use offsets into this text; lines and columns are computed only for display. Lines
end as in editors (LF, CRLF, CR), although YAML accepts more line breaks. An accepted file is UTF-8
without control characters and without line breaks that editors do not show, so that all stages
count lines and columns as an editor does.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from pathlib import Path

from headrace.core.errors.problems import Location, Problem, find_nearest_file
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

LINE_END = compile_pattern(r"\r\n|\r|\n")


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


MAX_BYTES = 2**20
"""The size of a file without its section `tests`."""
MAX_TESTED_BYTES = 16 * 2**20
"""The size of a file with its section `tests`."""
TESTS_SECTION = compile_pattern(rb"^tests:.*?(?=^[^\s#-]|\Z)", re.MULTILINE | re.DOTALL)


MAX_LISTED_FILES = 3
"""The largest number of files that a hint lists."""


UTF_16 = (b"\xff\xfe", b"\xfe\xff")


CONTROL_BYTES = compile_pattern(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


INVISIBLE_CHARACTERS = compile_pattern(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028\u2029\ufeff\ufffe\uffff\U000e0000-\U000e007f]"
)


def read_source_file(
    path: str | Path, text_path: str | Path | None = None
) -> tuple[SourceText | None, list[Problem]]:
    """Return the text without a byte order mark; or None and the problem.

    A text that is stored in another file has positions in `path` all the same.
    """
    name = format_path(path)
    try:
        with open(text_path or path, "rb") as opened:
            content = opened.read(MAX_TESTED_BYTES + 1)
    except (OSError, ValueError) as error:
        return None, [_make_read_problem(Path(path), name, error)]
    problem = _find_encoding_problem(name, content)
    if problem:
        return None, [problem]
    file = SourceText(name, content.decode("utf-8-sig"))
    unseen = INVISIBLE_CHARACTERS.search(file.text)
    if unseen:
        message = f"an invisible character (U+{ord(unseen[0]):04X}) is here"
        return None, [Problem(message, file.locate(*unseen.span()), "remove it")]
    return file, []


def format_path(path: str | Path) -> str:
    """Return a path as printable text, whatever its bytes."""
    return os.fsencode(path).decode("utf-8", "replace")


def _find_encoding_problem(name: str, content: bytes) -> Problem | None:
    whole = SourceText(name, "").locate_file()
    if len(content) > MAX_TESTED_BYTES:
        return Problem(f"the file is larger than {MAX_TESTED_BYTES // 2**20} MB", whole)
    if len(content) > MAX_BYTES and len(TESTS_SECTION.sub(b"", content, count=1)) > MAX_BYTES:
        return Problem(f"the file is larger than {MAX_BYTES // 1024} KB", whole)
    if content.startswith(UTF_16):
        return Problem("the file is UTF-16, wanted UTF-8", whole, "save it as UTF-8")
    control = CONTROL_BYTES.search(content)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        at = min(error.start, control.start()) if control else error.start
        return _make_encoding_problem(name, content, at, binary=control is not None)
    if control and b"\0" in content:
        return _make_encoding_problem(name, content, control.start(), binary=True)
    return None


def _make_encoding_problem(name: str, content: bytes, at: int, *, binary: bool) -> Problem:
    invalid_byte = f"byte 0x{content[at]:02x} at offset {at}"
    if binary:
        return Problem(
            f"this is not a text file: {invalid_byte}", SourceText(name, "").locate_file()
        )
    before = len(content[:at].decode("utf-8-sig", "replace"))
    file = SourceText(name, content.decode("utf-8-sig", "replace"))
    return Problem(
        f"this is not UTF-8: {invalid_byte}", file.locate(before, before + 1), "save it as UTF-8"
    )


def _make_read_problem(path: Path, name: str, error: Exception) -> Problem:
    whole = SourceText(name, "").locate_file()
    if isinstance(error, IsADirectoryError):
        inside = list(_list_pipelines(path))
        hint = f'did you mean "{format_path(path / inside[0])}"?' if len(inside) == 1 else ""
        return Problem("this is a folder, wanted a pipeline's file", whole, hint)
    if isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
        return Problem("there is no such file", whole, _suggest_pipeline(path))
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return Problem(f"the file cannot be read: {(reason or 'unknown reason').lower()}", whole)


def _suggest_pipeline(path: Path) -> str:
    folder = path.parent
    try:
        if not folder.is_dir():
            return f'there is no folder "{format_path(folder)}"'
        found = find_nearest_file(path.name, _list_pipelines(folder)) or find_nearest_file(
            path.name, (f"{name}" for name in sorted(os.listdir(folder))[:1000])
        )
    except (OSError, ValueError):
        return ""
    if found:
        return f'did you mean "{format_path(folder / found)}"?'
    inside = [format_path(folder / name) for name in _list_pipelines(folder)]
    if not 0 < len(inside) <= MAX_LISTED_FILES:
        return ""
    return f"there {'is' if len(inside) == 1 else 'are'} {', '.join(inside)}"


def _list_pipelines(folder: Path) -> Iterator[str]:
    """Yield the YAML files of a folder, in the order of their names."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    yield from [name for name in names if name.endswith((".yaml", ".yml"))][:1000]
