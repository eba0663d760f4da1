"""Matches of a pattern in the rows of a key, found by backtracking: one row after the other.

Of a pattern only the parts that may follow a row are known at a time, in the order of preference. A
part is tried with the row; where that leads to no match, the next part is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias

import polars as pl

from headrace.core.aggregates import ORDER, compute_partial_states
from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.patterns.pattern import Group, Negation, Part, Pattern, Sign, Variable
from headrace.core.patterns.pattern import Sequence as PatternSequence
from headrace.core.plan import nodes
from headrace.core.testing.reference.rows import TimedRow, Value, build_frame, evaluate
from headrace.core.types.lazy_dataclass import dataclass

NEVER_US = (1 << 63) - 1
"""The time at which the input ends."""

Then: TypeAlias = "Callable[[frozenset[str]], Iterator[Follower]]"
"""Lists what may follow a row, if no row of these variables comes before it."""
Taken: TypeAlias = "tuple[tuple[str, int], ...]"
"""The rows of a match so far, by their places: the variable of each."""


@dataclass(frozen=True)
class Follower:
    """A variable that may take a row, or the end of the pattern, whose variable is None."""

    variable: str | None
    sign: Sign
    forbidden: frozenset[str]
    """The negated variables before it: a row of one of them ends the wait."""
    then: Then

    @property
    def is_end(self) -> bool:
        return self.variable is None


@dataclass(frozen=True)
class Attempt:
    """One way to match rows, and how it ended."""

    taken: Taken
    left: frozenset[int]
    """Those of its rows that `=>` could have left to others."""
    ended_us: int
    """The time of the last row that it looked at, or its deadline."""
    is_complete: bool
    ran_out: bool = False
    """Whether it still waited when its time had passed."""
    completed_at: int = NEVER_US
    """The place of the row that completed it."""

    def gives_up(self, other: Attempt) -> bool:
        """Whether a less preferred attempt was still the same run when this one was complete."""
        at = self.completed_at
        before = {each for each in other.left if each < at}
        return self.is_complete and self.left == before | (other.left & self.left & {at})


@dataclass(frozen=True)
class FoundMatch:
    """The rows of a match, and the time at which nothing could change it any more."""

    taken: Taken
    decided_us: int
    is_complete: bool


def list_first(pattern: Pattern) -> Iterator[Follower]:
    """Yield the variables that may take the first row."""
    yield from _list_group(pattern.alternatives, "next", _list_end, frozenset())


def _list_end(forbidden: frozenset[str]) -> Iterator[Follower]:
    yield Follower(None, "next", forbidden, _list_nothing)


def _list_nothing(forbidden: frozenset[str]) -> Iterator[Follower]:
    yield from ()


def _list_group(
    alternatives: Sequence[PatternSequence],
    sign: Sign,
    then: Then,
    forbidden: frozenset[str],
) -> Iterator[Follower]:
    for sequence in alternatives:
        following = then
        for element in reversed(sequence.elements):
            following = partial(_list_part, element.part, element.sign, sign, following)
        yield from following(forbidden)


def _list_part(
    part: Part,
    own_sign: Sign | None,
    outer_sign: Sign,
    then: Then,
    forbidden: frozenset[str],
) -> Iterator[Follower]:
    """Yield what begins a part; the first one of a group has the sign before the group."""
    if isinstance(part, Negation):
        yield from then(forbidden | {part.name})
    else:
        signs = (own_sign or outer_sign, own_sign or "next")
        yield from _repeat(part, signs, then, 0, forbidden)


def _repeat(
    part: Variable | Group,
    signs: tuple[Sign, Sign],
    then: Then,
    repeated: int,
    forbidden: frozenset[str],
) -> Iterator[Follower]:
    """Yield what follows after some repetitions.

    `signs` are the one before the first repetition, and the one before the others.
    """
    sign = signs[repeated > 0]
    least, most = part.quantifier.minimum, part.quantifier.maximum
    again = partial(_repeat, part, signs, then, repeated + 1)
    if part.quantifier.is_reluctant and repeated >= least:
        yield from then(forbidden)
    if most is None or repeated < most:
        if isinstance(part, Variable):
            yield Follower(part.name, sign, forbidden, again)
        else:
            yield from _list_group(part.alternatives, sign, again, forbidden)
    if not part.quantifier.is_reluctant and repeated >= least:
        yield from then(forbidden)


@dataclass()
class MatchFinder:
    """Finds the matches in the rows of a key, which are in row order."""

    operation: nodes.Match
    rows: Sequence[TimedRow]
    plain: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    """For each variable whose condition reads the tested row only: the rows that fit."""
    tested: dict[tuple[str, int, Taken], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        conditions = (each for each in self.operation.conditions if not each.value.calls)
        self.plain = {
            each.variable: [value is True for value in evaluate(each.value.finish, self.rows)]
            for each in conditions
        }

    def find(self) -> Iterator[FoundMatch]:
        """Yield the matches, and the partial ones that ran out of time."""
        rule = self.operation.after_match.rule
        at, before_us = 0, -NEVER_US
        while at < len(self.rows):
            attempts = self._start(at)
            if rule == "none":
                yield from _choose_for_each_run(attempts)
                at += 1
                continue
            found, decided_us = _choose_preferred(attempts)
            # A match waits for what begins before it, which might skip its first row.
            before_us = decided_us if rule == "next" else max(before_us, decided_us)
            if found is not None:
                yield replace(found, decided_us=before_us)
            is_match = found is not None and found.is_complete
            at = self._find_next_start(at, found.taken) if found and is_match else at + 1

    def _find_next_start(self, start: int, taken: Taken) -> int:
        """Return the place of the first row that the next match may begin with."""
        after = self.operation.after_match
        of_variable = [place for variable, place in taken if variable == after.variable]
        match after.rule:
            case "past_last":
                return taken[-1][1] + 1
            case "first" if of_variable:
                return max(of_variable[0], start + 1)
            case "last" if of_variable:
                return max(of_variable[-1], start + 1)
        return start + 1

    def _start(self, at: int) -> Iterator[Attempt]:
        """Yield the attempts that begin with a row, the preferred ones first."""
        for each in list_first(self.operation.pattern):
            if self._fits(each, at, ()):
                yield from self._take(each, at, (), frozenset())

    def _take(
        self, follower: Follower, at: int, taken: Taken, left: frozenset[int]
    ) -> Iterator[Attempt]:
        assert follower.variable is not None
        now = (*taken, (follower.variable, at))
        followers = list[Follower]()
        for each in follower.then(frozenset()):
            followers.append(each)
            if each.is_end and not each.forbidden:
                break  # the end is preferred to what comes after it
        yield from self._advance(followers, now, left, at + 1)

    def _advance(
        self, followers: Sequence[Follower], taken: Taken, left: frozenset[int], at: int
    ) -> Iterator[Attempt]:
        """Yield the attempts whose next row is that at a place."""
        while followers:
            ends = [each for each in followers if each.is_end]
            completed_at = NEVER_US
            if any(not each.forbidden for each in ends):
                completed_at = taken[-1][1]  # what may follow has only delayed it
            if followers[0].is_end and not followers[0].forbidden:
                seen_us = self._get_time(at - 1)
                yield Attempt(taken, left, seen_us, True, completed_at=completed_at)
                return
            if not self._is_in_time(at, taken):
                deadline_us = self._get_deadline(taken)
                yield Attempt(taken, left, deadline_us, bool(ends), not ends, completed_at)
                return
            alive = [each for each in followers if not self._is_forbidden(each, at, taken)]
            if any(self._fits(each, at, taken) for each in alive):
                yield from self._choose(alive, taken, left, at)
                return
            followers = [each for each in alive if each.is_end or each.sign != "next"]
            at += 1
        yield Attempt(taken, left, self._get_time(at - 1), is_complete=False)

    def _choose(
        self, followers: Sequence[Follower], taken: Taken, left: frozenset[int], at: int
    ) -> Iterator[Attempt]:
        """Yield the attempts of all that fits a row, in order."""
        fitting = [each for each in followers if self._fits(each, at, taken)]
        if any(each.sign != "every" for each in fitting):
            for each in followers:
                if each in fitting:
                    yield from self._take(each, at, taken, left)
                elif each.is_end:
                    yield from self._advance([each], taken, left, at + 1)
            return
        if followers[0].is_end:
            yield from self._advance(followers[:1], taken, left, at + 1)
        for each in fitting:
            yield from self._take(each, at, taken, left | {at})
        waiting = [each for each in followers if each.is_end or each.sign != "next"]
        yield from self._advance(waiting, taken, left, at + 1)

    def _get_time(self, at: int) -> int:
        time = self.rows[at].time
        assert time is not None
        return time

    def _get_deadline(self, taken: Taken) -> int:
        within_us = self.operation.within_us
        return NEVER_US if within_us is None else self._get_time(taken[0][1]) + within_us

    def _is_in_time(self, at: int, taken: Taken) -> bool:
        """Whether there is a row at this place, and it may be part of the match."""
        return at < len(self.rows) and self._get_time(at) < self._get_deadline(taken)

    def _fits(self, follower: Follower, at: int, taken: Taken) -> bool:
        return follower.variable is not None and self._is_true(follower.variable, at, taken)

    def _is_forbidden(self, follower: Follower, at: int, taken: Taken) -> bool:
        return any(self._is_true(each, at, taken) for each in follower.forbidden)

    def _is_true(self, variable: str, at: int, taken: Taken) -> bool:
        """Whether the condition of a variable is true for a row after those that are taken."""
        condition = self.operation.get_condition(variable)
        if condition is None:
            return True
        if variable in self.plain:
            return self.plain[variable][at]
        tested = (variable, at, taken)
        if tested not in self.tested:
            value = compute_over_match(condition.value, self.rows, taken, self.rows[at].values)
            self.tested[tested] = value is True
        return self.tested[tested]


def _choose_preferred(attempts: Iterable[Attempt]) -> tuple[FoundMatch | None, int]:
    """Return the first complete attempt, else the first one that ran out; and the time of that."""
    decided_us, ran_out = -NEVER_US, None
    for each in attempts:
        decided_us = max(decided_us, each.ended_us)
        if each.is_complete:
            return FoundMatch(each.taken, decided_us, is_complete=True), decided_us
        if each.ran_out and ran_out is None:
            ran_out = each
    if ran_out is None:
        return None, decided_us
    return FoundMatch(ran_out.taken, decided_us, is_complete=False), decided_us


def _choose_for_each_run(attempts: Iterable[Attempt]) -> Iterator[FoundMatch]:
    """Yield the preferred match of each set of rows that `=>` could have left to others."""
    runs: dict[frozenset[int], list[Attempt]] = {}
    known: list[Attempt] = []
    for each in attempts:
        if not any(before.gives_up(each) for before in known):
            runs.setdefault(each.left, []).append(each)
        known.append(each)
    for run in runs.values():
        found, _ = _choose_preferred(run)
        if found is not None:
            yield found


def compute_over_match(
    expression: AggregateExpression,
    rows: Sequence[TimedRow],
    taken: Taken,
    beside: Mapping[str, Value],
) -> Value:
    """Return the value of an expression over the rows of a match, beside columns of one row."""
    members = [
        TimedRow({**rows[at].values, nodes.VARIABLE: variable}, rows[at].time, rows[at].order)
        for variable, at in taken
    ]
    results = {call.name: _aggregate(call, members) for call in expression.calls}
    return evaluate(expression.finish, [TimedRow({**beside, **results}, None, ())])[0]


def _aggregate(call: AggregateCall, rows: Sequence[TimedRow]) -> Value:
    frame = build_frame(rows, [each.typed for each in call.all_inputs])
    frame = frame.with_columns(pl.Series(ORDER, range(len(rows)), dtype=pl.Int64))
    states = compute_partial_states(frame, (), (call,))
    return states.select(call.finish()).to_series().to_list()[0]
