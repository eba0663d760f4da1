"""Matches of a pattern in the rows of a key, found by backtracking: one row after the other.

Of a pattern only the parts that may follow a row are known at a time, in the order of preference. A
part is tried with the row; where that leads to no match, the next part is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

Then: TypeAlias = "Callable[[int, frozenset[str]], Iterator[Follower]]"
"""Lists what may follow after a number of rows, if no row of these variables comes before it."""
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
class FoundMatch:
    """The rows of a match, and the time at which nothing could change it any more."""

    taken: Taken
    decided_us: int


@dataclass(frozen=True)
class Outcome:
    """The matches that a choice leads to, the preferred one first."""

    matches: tuple[FoundMatch, ...]
    decided_us: int
    """The time of the last row, or the deadline, that was looked at."""
    ran_out: Taken | None = None
    """The rows of the preferred attempt that still waited when its time had passed."""


def list_first(pattern: Pattern) -> Iterator[Follower]:
    """Yield the variables that may take the first row."""
    yield from _list_group(pattern.alternatives, "next", _list_end, 0, frozenset())


def _list_end(rows: int, forbidden: frozenset[str]) -> Iterator[Follower]:
    yield Follower(None, "next", forbidden, _list_nothing)


def _list_nothing(rows: int, forbidden: frozenset[str]) -> Iterator[Follower]:
    yield from ()


def _list_group(
    alternatives: Sequence[PatternSequence],
    sign: Sign,
    then: Then,
    rows: int,
    forbidden: frozenset[str],
) -> Iterator[Follower]:
    for sequence in alternatives:
        following = then
        for element in reversed(sequence.elements):
            following = partial(_list_part, element.part, element.sign or sign, following)
        yield from following(rows, forbidden)


def _list_part(
    part: Part, sign: Sign, then: Then, rows: int, forbidden: frozenset[str]
) -> Iterator[Follower]:
    if isinstance(part, Negation):
        yield from then(rows, forbidden | {part.name})
    else:
        yield from _repeat(part, sign, then, 0, None, rows, forbidden)


def _repeat(
    part: Variable | Group,
    sign: Sign,
    then: Then,
    repeated: int,
    begun: int | None,
    rows: int,
    forbidden: frozenset[str],
) -> Iterator[Follower]:
    """Yield what follows after some repetitions, of which the last one began after `begun` rows."""
    least, most = part.quantifier.minimum, part.quantifier.maximum
    if repeated > least and begun == rows:
        return  # a repetition without rows that need not be is none
    again = partial(_repeat, part, sign, then, repeated + 1, rows)
    if part.quantifier.is_reluctant and repeated >= least:
        yield from then(rows, forbidden)
    if most is None or repeated < most:
        if isinstance(part, Variable):
            yield Follower(part.name, sign, forbidden, again)
        else:
            yield from _list_group(part.alternatives, sign, again, rows, forbidden)
    if not part.quantifier.is_reluctant and repeated >= least:
        yield from then(rows, forbidden)


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

    def find(self) -> Iterator[tuple[FoundMatch, bool]]:
        """Yield the matches, and the attempts that ran out of time: those are not complete."""
        is_alone = self.operation.after_match.rule in ("next", "none")
        at, before_us = 0, -NEVER_US
        while at < len(self.rows):
            outcome = self.start(at)
            matches = outcome.matches if self.finds_all else outcome.matches[:1]
            least_us = -NEVER_US if is_alone else before_us
            for each in matches:
                yield replace(each, decided_us=max(each.decided_us, least_us)), True
            if not matches and outcome.ran_out is not None:
                yield FoundMatch(outcome.ran_out, max(outcome.decided_us, least_us)), False
            decided_us = matches[0].decided_us if matches else outcome.decided_us
            before_us = max(before_us, decided_us)
            at = self._find_next_start(at, matches[0].taken) if matches else at + 1

    def start(self, at: int) -> Outcome:
        """Return the matches that begin with a row."""
        first = [each for each in list_first(self.operation.pattern) if self._fits(each, at, ())]
        return self._choose(first, at, ())

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

    def _advance(self, followers: Sequence[Follower], taken: Taken, at: int) -> Outcome:
        """Return the matches of an attempt whose next row is that at a place."""
        while followers:
            seen_us = self._get_time(at - 1)
            if followers[0].is_end and not followers[0].forbidden:
                return Outcome((FoundMatch(taken, seen_us),), seen_us)
            if not self._is_in_time(at, taken):
                deadline_us = self._get_deadline(taken)
                if any(each.is_end for each in followers):
                    return Outcome((FoundMatch(taken, deadline_us),), deadline_us)
                return Outcome((), deadline_us, taken)
            alive = [each for each in followers if not self._is_forbidden(each, at, taken)]
            if any(self._fits(each, at, taken) for each in alive):
                return self._choose(alive, at, taken)
            followers = [each for each in alive if each.is_end or each.sign != "next"]
            at += 1
        return Outcome((), self._get_time(at - 1))

    def _choose(self, followers: Sequence[Follower], at: int, taken: Taken) -> Outcome:
        """Try all that fits a row, in order, until one leads to a match."""
        fitting = [each for each in followers if self._fits(each, at, taken)]
        forks = bool(taken) and all(each.sign == "every" for each in fitting)
        tried: list[Outcome] = []
        for each in followers:
            if each in fitting:
                assert each.variable is not None
                now = (*taken, (each.variable, at))
                tried.append(self._advance([*each.then(len(now), frozenset())], now, at + 1))
            elif each.is_end and not (forks and tried):
                tried.append(self._advance([each], taken, at + 1))
                forks = forks and not tried[-1].matches
            if tried and tried[-1].matches:
                break
        taking = _join(tried, self._get_time(at), apart=False)
        if not forks or (taking.matches and not self.finds_all):
            return taking
        waiting = [each for each in followers if each.is_end or each.sign != "next"]
        leaving = self._advance(waiting, taken, at + 1)
        return _join([taking, leaving], self._get_time(at), apart=self.finds_all)

    @property
    def finds_all(self) -> bool:
        """Whether each row that a variable behind `=>` may take is a match of its own."""
        return self.operation.after_match.rule == "none"

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


def _join(tried: Sequence[Outcome], seen_us: int, *, apart: bool) -> Outcome:
    """Return the outcome of several choices.

    Unless they are apart from each other, a match waits until those before it can have none.
    """
    found: list[FoundMatch] = []
    for each in tried:
        least_us = -NEVER_US if apart else seen_us
        found += [replace(m, decided_us=max(m.decided_us, least_us)) for m in each.matches]
        seen_us = max(seen_us, each.decided_us)
    ran_out = next((each.ran_out for each in tried if each.ran_out is not None), None)
    return Outcome(tuple(found), seen_us, ran_out)


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
