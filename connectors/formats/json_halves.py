"""Characters that JSON writes as two escapes, of which one is missing.

`"\\ud83d\\ude00"` is one character. Polars raises on a second half that stands alone, but reads a
first half that does as a zero byte: such a record is found here, and bad.
"""

from __future__ import annotations

import re

FIRST = re.compile(rb"\\u[dD][89abAB]")
PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
ESCAPE = re.compile(rb"\\(?:u[dD]([89abAB]|[c-fC-F])[0-9a-fA-F]{2}|.)", re.DOTALL)


def has_lone_half(block: bytes) -> bool:
    r"""Whether a line of the block has half a character.

    >>> has_lone_half(rb'"\ud83d\ude00"'), has_lone_half(rb'"\ud83d"'), has_lone_half(rb'"\\ud83d"')
    (False, True, False)
    """
    # Most blocks have no backslash at all, and one byte is found faster than two.
    if b"\\" not in block or not FIRST.search(PAIR.sub(b"", block)):
        return False
    return any(_is_lone(line) for line in block.split(b"\n") if FIRST.search(line))


def _is_lone(line: bytes) -> bool:
    """The same, escape by escape: a backslash that is itself escaped begins none."""
    expected = -1
    for escape in ESCAPE.finditer(line):
        half = escape[1]
        second = half is not None and half not in b"89abAB"
        if second != (escape.start() == expected) or (expected >= 0 and not second):
            return True
        expected = escape.end() if half is not None and not second else -1
    return expected >= 0
