"""Values that YAML accepts but ends too early.

Inside brackets a comma ends a value, also the comma of `coalesce(a, b)` and `decimal(10,2)`; and a
"#" after a space begins a comment, also inside an expression's own quotes. The rest, as YAML reads
it, is never what was meant, so the error is reported here, once. Values cut by commas are joined
again, and reading continues with the joined value; text lost to a comment is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.core.pipeline.nodes import Node, Scalar
from headrace.core.pipeline.offsets import content_start, folded
from headrace.core.pipeline.quoting import quote_hint
from headrace.core.problems import Problem

SQL_QUOTED = re.compile(r"'[^']*'")
BRACKETS = re.compile(r"[()<>]")
GENERIC = re.compile(r"\b(?:array|struct|map)<", re.IGNORECASE)
TYPE = re.compile(r"(?:(?:array|struct|map)\s*<|(?:decimal|numeric|dec)\s*\()", re.IGNORECASE)
MAX_PIECES = 50


def to_comment(scalar: Scalar) -> Problem | None:
    """Return the problem of a plain value with an open SQL quote that a comment cuts off."""
    if scalar.style or scalar.value.count("'") % 2 == 0:
        return None
    text, at = scalar.file.text, scalar.end
    rest = text[at:].split("\n", 1)[0].rstrip("\r")
    if not re.match(r"\s+#", rest):
        return None
    at += rest.index("#")
    message = 'a "#" after a space begins a comment, also inside an expression\'s quotes'
    hint = quote_hint(text[scalar.start : scalar.end] + rest)
    return Problem(message, scalar.file.place(at, at + 1), hint)


@dataclass(slots=True)
class Rejoined:
    """The content of a flow collection, with the values joined again that commas had cut."""

    nodes: list[Node] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lost: bool = False
    """Whether fragments are left that cannot be joined."""


def to_commas(nodes: Sequence[Node], *, mapping: bool) -> Rejoined:
    """Join values that commas cut; the keys and values of a mapping alternate in `nodes`."""
    done = Rejoined()
    at = 0
    while at < len(nodes):
        end = _last(nodes, at)
        if not end:
            done.nodes.append(nodes[at])
            at += 1
            continue
        first, last = nodes[at], nodes[end]
        assert isinstance(first, Scalar) and isinstance(last, Scalar)
        done.problems.append(_cut(first, last))
        done.nodes.append(_whole(first, last))
        # A value that ends in what YAML took for a key leaves the empty value of that key.
        extra = nodes[end + 1] if mapping and at % 2 and not end % 2 else None
        odd = mapping and end % 2 and not at % 2
        comment = re.search(r"\s#", first.file.text[first.start : last.end])
        done.lost |= bool(odd or comment) or not (extra is None or _is_nothing(extra))
        at = end + (1 if extra is None else 2)
    return done


def _last(nodes: Sequence[Node], first: int) -> int:
    """Return the index of a value's last fragment, if its first is at `first`; 0 if it is whole."""
    node = nodes[first]
    depth = _opens(node.value) if isinstance(node, Scalar) and not node.style else 0
    if depth <= 0:
        return 0
    for at in range(first + 1, min(len(nodes), first + MAX_PIECES)):
        node = nodes[at]
        if not isinstance(node, Scalar):
            return 0
        depth += 0 if node.style else _opens(node.value)
        if depth <= 0:
            return at
    return 0


def _is_nothing(node: Node) -> bool:
    return isinstance(node, Scalar) and node.nothing


def _whole(first: Scalar, last: Scalar) -> Scalar:
    value = folded(first.file.text, content_start(first), last.end)
    return Scalar(first.file, first.start, last.end, value, is_text=True)


def _opens(value: str) -> int:
    """Count the brackets that stay open; `<` counts where it belongs to a type."""
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
    what = "a type" if TYPE.match(first.value) else "an expression"
    message = f"inside brackets a comma ends the value, but this one is part of {what}"
    hint = quote_hint(text[first.start : last.end])
    return Problem(message, first.file.place(comma, comma + 1), hint)
