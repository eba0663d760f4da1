"""Moves the runs of keys by their rows. The only run of a key, with one thread, moves by a table.

Most keys have such a run. It is a tuple of values and tuples, at which the garbage collector looks
once. At a list with an object for each run it looks again and again, and making them takes longer.

Tests: tests/core/patterns/test_matcher.py and test_random_runs.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import NamedTuple

from headrace.core.patterns.automaton import END
from headrace.core.patterns.matcher import Matcher, TooManyRuns
from headrace.core.patterns.runs import AT, TIME, Decision, LoneRun, OptionSet, Row, Run, RunsOfKey
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass

NO_RUN: LoneRun = (0, (-1, MAX_WATERMARK_US), None)
"""The run of a key without runs: no row has started it, and no time has passed it."""
MAX_EFFECTS = 1024
"""The largest number of effects that are known for the same options."""


class RowEffect(NamedTuple):
    """The effect of a row on a lone run."""

    position: int
    """The position that takes the row; END: none does."""
    following: int | None
    """The number of the options after the row; None: the run ends."""
    is_start: bool = False
    """Whether a run with that row replaces the run."""


@dataclass(eq=False, slots=True)
class RunChanges:
    """The effects of rows on the runs of keys."""

    decisions: list[Decision]
    changed: set[str]
    """The keys whose runs may have changed."""
    started: list[int] = field(default_factory=list)
    """The places of rows with which runs have started; some runs may have ended."""
    failed: list[int] = field(default_factory=list)
    """The places of rows that would give their keys too many runs."""


class KeyMatcher:
    """Moves the runs of keys by their rows, and ends them in time."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self._options: list[OptionSet] = [matcher.start]
        """The options of lone runs, by number; NO_RUN has the first number."""
        self._numbers: dict[OptionSet, int] = {}
        self._effects = [_RowEffects(self, 0)]

    def push_rows(
        self,
        runs_of_keys: dict[str, RunsOfKey],
        rows: Iterable[tuple[str, int, Row]],
        changes: RunChanges,
    ) -> None:
        """Move the runs of keys by their next rows: a key, the variables that fit, and the row.

        The variables are those that `Matcher.push` takes. No list of runs is empty. It is fastest
        if the rows of a key follow each other.
        """
        get, effects, within_us = runs_of_keys.get, self._effects, self.matcher.rules.within_us
        may_start, add_changed = self.matcher.start.mask, changes.changed.add
        started = changes.started
        for key, fits, row in rows:
            runs = get(key, NO_RUN)
            if runs is NO_RUN and not fits & may_start:
                continue
            if isinstance(runs, list):
                self._push_any(runs_of_keys, key, runs, fits, row, changes)
                continue
            number, start, history = runs
            effect = effects[number][fits]
            if effect is None or (within_us is not None and start[TIME] + within_us <= row[TIME]):
                self._push_any(runs_of_keys, key, self.list_runs(runs), fits, row, changes)
                continue
            position, following, is_start = effect
            if position == END and following is not None:
                continue
            add_changed(key)
            if (is_start or following is None) and started and started[-1] == start[AT]:
                started.pop()
            if following is None:
                del runs_of_keys[key]
                if position != END:
                    changes.decisions.append(Decision(row[TIME], (history, position, row)))
            elif is_start:
                runs_of_keys[key] = following, row, (None, position, row)
                started.append(row[AT])
            else:
                runs_of_keys[key] = following, start, (history, position, row)

    def pass_time(
        self, runs: RunsOfKey, until_us: int, decisions: list[Decision]
    ) -> RunsOfKey | None:
        """Return the runs that are left when those whose time has passed have ended."""
        found = self.list_runs(runs)
        self.matcher.pass_time(found, until_us, decisions)
        return self.pack_runs(found)

    def finish(self, runs: RunsOfKey, decisions: list[Decision]) -> None:
        """End all runs at the end of the input."""
        self.matcher.finish(self.list_runs(runs), decisions)

    def list_runs(self, runs: RunsOfKey) -> list[Run]:
        """Return the runs of a key as the matcher moves them."""
        if isinstance(runs, list):
            return runs
        number, start, history = runs
        return [] if history is None else [Run(start, history, self._options[number])]

    def pack_runs(self, runs: list[Run]) -> RunsOfKey | None:
        """Return the runs of a key as they are stored; None: there are none."""
        if len(runs) != 1:
            return runs or None
        (run,) = runs
        if run.others or run.options is None or run.options.crossed:
            return runs
        return self._number_options(run.options), run.start, run.history

    def build_effect(self, number: int, fits: int) -> RowEffect | None:
        """Return the effect of a row on a lone run; None: the matcher moves the run."""
        may_start = bool(fits & self.matcher.start.mask)
        start = self.matcher.find_only_start(fits) if may_start else None
        started = None
        if start is not None and not start[1].crossed:
            started = RowEffect(start[0], self._number_options(start[1]), is_start=True)
        if number == NO_RUN[0]:
            return started if may_start else RowEffect(END, number)
        move = self.matcher.find_move(self._options[number], fits)
        if not move.steps:
            return started if may_start else RowEffect(END, None)
        if may_start:
            return None
        if move.is_idle:
            return RowEffect(END, number)
        following = move.only_options
        if move.only_position == END or (following is not None and following.crossed):
            return None
        number_after = None if following is None else self._number_options(following)
        return RowEffect(move.only_position, number_after)

    def _push_any(
        self,
        runs_of_keys: dict[str, RunsOfKey],
        key: str,
        runs: list[Run],
        fits: int,
        row: Row,
        changes: RunChanges,
    ) -> None:
        """Move any number of runs of a key by a row."""
        changes.changed.add(key)
        try:
            self.matcher.push(runs, row, fits, changes.decisions)
        except TooManyRuns:
            changes.failed.append(row[AT])
        if runs and runs[-1].start is row:
            changes.started.append(row[AT])
        packed = self.pack_runs(runs)
        if packed is None:
            runs_of_keys.pop(key, None)
        else:
            runs_of_keys[key] = packed

    def _number_options(self, options: OptionSet) -> int:
        number = self._numbers.get(options)
        if number is None:
            number = self._numbers[options] = len(self._options)
            self._options.append(options)
            self._effects.append(_RowEffects(self, number))
        return number


class _RowEffects(dict[int, "RowEffect | None"]):
    """The effects of rows on lone runs with the same options, by the variables that they fit."""

    def __init__(self, matcher: KeyMatcher, number: int) -> None:
        self._matcher = matcher
        self._number = number

    def __missing__(self, fits: int) -> RowEffect | None:
        """Find an effect when it is first needed."""
        if len(self) >= MAX_EFFECTS:
            self.clear()  # many variables that fit independently of each other
        effect = self[fits] = self._matcher.build_effect(self._number, fits)
        return effect
