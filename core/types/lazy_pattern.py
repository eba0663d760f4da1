"""Regular expressions that are compiled when they are first used.

A query over a few rows imports eighty, and uses a third of them. To compile them all took as long
as planning it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["LazyPattern", "compile_pattern"]


class LazyPattern:
    """A pattern that is compiled when an attribute of it is first read."""

    def __init__(self, text: str | bytes, flags: int = 0) -> None:
        self._source: tuple[Any, int] = text, flags

    def __reduce__(self) -> tuple[type[LazyPattern], tuple[Any, int]]:
        """Return the pattern as its text and flags, by which it is copied and pickled."""
        return LazyPattern, self._source

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the compiled pattern, and keep it for the next time."""
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    from re import compile as compile_pattern
else:
    compile_pattern = LazyPattern
