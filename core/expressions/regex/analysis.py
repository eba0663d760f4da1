r"""Static analysis of a pattern's tree: where it starts, and where its `$` are.

Rust has no `$` that matches before a final line end, so `$` is written as an optional line end and
the end of the text: `x$` becomes `x(?:\r\n|[\n\r...])?\z`. The two are equivalent where `$` is the
last thing of the pattern and the text before it cannot run into the line end in another way. Java,
for example, finds no `a\r$` in "a\r\n", and two `\s$` in " \n". The checks here refuse such
patterns.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.expressions.regex.characters import LINE_ENDS, has_character
from headrace.core.expressions.regex.errors import RegexError
from headrace.core.expressions.regex.parser import can_be_empty
from headrace.core.expressions.regex.tree import (
    Alternation,
    CaptureGroup,
    LastLineEnd,
    LineBreak,
    RegexNode,
    RegexSequence,
    Repetition,
    SingleCharacter,
    TextStart,
    child_nodes,
    has_node,
)
from headrace.core.types.lazy_dataclass import dataclass

_HINT = r"write \z for the very end, or (?:\r?\n)?\z to allow a last line end"


def starts_at_start(node: RegexNode) -> bool:
    """Whether the pattern can match only at the start of the text."""
    match node:
        case TextStart():
            return True
        case RegexSequence(parts):
            return bool(parts) and starts_at_start(parts[0])
        case Alternation(options):
            return all(map(starts_at_start, options))
        case CaptureGroup(body=body):
            return starts_at_start(body)
        case Repetition(body=body, minimum=least):
            return least > 0 and starts_at_start(body)
    return False


def find_repeated_groups(node: RegexNode, repeated: bool = False) -> Iterator[int]:
    """Yield the groups that may match more than once: Java keeps failed attempts in them."""
    if isinstance(node, CaptureGroup) and repeated:
        yield node.number
    if isinstance(node, Repetition) and node.maximum not in (0, 1):
        repeated = True
    for child in child_nodes(node):
        yield from find_repeated_groups(child, repeated)


def check_last_lines(tree: RegexNode, again: bool) -> None:
    """Refuse each `$` whose translation differs; `again`: more than one match is searched."""
    starts, ends = _find_edge_ends(tree, at_end=False), _find_edge_ends(tree, at_end=True)
    rivals = starts if again and ends else frozenset()
    for ending in _find_last_lines(tree, frozenset()):
        if ending.loop_ends is None:
            fits = not rivals and not (
                ending.preceding_ends if again else ending.preceding_ends & {"\r"}
            )
        else:
            fits = rivals <= ending.loop_ends
        if not fits:
            raise RegexError('the pattern takes line ends before or after "$"', _HINT)


@dataclass(frozen=True, slots=True)
class _LastLineUse:
    """A `$`: the line ends that may precede it, and those that a loop before it consumes."""

    preceding_ends: frozenset[str]
    loop_ends: frozenset[str] | None


def _find_last_lines(node: RegexNode, before: frozenset[str]) -> Iterator[_LastLineUse]:
    match node:
        case LastLineEnd():
            yield _LastLineUse(before, None)
        case Alternation(options):
            for option in options:
                yield from _find_last_lines(option, before)
        case CaptureGroup(body=body):
            yield from _find_last_lines(body, before)
        case RegexSequence(parts) if parts:
            *front, last = parts
            if any(has_node(part, LastLineEnd) for part in front):
                raise RegexError('the pattern continues after "$"', _HINT)
            loop = _find_loop_ends(front[-1]) if front and isinstance(last, LastLineEnd) else None
            whole = RegexSequence(tuple(front))
            edge = _find_edge_ends(whole, at_end=True) | (
                before if can_be_empty(whole) else frozenset()
            )
            for ending in _find_last_lines(last, edge):
                yield _LastLineUse(edge, loop) if loop else ending
        case _ if has_node(node, LastLineEnd):
            raise RegexError('the pattern repeats "$"', _HINT)


def _find_loop_ends(node: RegexNode) -> frozenset[str] | None:
    r"""Return the line ends of a loop as greedy as `\s+`, which leaves no part of `\r\n`."""
    match node:
        case Repetition(SingleCharacter(characters), maximum=None, is_lazy=False):
            ends = frozenset(end for end in LINE_ENDS if has_character(characters, end))
            return ends if ends >= {"\r", "\n"} else None
        case CaptureGroup(body=body):
            return _find_loop_ends(body)
        case RegexSequence(parts) if parts:
            return _find_loop_ends(parts[-1])
    return None


def _find_edge_ends(node: RegexNode, at_end: bool) -> frozenset[str]:
    """Return the line ends that may be the first, or the last, character of a match."""
    match node:
        case SingleCharacter(characters):
            return frozenset(end for end in LINE_ENDS if has_character(characters, end))
        case LineBreak():
            return LINE_ENDS
        case RegexSequence(parts):
            found: frozenset[str] = frozenset()
            for part in reversed(parts) if at_end else parts:
                found |= _find_edge_ends(part, at_end)
                if not can_be_empty(part):
                    break
            return found
        case Alternation(options):
            return frozenset().union(*(_find_edge_ends(option, at_end) for option in options))
        case CaptureGroup(body=body) | Repetition(body=body):
            return _find_edge_ends(body, at_end)
    return frozenset()
