"""Values that YAML accepts but ends too early.

Inside brackets a comma ends a value, also the comma of `coalesce(a, b)` and `decimal(10,2)`; and a
"#" after a space begins a comment, also inside an expression's own quotes. The rest, as YAML reads
it, is never what was meant, so the error is reported here, once. Values cut by commas are joined
again, and reading continues with the joined value; text lost to a comment is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from headrace.core.errors.problems import Problem
from headrace.core.pipeline.yaml_document.error_context import suggest_quotes
from headrace.core.pipeline.yaml_document.nodes import YamlNode, YamlScalar
from headrace.core.pipeline.yaml_document.scalar_offsets import (
    find_content_start,
    fold_plain_scalar,
)
from headrace.core.types.lazy_dataclass import dataclass

SQL_QUOTED_PATTERN = re.compile(r"'[^']*'")
BRACKET_PATTERN = re.compile(r"[()<>]")
GENERIC_TYPE_PATTERN = re.compile(r"\b(?:array|struct|map)<", re.IGNORECASE)
TYPE_PATTERN = re.compile(
    r"(?:(?:array|struct|map)\s*<|(?:decimal|numeric|dec)\s*\()", re.IGNORECASE
)
MAX_FRAGMENTS = 50


def find_comment_cut(scalar: YamlScalar) -> Problem | None:
    """Return the problem of a plain value with an open SQL quote that a comment cuts off."""
    if scalar.value.count("'") % 2 == 0 or not ends_with_comment(scalar):
        return None
    text, at = scalar.file.text, scalar.end
    rest = text[at:].split("\n", 1)[0].rstrip("\r")
    at += rest.index("#")
    message = 'a "#" after a space begins a comment, also inside an expression\'s quotes'
    hint = suggest_quotes(text[scalar.start : scalar.end] + rest)
    return Problem(message, scalar.file.locate(at, at + 1), hint)


def ends_with_comment(scalar: YamlScalar | None) -> bool:
    """Whether a plain value is followed by a comment on its line."""
    if scalar is None or scalar.style:
        return False
    rest = scalar.file.text[scalar.end :].split("\n", 1)[0]
    return re.match(r"\s+#", rest) is not None


@dataclass(slots=True)
class RejoinedValues:
    """The content of a flow collection, with the values joined again that commas had cut."""

    nodes: list[YamlNode] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    has_fragments: bool = False
    """Whether fragments are left that cannot be joined."""


def rejoin_comma_cuts(nodes: Sequence[YamlNode], *, mapping: bool) -> RejoinedValues:
    """Join values that commas cut; the keys and values of a mapping alternate in `nodes`."""
    done = RejoinedValues()
    at = 0
    while at < len(nodes):
        end = _find_last_fragment(nodes, at)
        if not end:
            done.nodes.append(nodes[at])
            at += 1
            continue
        first, last = nodes[at], nodes[end]
        assert isinstance(first, YamlScalar) and isinstance(last, YamlScalar)
        done.problems.append(_make_comma_problem(first, last))
        done.nodes.append(_join_fragments(first, last))
        # A value that ends in what YAML took for a key leaves the empty value of that key.
        extra = nodes[end + 1] if mapping and at % 2 and not end % 2 else None
        odd = mapping and end % 2 and not at % 2
        comment = re.search(r"\s#", first.file.text[first.start : last.end])
        done.has_fragments |= bool(odd or comment) or not (extra is None or _is_nothing(extra))
        at = end + (1 if extra is None else 2)
    return done


def _find_last_fragment(nodes: Sequence[YamlNode], first: int) -> int:
    """Return the index of a value's last fragment, if its first is at `first`; 0 if it is whole."""
    node = nodes[first]
    depth = (
        _count_open_brackets(node.value) if isinstance(node, YamlScalar) and not node.style else 0
    )
    if depth <= 0:
        return 0
    for at in range(first + 1, min(len(nodes), first + MAX_FRAGMENTS)):
        node = nodes[at]
        if not isinstance(node, YamlScalar):
            return 0
        depth += 0 if node.style else _count_open_brackets(node.value)
        if depth <= 0:
            return at
    return 0


def _is_nothing(node: YamlNode) -> bool:
    return isinstance(node, YamlScalar) and node.is_null


def _join_fragments(first: YamlScalar, last: YamlScalar) -> YamlScalar:
    value = fold_plain_scalar(first.file.text, find_content_start(first), last.end)
    return YamlScalar(first.file, first.start, last.end, value, is_text=True)


def _count_open_brackets(value: str) -> int:
    """Count the brackets that stay open; `<` counts where it belongs to a type."""
    if not BRACKET_PATTERN.search(value):
        return 0
    bare = SQL_QUOTED_PATTERN.sub("", value)
    round_ones = bare.count("(") - bare.count(")")
    if GENERIC_TYPE_PATTERN.search(bare) or (">" in bare and bare.rstrip().endswith(">")):
        return round_ones + bare.count("<") - bare.count(">")
    return round_ones


def _make_comma_problem(first: YamlScalar, last: YamlScalar) -> Problem:
    text = first.file.text
    comma = first.end + text[first.end : last.end].find(",")
    what = "a type" if TYPE_PATTERN.match(first.value) else "an expression"
    message = f"inside brackets a comma ends the value, but this one is part of {what}"
    hint = suggest_quotes(text[first.start : last.end])
    return Problem(message, first.file.locate(comma, comma + 1), hint)
