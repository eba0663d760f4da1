"""Matches of a pattern in the rows of a key, found by backtracking: one row after the other.

Of a pattern only the parts that may follow a row are known at a time, in the order of preference. A
part is tried with the row; where that leads to no match, the next part is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from headrace.core.patterns.pattern import Group, Negation, Part, Pattern, Sign, Variable
from headrace.core.patterns.pattern import Sequence as PatternSequence
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

NEVER_US = (1 << 63) - 1
"""The time at which the input ends."""

Then: TypeAlias = "Callable[[frozenset[str]], Iterator[Follower]]"
"""Lists what may follow a row, if no row of these variables comes before it."""
Taken: TypeAlias = "tuple[tuple[str, int], ...]"
"""The rows of a match so far, by their places: the variable of each."""
RowTest: TypeAlias = "Callable[[str, int, Taken], bool]"
"""Whether the row at a place fits a variable, after the rows that the match has before it."""


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
class MatchAttempt:
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

    def gives_up(self, other: MatchAttempt) -> bool:
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
    """Finds the matches in rows, of which it knows the times and the variables that they fit."""

    pattern: Pattern
    times_us: Sequence[int]
    """In row order."""
    within_us: int | None
    after: nodes.AfterMatch
    fits: RowTest

    def find(self) -> Iterator[FoundMatch]:
        """Yield the matches, and the partial ones that ran out of time."""
        rule = self.after.rule
        at, before_us = 0, -NEVER_US
        while at < len(self.times_us):
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
        after = self.after
        of_variable = [place for variable, place in taken if variable == after.variable]
        match after.rule:
            case "past_last":
                return taken[-1][1] + 1
            case "first" if of_variable:
                return max(of_variable[0], start + 1)
            case "last" if of_variable:
                return max(of_variable[-1], start + 1)
        return start + 1

    def _start(self, at: int) -> Iterator[MatchAttempt]:
        """Yield the attempts that begin with a row, the preferred ones first."""
        for each in list_first(self.pattern):
            if self._fits(each, at, ()):
                yield from self._take(each, at, (), frozenset())

    def _take(
        self, follower: Follower, at: int, taken: Taken, left: frozenset[int]
    ) -> Iterator[MatchAttempt]:
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
    ) -> Iterator[MatchAttempt]:
        """Yield the attempts whose next row is that at a place."""
        while followers:
            ends = [each for each in followers if each.is_end]
            completed_at = NEVER_US
            if any(not each.forbidden for each in ends):
                completed_at = taken[-1][1]  # what may follow has only delayed it
            if followers[0].is_end and not followers[0].forbidden:
                seen_us = self.times_us[at - 1]
                yield MatchAttempt(taken, left, seen_us, True, completed_at=completed_at)
                return
            if not self._is_in_time(at, taken):
                deadline_us = self._get_deadline(taken)
                yield MatchAttempt(taken, left, deadline_us, bool(ends), not ends, completed_at)
                return
            alive = [each for each in followers if not self._is_forbidden(each, at, taken)]
            if any(self._fits(each, at, taken) for each in alive):
                yield from self._choose(alive, taken, left, at)
                return
            followers = [each for each in alive if each.is_end or each.sign != "next"]
            at += 1
        yield MatchAttempt(taken, left, self.times_us[at - 1], is_complete=False)

    def _choose(
        self, followers: Sequence[Follower], taken: Taken, left: frozenset[int], at: int
    ) -> Iterator[MatchAttempt]:
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

    def _get_deadline(self, taken: Taken) -> int:
        if self.within_us is None:
            return NEVER_US
        return self.times_us[taken[0][1]] + self.within_us

    def _is_in_time(self, at: int, taken: Taken) -> bool:
        """Whether there is a row at this place, and it may be part of the match."""
        return at < len(self.times_us) and self.times_us[at] < self._get_deadline(taken)

    def _fits(self, follower: Follower, at: int, taken: Taken) -> bool:
        return follower.variable is not None and self.fits(follower.variable, at, taken)

    def _is_forbidden(self, follower: Follower, at: int, taken: Taken) -> bool:
        return any(self.fits(each, at, taken) for each in follower.forbidden)


def _choose_preferred(attempts: Iterable[MatchAttempt]) -> tuple[FoundMatch | None, int]:
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


def _choose_for_each_run(attempts: Iterable[MatchAttempt]) -> Iterator[FoundMatch]:
    """Yield the preferred match of each set of rows that `=>` could have left to others."""
    runs: dict[frozenset[int], list[MatchAttempt]] = {}
    known: list[MatchAttempt] = []
    for each in attempts:
        if not any(before.gives_up(each) for before in known):
            runs.setdefault(each.left, []).append(each)
        known.append(each)
    for run in runs.values():
        found, _ = _choose_preferred(run)
        if found is not None:
            yield found
