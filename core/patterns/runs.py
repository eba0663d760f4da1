"""The runs of a pattern over the rows of one key, as values.

A run is a start row and its *threads*, ordered by preference: each has the rows that it has
matched and the options for the next one. A thread that has reached the end is accepted, and ends
the list: what is less preferred is of no interest. A run is decided when its first thread is
accepted; a run without threads has failed, and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from headrace.core.patterns.automaton import END, NO_VARIABLE, Option
from headrace.core.types.lazy_dataclass import dataclass

Row: TypeAlias = tuple[Any, ...]
"""A row: its place among the rows of the key, its time in microseconds, and its values."""
AT, TIME = 0, 1
"""The place and the time in a row."""

History: TypeAlias = "tuple[History | None, int, Row]"
"""The rows that a thread has matched: those before, the position of the last one, and that row."""

Thread: TypeAlias = "tuple[History, OptionSet | None]"
"""A history and the options for its next row; None: it is accepted."""

Threads: TypeAlias = "tuple[Thread, ...]"

LoneRun: TypeAlias = "tuple[int, Row, History | None]"
"""The only run of a key, with one thread: the number of its options, its start row, its history."""

RunsOfKey: TypeAlias = "LoneRun | list[Run]"
"""All runs of a key; a list is ordered by their start rows."""

RowTest: TypeAlias = "Callable[[int, History | None, Row], bool]"
"""Tests a row for a variable whose condition reads the rows matched before it."""

SkipRule: TypeAlias = Literal["past_last", "next", "first", "last", "none"]


class OptionSet:
    """Options for the next row of a thread, and what rows make of it, by the variables they fit."""

    __slots__ = ("crossed", "mask", "may_end", "moves", "options")

    def __init__(self, options: tuple[Option, ...], crossed: Iterable[int]) -> None:
        """`crossed` are the variables whose conditions read the rows matched before."""
        self.options = options
        variables = {o.variable for o in options} | {o.negated for o in options}
        read = sorted(variables - {NO_VARIABLE})
        self.mask = sum(1 << variable for variable in read)
        """The variables that matter, as bits."""
        self.crossed = tuple(variable for variable in read if variable in {*crossed})
        self.may_end = any(option.position == END for option in options)
        """Whether the pattern is complete when its time has passed."""
        self.moves: dict[int, Move] = {}


@dataclass(frozen=True, slots=True)
class Move:
    """The threads that a row makes of one thread, in the order of preference.

    Each is a position that takes the row, and whether the row is also left out; or the options that
    are left to a thread without the row.
    """

    steps: tuple[tuple[int, bool] | OptionSet, ...]
    is_idle: bool
    """Whether the thread stays as it is."""
    only_position: int = END
    """The position that takes the row, if one thread with it is all there is; else END."""
    only_options: OptionSet | None = None
    """The options of that thread; None: it is accepted."""


@dataclass(eq=False, slots=True)
class Run:
    """A start row and the threads from it, the preferred one first.

    The preferred thread is flat: the garbage collector looks at every object of every run.
    """

    start: Row
    history: History
    options: OptionSet | None
    others: Threads = ()

    @property
    def threads(self) -> Threads:
        """All threads."""
        return ((self.history, self.options), *self.others)

    @threads.setter
    def threads(self, threads: Threads) -> None:
        self.history, self.options = threads[0]
        self.others = threads[1:]

    @property
    def is_decided(self) -> bool:
        """Whether it has a match that cannot change."""
        return self.options is None


class Decision(NamedTuple):
    """A match, or a partial match that ran out of time, and the time that decided it."""

    time_us: int
    history: History
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class MatchRules:
    """The rules of a pattern apart from its automaton."""

    within_us: int | None = None
    skip: SkipRule = "past_last"
    skip_to: int = NO_VARIABLE
    """The variable of `first` and `last`."""
    max_runs: int = 10_000


def get_first_start(runs: RunsOfKey) -> Row:
    """Return the start row of the first run of a key."""
    return runs[0].start if isinstance(runs, list) else runs[1]


def list_rows(history: History | None) -> list[tuple[int, Row]]:
    """Return the rows of a history with their positions, the first one first."""
    found = list(_walk_back(history))
    found.reverse()
    return found


def _walk_back(history: History | None) -> Iterator[tuple[int, Row]]:
    while history is not None:
        history, position, row = history
        yield position, row
