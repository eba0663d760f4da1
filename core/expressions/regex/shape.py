r"""Static analysis of a pattern's tree: where it starts, and where its `$` are.

Rust has no `$` that matches before a final line end, so `$` is written as an optional line end and
the end of the text: `x$` becomes `x(?:\r\n|[\n\r...])?\z`. The two are equivalent where `$` is the
last thing of the pattern and the text before it cannot run into the line end in another way. Java,
for example, finds no `a\r$` in "a\r\n", and two `\s$` in " \n". The checks here refuse such
patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.expressions.regex.characters import LINE_ENDS, holds
from headrace.core.expressions.regex.errors import PatternError
from headrace.core.expressions.regex.parser import can_be_empty
from headrace.core.expressions.regex.tree import (
    Choice,
    Group,
    LastLine,
    LineBreak,
    Node,
    One,
    Repeat,
    Sequence,
    Start,
    children,
    has,
)

_HINT = r"write \z for the very end, or (?:\r?\n)?\z to allow a last line end"


def starts_at_start(node: Node) -> bool:
    """Whether the pattern can match only at the start of the text."""
    match node:
        case Start():
            return True
        case Sequence(parts):
            return bool(parts) and starts_at_start(parts[0])
        case Choice(options):
            return all(map(starts_at_start, options))
        case Group(body=body):
            return starts_at_start(body)
        case Repeat(body=body, least=least):
            return least > 0 and starts_at_start(body)
    return False


def repeated_groups(node: Node, repeated: bool = False) -> Iterator[int]:
    """Yield the groups that may match more than once: Java keeps failed attempts in them."""
    if isinstance(node, Group) and repeated:
        yield node.number
    if isinstance(node, Repeat) and node.most not in (0, 1):
        repeated = True
    for child in children(node):
        yield from repeated_groups(child, repeated)


def check_last_lines(tree: Node, again: bool) -> None:
    """Refuse each `$` whose translation differs; `again`: more than one match is searched."""
    starts, ends = _edge(tree, at_end=False), _edge(tree, at_end=True)
    rivals = starts if again and ends else frozenset()
    for ending in _endings(tree, frozenset()):
        if ending.loop is None:
            fits = not rivals and not (ending.before if again else ending.before & {"\r"})
        else:
            fits = rivals <= ending.loop
        if not fits:
            raise PatternError('the pattern takes line ends before or after "$"', _HINT)


@dataclass(frozen=True, slots=True)
class _Ending:
    """A `$`: the line ends that may precede it, and those that a loop before it consumes."""

    before: frozenset[str]
    loop: frozenset[str] | None


def _endings(node: Node, before: frozenset[str]) -> Iterator[_Ending]:
    match node:
        case LastLine():
            yield _Ending(before, None)
        case Choice(options):
            for option in options:
                yield from _endings(option, before)
        case Group(body=body):
            yield from _endings(body, before)
        case Sequence(parts) if parts:
            *front, last = parts
            if any(has(part, LastLine) for part in front):
                raise PatternError('the pattern continues after "$"', _HINT)
            loop = _loop(front[-1]) if front and isinstance(last, LastLine) else None
            whole = Sequence(tuple(front))
            edge = _edge(whole, at_end=True) | (before if can_be_empty(whole) else frozenset())
            for ending in _endings(last, edge):
                yield _Ending(edge, loop) if loop else ending
        case _ if has(node, LastLine):
            raise PatternError('the pattern repeats "$"', _HINT)


def _loop(node: Node) -> frozenset[str] | None:
    r"""Return the line ends of a loop as greedy as `\s+`, which leaves no part of `\r\n`."""
    match node:
        case Repeat(One(characters), most=None, lazy=False):
            ends = frozenset(end for end in LINE_ENDS if holds(characters, end))
            return ends if ends >= {"\r", "\n"} else None
        case Group(body=body):
            return _loop(body)
        case Sequence(parts) if parts:
            return _loop(parts[-1])
    return None


def _edge(node: Node, at_end: bool) -> frozenset[str]:
    """Return the line ends that may be the first, or the last, character of a match."""
    match node:
        case One(characters):
            return frozenset(end for end in LINE_ENDS if holds(characters, end))
        case LineBreak():
            return LINE_ENDS
        case Sequence(parts):
            found: frozenset[str] = frozenset()
            for part in reversed(parts) if at_end else parts:
                found |= _edge(part, at_end)
                if not can_be_empty(part):
                    break
            return found
        case Choice(options):
            return frozenset().union(*(_edge(option, at_end) for option in options))
        case Group(body=body) | Repeat(body=body):
            return _edge(body, at_end)
    return frozenset()
