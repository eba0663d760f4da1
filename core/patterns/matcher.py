"""Moves the runs of a key by its rows: rows and times in, decided matches out.

With `after_match: none`, taking a row by the sign `every` makes another run. A start may be dropped
by the match of an earlier one. So a decided match waits for the runs before it, except where
matches do not influence each other (`next`, `none`).

Tests: tests/core/patterns/test_matcher.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.core.patterns.automaton import END, NO_VARIABLE, Automaton, Option
from headrace.core.patterns.runs import (
    AT,
    TIME,
    Decision,
    History,
    MatchRules,
    Move,
    OptionSet,
    Row,
    RowTest,
    Run,
    Thread,
    Threads,
    list_rows,
)


class TooManyRuns(Exception):
    """A row would give a key more threads than are allowed."""


class Matcher:
    """Moves the runs of keys; the runs of a key are a list, ordered by their start rows."""

    def __init__(
        self,
        automaton: Automaton,
        rules: MatchRules,
        crossed: frozenset[int] = frozenset(),
        test: RowTest | None = None,
    ) -> None:
        """`test` tests rows for the `crossed` variables."""
        self.automaton = automaton
        self.rules = rules
        self._within_us = rules.within_us
        self._crossed = crossed
        self._test = test
        self._sets: dict[tuple[Option, ...], OptionSet] = {}
        self.start = self._intern(automaton.start)
        """The options for the first row of a match."""
        self._after = tuple(map(self._build_after, automaton.following))
        self._starts: dict[int, tuple[int, ...]] = {}
        """The positions that start a match, by the variables that the row fits."""
        self._forks = rules.skip == "none"
        self._is_blocking = rules.skip not in ("next", "none")

    def push(self, runs: list[Run], row: Row, fits: int, decisions: list[Decision]) -> None:
        """Move the runs of a key by its next row, and add what that decides.

        `fits` has a bit for each variable whose condition the row fulfils; for a crossed variable,
        as far as that depends on the row alone. Raises TooManyRuns, as if the row had not been
        there, but for its time.
        """
        within_us = self._within_us
        if runs and within_us is not None and runs[0].start[TIME] + within_us <= row[TIME]:
            self.pass_time(runs, row[TIME], decisions)
        if runs or fits & self.start.mask:
            self._move_runs(runs, row, fits, decisions)

    def find_only_start(self, fits: int) -> tuple[int, OptionSet] | None:
        """Return the position and options of a run that starts with one thread.

        `fits` are the variables that its row fits. None: there is none, or this depends on the row.
        """
        if self.start.crossed:
            return None
        positions = self._list_starts(fits & self.start.mask)
        if len(positions) != 1:
            return None
        waiting, accepts = self._after[positions[0]]
        return None if accepts or waiting is None else (positions[0], waiting)

    def find_move(self, options: OptionSet, fits: int) -> Move:
        """Return what a row that fits these variables makes of a thread."""
        fits &= options.mask
        move = options.moves.get(fits)
        if move is None:
            move = options.moves[fits] = self._build_move(options, fits)
        return move

    def _move_runs(self, runs: list[Run], row: Row, fits: int, decisions: list[Decision]) -> None:
        """Move any number of runs by a row, and start one."""
        moved: list[tuple[Run, Threads]] = []
        made: list[Run] = []
        count = 0
        for run in runs:
            fork: list[Thread] = []
            threads = self._move_run(run, row, fits, fork)
            if threads is not None:
                moved.append((run, threads))
            count += 1 + len(run.others) if threads is None else len(threads)
            if fork:
                count += len(fork)
                made.append(_build_run(run.start, fork))
        if fits & self.start.mask and (threads := self._start_threads(row, fits)):
            made.append(_build_run(row, threads))
            count += len(threads)
        if (
            count > self.rules.max_runs
            and count - self._count_ended(moved, made) > self.rules.max_runs
        ):
            raise TooManyRuns
        is_changed, failed = False, set[int]()
        for run, threads in moved:
            if threads:
                run.threads = threads
                is_changed = is_changed or run.is_decided
            else:
                failed.add(id(run))
        if failed:
            is_changed = True
            runs[:] = [run for run in runs if id(run) not in failed]
        if made:
            runs += made
            is_changed = is_changed or any(run.is_decided for run in made)
            if self._forks:
                runs.sort(key=_get_start)
        if is_changed:
            self._resolve(runs, row[TIME], decisions)

    def _count_ended(self, moved: Iterable[tuple[Run, Threads]], made: Iterable[Run]) -> int:
        """Return how many threads a row has ended by matches that wait for no other run."""
        if self._is_blocking:
            return 0
        changed = [*(threads for _, threads in moved), *(run.threads for run in made)]
        return sum(bool(threads) and threads[-1][1] is None for threads in changed)

    def pass_time(self, runs: list[Run], until_us: int, decisions: list[Decision]) -> None:
        """End the runs whose time has passed at `until_us`, the earliest first."""
        within_us = self._within_us
        assert within_us is not None, "the pattern has a time"
        start_us, at = until_us - within_us, 0
        while at < len(runs) and runs[at].start[TIME] <= start_us:
            run = runs[at]
            if run.is_decided:
                at += 1
                continue
            self._end_run(runs, run, run.start[TIME] + within_us, decisions)
            at = 0

    def finish(self, runs: list[Run], decisions: list[Decision]) -> None:
        """End all runs at the end of the input; without `within` at the time of their last rows."""
        if self._within_us is not None:
            last_us = max((run.start[TIME] for run in runs), default=0)
            self.pass_time(runs, last_us + self._within_us, decisions)
        while run := next((run for run in runs if not run.is_decided), None):
            self._end_run(runs, run, None, decisions)

    def list_option_indexes(self, history: History, options: OptionSet) -> list[int]:
        """Return the places of options among those after the last position of a history."""
        following = self.automaton.following[history[1]]
        return [following.index(option) for option in options.options]

    def find_options(self, history: History, indexes: Iterable[int]) -> OptionSet:
        """Return the options of these places."""
        following = self.automaton.following[history[1]]
        return self._intern(tuple(following[at] for at in indexes))

    def _intern(self, options: tuple[Option, ...]) -> OptionSet:
        found = self._sets.get(options)
        if found is None:
            found = self._sets[options] = OptionSet(options, self._crossed)
        return found

    def _build_after(self, following: tuple[Option, ...]) -> tuple[OptionSet | None, bool]:
        """Return the options of a thread after a position, and whether it is also accepted."""
        accepts = bool(following) and following[-1] == Option(END, "next")
        waiting = following[:-1] if accepts else following
        return self._intern(waiting) if waiting else None, accepts

    def _move_run(self, run: Run, row: Row, fits: int, fork: list[Thread]) -> Threads | None:
        """Return the threads that a row makes of a run; None if it leaves them alone."""
        options = run.options
        if options is None:
            return None
        if run.others:
            return self._move_threads(run.threads, row, fits, fork)
        move = self._find_move(options, run.history, row, fits)
        if move.is_idle:
            return None
        if move.steps and move.only_position == END:
            return self._move_threads(run.threads, row, fits, fork)
        if not move.steps:
            return ()
        return (((run.history, move.only_position, row), move.only_options),)

    def _move_threads(self, before: Threads, row: Row, fits: int, fork: list[Thread]) -> Threads:
        """Return the threads that a row makes of those of a run; `fork` takes those of another."""
        threads = list[Thread]()
        for thread in before:
            history, options = thread
            if options is None:
                threads.append(thread)
                break
            move = self._find_move(options, history, row, fits)
            if move.is_idle:
                threads.append(thread)
                continue
            if self._apply_move(move, history, row, threads, fork):
                break
        if not self._crossed and len(fork) > 1:
            fork[:] = _drop_repeated(fork)
        is_alone = self._crossed or len(threads) < 2
        return tuple(threads if is_alone else _drop_repeated(threads))

    def _apply_move(
        self,
        move: Move,
        history: History,
        row: Row,
        threads: list[Thread],
        fork: list[Thread],
    ) -> bool:
        """Add the threads of a move; whether one of them is accepted, so that no more count."""
        for step in move.steps:
            if isinstance(step, OptionSet):
                threads.append((history, step))
                continue
            position, is_optional = step
            if is_optional and self._forks:
                if not fork or fork[-1][1] is not None:
                    self._take(position, history, row, fork)
            elif self._take(position, history, row, threads):
                return True
        return False

    def _take(
        self, position: int, history: History | None, row: Row, threads: list[Thread]
    ) -> bool:
        """Add the threads after a position has taken a row; whether one of them is accepted."""
        waiting, accepts = self._after[position]
        longer = (history, position, row)
        if waiting is not None:
            threads.append((longer, waiting))
        if accepts:
            threads.append((longer, None))
        return accepts

    def _start_threads(self, row: Row, fits: int) -> Threads:
        """Return the threads of a run that starts with a row."""
        fits &= self.start.mask
        for variable in self.start.crossed:
            if fits >> variable & 1 and not self._is_true(variable, None, row):
                fits ^= 1 << variable
        threads: list[Thread] = []
        for position in self._list_starts(fits):
            if self._take(position, None, row, threads):
                break
        return tuple(threads)

    def _list_starts(self, fits: int) -> tuple[int, ...]:
        positions = self._starts.get(fits)
        if positions is None:
            fitting = (o.position for o in self.start.options if fits >> o.variable & 1)
            positions = self._starts[fits] = tuple(dict.fromkeys(fitting))
        return positions

    def _find_move(self, options: OptionSet, history: History, row: Row, fits: int) -> Move:
        for variable in options.crossed:
            if fits >> variable & 1 and not self._is_true(variable, history, row):
                fits ^= 1 << variable
        return self.find_move(options, fits)

    def _is_true(self, variable: int, history: History | None, row: Row) -> bool:
        assert self._test is not None, "there is a test for crossed variables"
        return self._test(variable, history, row)

    def _build_move(self, options: OptionSet, fits: int) -> Move:
        """Return what a row that fits these variables makes of a thread."""
        left = [o for o in options.options if o.negated == NO_VARIABLE or not fits >> o.negated & 1]
        taken = dict[int, Option]()
        for option in left:
            if option.position != END and fits >> option.variable & 1:
                taken.setdefault(option.position, option)
        waiting = tuple(o for o in left if o.position == END or o.sign != "next")
        if not taken:
            is_idle = waiting == options.options
            return Move((self._intern(waiting),) if waiting else (), is_idle)
        if all(option.sign == "every" for option in taken.values()):
            ends = waiting[:1] if waiting and waiting[0].position == END else ()
            sets = [self._intern(each) if each else None for each in (ends, waiting[len(ends) :])]
            takes = [(position, True) for position in taken]
            steps = (sets[0], *takes, sets[1])
            return Move(tuple(each for each in steps if each is not None), is_idle=False)
        found = list[tuple[int, bool] | OptionSet]()
        for option in left:
            if option.position == END:
                found.append(self._intern((option,)))
            elif taken.pop(option.position, None) is not None:
                found.append((option.position, False))
        match found:
            case [(int() as position, False)] if not all(self._after[position]):
                return Move(tuple(found), False, position, self._after[position][0])
        return Move(tuple(found), is_idle=False)

    def _end_run(
        self, runs: list[Run], run: Run, time_us: int | None, decisions: list[Decision]
    ) -> None:
        """End a run at its time, or at the end of the input."""
        ended = (h for h, options in run.threads if options is None or options.may_end)
        history = next(ended, None)
        if history is None:
            decisions.append(_decide(run.history, time_us, is_complete=False))
            runs.remove(run)
        else:
            run.threads = ((history, None),)
        self._resolve(runs, time_us, decisions)

    def _resolve(self, runs: list[Run], time_us: int | None, decisions: list[Decision]) -> None:
        """Emit the matches that are decided, as far as no run before them may drop them."""
        at = 0
        while at < len(runs):
            run = runs[at]
            if not run.is_decided:
                if self._is_blocking:
                    return
                at += 1
                continue
            del runs[at]
            decisions.append(_decide(run.history, time_us))
            if self._is_blocking:
                first = self._find_next_start(run, run.history)
                runs[at:] = [other for other in runs[at:] if other.start[AT] >= first]

    def _find_next_start(self, run: Run, history: History) -> int:
        """Return the first place at which a match after this one may start."""
        if self.rules.skip == "past_last":
            return int(history[2][AT]) + 1
        places = [
            row[AT]
            for position, row in list_rows(history)
            if self.automaton.variables[position] == self.rules.skip_to
        ]
        after_start = int(run.start[AT]) + 1
        if not places:
            return after_start
        place = places[0] if self.rules.skip == "first" else places[-1]
        return max(after_start, int(place))


def _decide(history: History, time_us: int | None, *, is_complete: bool = True) -> Decision:
    at_us = int(history[2][TIME]) if time_us is None else time_us
    return Decision(at_us, history, is_complete)


def _build_run(start: Row, threads: Sequence[Thread]) -> Run:
    return Run(start, *threads[0], tuple(threads[1:]))


def _get_start(run: Run) -> int:
    return int(run.start[AT])


def _drop_repeated(threads: list[Thread]) -> list[Thread]:
    """Return the threads whose options no preferred thread has: all that may follow is the same."""
    seen, kept = set[int](), list[Thread]()
    for thread in threads:
        if thread[1] is None or id(thread[1]) not in seen:
            seen.add(id(thread[1]))
            kept.append(thread)
    return kept
