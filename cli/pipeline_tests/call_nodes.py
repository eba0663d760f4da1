"""Calls of a test in Python as nodes, so that what they say is read as in a test file.

The nodes have no places of their own: the place of each mistake is that of the call.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Sequence
from itertools import islice
from types import FrameType

from headrace.core.errors.problems import Location
from headrace.core.pipeline.sections import KeyedNode
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.plain_nodes import build_node, build_text_node
from headrace.core.pipeline.yaml_document.source_file import SourceText, format_path
from headrace.core.types.lazy_dataclass import dataclass

OWN_PACKAGE = "headrace."


@dataclass(frozen=True, slots=True)
class CallSite:
    """The call of a test: its place, and the function that it stands in."""

    file: SourceText
    location: Location
    function: str

    def build_entry(self, key: str, value: object) -> KeyedNode:
        """Build the node of a value under a key."""
        key_text = Text(key, build_text_node(self.file, key))
        return KeyedNode(key_text, build_node(self.file, value))

    def place(self, location: Location | None) -> Location:
        """Return the place of this call for that of a node; others, of files, are as they are."""
        is_node = location is None or (location.file == self.file.name and not location.text)
        return self.location if location is None or is_node else location


def find_call() -> CallSite:
    """Return the place at which code outside of this package has called it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(OWN_PACKAGE):
        frame = frame.f_back
    assert frame is not None, "somebody has called"
    path, code = _shorten_path(frame.f_code.co_filename), frame.f_code
    text = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    function = code.co_name if code.co_name != "<module>" else os.path.basename(path)
    return CallSite(SourceText(path, ""), _locate_call(SourceText(path, text), frame), function)


def _shorten_path(path: str) -> str:
    """Return the path from the working directory, if the file is below it."""
    inside = os.path.relpath(path)
    return format_path(path if inside.startswith("..") else inside)


def _locate_call(file: SourceText, frame: FrameType) -> Location:
    lines = file.text.splitlines(keepends=True)
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    first, last, column, end = (each or 0 for each in positions)
    if not 0 < first <= last <= len(lines):
        return Location(file.name, frame.f_lineno, 1, 0, "")
    return file.locate(_compute_offset(lines, first, column), _compute_offset(lines, last, end))


def _compute_offset(lines: Sequence[str], line: int, column: int) -> int:
    """Return the offset in the text of a column, which counts bytes."""
    before = lines[line - 1].encode()[:column].decode(errors="replace")
    return sum(map(len, lines[: line - 1])) + len(before)
