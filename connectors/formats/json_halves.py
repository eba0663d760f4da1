"""Detection of lone surrogates: characters that JSON writes as two escapes, one of them missing.

`"\\ud83d\\ude00"` is one character. Polars raises on a low surrogate that stands alone, but reads a
lone high surrogate as a zero byte; such a record is found here, and is bad.
"""

from __future__ import annotations

import re

HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB]")
SURROGATE_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
ESCAPE_SEQUENCE = re.compile(rb"\\(?:u[dD]([89abAB]|[c-fC-F])[0-9a-fA-F]{2}|.)", re.DOTALL)


def has_lone_surrogate(block: bytes) -> bool:
    r"""Whether a line of the block has a lone surrogate.

    >>> has_lone_surrogate(rb'"\ud83d\ude00"'), has_lone_surrogate(rb'"\ud83d"'), has_lone_surrogate(rb'"\\ud83d"')
    (False, True, False)
    """
    # Most blocks have no backslash, and searching for one byte is faster than for two.
    if b"\\" not in block or not HIGH_SURROGATE.search(SURROGATE_PAIR.sub(b"", block)):
        return False
    return any(
        _has_lone_surrogate(line) for line in block.split(b"\n") if HIGH_SURROGATE.search(line)
    )


def _has_lone_surrogate(line: bytes) -> bool:
    """Whether the line has a lone surrogate, escape by escape: an escaped backslash starts none."""
    expected = -1
    for escape in ESCAPE_SEQUENCE.finditer(line):
        half = escape[1]
        second = half is not None and half not in b"89abAB"
        if second != (escape.start() == expected) or (expected >= 0 and not second):
            return True
        expected = escape.end() if half is not None and not second else -1
    return expected >= 0
