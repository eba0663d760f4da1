"""Values that YAML reads without complaint, but not to the end that their writer saw.

Inside brackets a comma ends a value, also the comma of `coalesce(a, b)` and `decimal(10,2)`; and a
"#" behind a space begins a comment, also inside an expression's own quotes. What YAML then makes of
the rest is never what was meant, so it is said here, once, and the pieces are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.core.pipeline.nodes import Node, Scalar
from headrace.core.pipeline.quoting import quote_hint
from headrace.core.problems import Problem

SQL_QUOTED = re.compile(r"'[^']*'")
BRACKETS = re.compile(r"[()<>]")
GENERIC = re.compile(r"\b(?:array|struct|map)<", re.IGNORECASE)
MAX_PIECES = 50


def to_comment(scalar: Scalar) -> Problem | None:
    """A plain value with an open quote of SQL's in it, cut off by a comment."""
    if scalar.style or scalar.value.count("'") % 2 == 0:
        return None
    text, at = scalar.file.text, scalar.end
    rest = text[at:].split("\n", 1)[0].rstrip("\r")
    if not re.match(r"\s+#", rest):
        return None
    at += rest.index("#")
    message = 'a "#" behind a space begins a comment, also inside an expression\'s quotes'
    hint = quote_hint(text[scalar.start : scalar.end] + rest)
    return Problem(message, scalar.file.place(at, at + 1), hint)


def to_commas(nodes: Sequence[Node]) -> Problem | None:
    """Among what stands between brackets, a plain value that a comma of its own cut in pieces."""
    first: Scalar | None = None
    depth = pieces = 0
    for node in nodes:
        if not isinstance(node, Scalar) or node.style or pieces > MAX_PIECES:
            first, depth, pieces = None, 0, 0
            continue
        opens = _opens(node.value)
        if first is None and opens > 0:
            first, depth, pieces = node, opens, 0
        elif first is not None:
            depth, pieces = depth + opens, pieces + 1
            if depth <= 0:
                return _cut(first, node)
    return None


def _opens(value: str) -> int:
    """How many more brackets it opens than closes; `<` counts where it belongs to a type."""
    if not BRACKETS.search(value):
        return 0
    bare = SQL_QUOTED.sub("", value)
    round_ones = bare.count("(") - bare.count(")")
    if GENERIC.search(bare) or (">" in bare and bare.rstrip().endswith(">")):
        return round_ones + bare.count("<") - bare.count(">")
    return round_ones


def _cut(first: Scalar, last: Scalar) -> Problem:
    text = first.file.text
    comma = first.end + text[first.end : last.end].find(",")
    message = "inside of brackets a comma ends the value, but this one stands in an expression"
    hint = quote_hint(text[first.start : last.end])
    return Problem(message, first.file.place(comma, comma + 1), hint)
