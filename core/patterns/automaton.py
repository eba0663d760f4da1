"""The automaton of a pattern: positions, which take a row each, and what may follow them.

A position is one occurrence of a variable; quantifiers with numbers have a position for each
repetition. After each position there is a list of options in the order of preference. So a match
needs no stack: what may follow depends only on the position of its last row.

Tests: tests/core/patterns/test_automaton.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TypeAlias

from headrace.core.patterns.pattern import (
    Group,
    Negation,
    Pattern,
    Quantifier,
    Sequence,
    Sign,
    Variable,
)
from headrace.core.types.lazy_dataclass import dataclass

END = -1
"""The position of the end of the pattern, which takes no row."""
NO_VARIABLE = -1


@dataclass(frozen=True, slots=True)
class Option:
    """A position that may follow, and the rows that it may take."""

    position: int
    sign: Sign
    negated: int = NO_VARIABLE
    """The variable of the negation before it."""
    variable: int = NO_VARIABLE
    """The variable of the position."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """The options at the start, and after each position."""

    names: tuple[str, ...]
    """The variables by number, negated ones too."""
    variables: tuple[int, ...]
    """The variable of each position."""
    start: tuple[Option, ...]
    following: tuple[tuple[Option, ...], ...]
    """The options after each position; nothing follows END without a negation."""

    def find_reached(self) -> frozenset[int]:
        """Return the positions that a match can reach."""
        reached = {option.position for option in self.start}
        pending = [*reached]
        while pending:
            for option in self.following[pending.pop()]:
                if option.position not in reached and option.position != END:
                    reached.add(option.position)
                    pending.append(option.position)
        return frozenset(reached)

    def find_earlier(self, variable: int) -> frozenset[int]:
        """Return the variables that may have rows when a row is tested for this one."""
        before: dict[int, set[int]] = {}
        changed = [option.position for option in self.start]
        before.update((position, set()) for position in changed)
        found = set[int]()
        while changed:
            position = changed.pop()
            having = before[position] | {self.variables[position]}
            for option in self.following[position]:
                if variable in (option.variable, option.negated):
                    found |= having
                if option.position == END:
                    continue
                known = before.setdefault(option.position, set())
                if not having <= known:
                    known |= having
                    changed.append(option.position)
        return frozenset(found)


def build_automaton(pattern: Pattern) -> Automaton:
    """Return the automaton of a pattern.

    >>> from headrace.core.patterns.parser import parse_pattern
    >>> automaton = build_automaton(parse_pattern("a b+ -> c"))
    >>> [option.sign for option in automaton.following[1]]
    ['next', 'followed_by']
    """
    builder = _Builder(pattern)
    start = builder.build_alternatives(pattern.alternatives, _End())
    following = tuple(tuple(builder.list_options(each.then)) for each in builder.takes)
    return Automaton(
        pattern.names,
        tuple(each.variable for each in builder.takes),
        tuple(builder.list_options(start)),
        following,
    )


@dataclass(eq=False, slots=True)
class _End:
    """The end of the pattern."""


@dataclass(eq=False, slots=True)
class _Take:
    """A row of a variable."""

    position: int
    variable: int
    then: _Node


@dataclass(eq=False, slots=True)
class _Choice:
    """Several ways, the preferred ones first."""

    ways: list[_Node] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Sign:
    """A sign before what follows."""

    sign: Sign
    then: _Node


@dataclass(eq=False, slots=True)
class _Not:
    """A negation before what follows."""

    variable: int
    then: _Node


_Node: TypeAlias = _End | _Take | _Choice | _Sign | _Not


class _Builder:
    """Builds the graph of a pattern from its end."""

    def __init__(self, pattern: Pattern) -> None:
        self._numbers = {name: at for at, name in enumerate(pattern.names)}
        self.takes: list[_Take] = []
        """The nodes that take a row, by position."""

    def build_alternatives(self, alternatives: Iterable[Sequence], then: _Node) -> _Node:
        """Return the first node of one of several sequences."""
        ways = [self._build_sequence(each, then) for each in alternatives]
        return ways[0] if len(ways) == 1 else _Choice(ways)

    def list_options(self, node: _Node) -> Iterator[Option]:
        """Yield the options at a node, up to the end of the pattern, which is better than more."""
        pending: list[tuple[_Node, Sign, int]] = [(node, "next", NO_VARIABLE)]
        seen, ended = set[tuple[int, Sign, int]](), set[tuple[int, int]]()
        while pending:
            node, sign, negated = pending.pop()
            if (id(node), sign, negated) in seen:
                continue
            seen.add((id(node), sign, negated))
            match node:
                case _End() if negated == NO_VARIABLE:
                    yield Option(END, "next")
                    return
                case _End():
                    if (END, negated) not in ended:
                        yield Option(END, "next", negated)
                    ended.add((END, negated))
                case _Take(position=position, variable=variable):
                    yield Option(position, sign, negated, variable)
                case _Choice(ways=ways):
                    pending.extend((way, sign, negated) for way in reversed(ways))
                case _Sign(sign=sign, then=then):
                    pending.append((then, sign, negated))
                case _Not(variable=variable, then=then):
                    pending.append((then, sign, variable))

    def _build_sequence(self, sequence: Sequence, then: _Node) -> _Node:
        for element in reversed(sequence.elements):
            match element.part:
                case Negation(name=name):
                    then = _Not(self._numbers[name], then)
                    continue  # its sign has no effect
                case Variable() as variable:
                    then = self._build_variable(variable, element.sign or "next", then)
                case Group() as group:
                    then = self._build_group(group, element.sign or "next", then)
            if element.sign is not None:
                then = _Sign(element.sign, then)
        return then

    def _build_variable(self, variable: Variable, sign: Sign, then: _Node) -> _Node:
        number = self._numbers[variable.name]

        def build(then: _Node) -> _Node:
            take = _Take(len(self.takes), number, then)
            self.takes.append(take)
            return take

        return _repeat(build, variable.quantifier, sign, then)

    def _build_group(self, group: Group, sign: Sign, then: _Node) -> _Node:
        def build(then: _Node) -> _Node:
            return self.build_alternatives(group.alternatives, then)

        return _repeat(build, group.quantifier, sign, then)


def _repeat(
    build: Callable[[_Node], _Node], quantifier: Quantifier, sign: Sign, then: _Node
) -> _Node:
    """Return the first node of repetitions, between which the sign holds."""

    def choose(more: _Node, enough: _Node) -> _Choice:
        return _Choice([enough, more] if quantifier.is_reluctant else [more, enough])

    mandatory, most = quantifier.minimum, quantifier.maximum
    if most is None:
        again = _Choice()
        node = build(again)
        again.ways = choose(_Sign(sign, node), then).ways
        if not mandatory:
            return choose(node, then)
        repeated = mandatory - 1
    else:
        node, repeated = then, mandatory
        for at in range(most, mandatory, -1):
            more = build(node)
            node = choose(more if at == 1 else _Sign(sign, more), then)
    for at in range(repeated, 0, -1):
        is_last = most is not None and at == mandatory
        following = node if is_last else _Sign(sign, node)
        node = build(following)
    return node
