"""What steps do to rows by their key: each of these keeps state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.elements import HIDDEN
from headrace.core.expressions.typed import Typed
from headrace.core.plan.nodes.rows import Computed, Filter
from headrace.core.plan.windows import Ttl, Window
from headrace.core.process.declared import Declared
from headrace.core.process.declared import Kind as StateKind
from headrace.core.types import Schema
from headrace.core.user_code import UserCode

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression


BOUNDS = ("window_start", "window_end")
"""The columns that windows with a start and an end add."""

RANK = "rank"
"""The column that `top` adds."""


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A column that an aggregating step adds: its name, its expression, and how it was said."""

    name: str
    expression: AggregateExpression
    text: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row a key and window; without a window a row for each change of a key.

    Its rows have the key's columns, `window_start` and `window_end` where windows have them, then
    the aggregates. `having` reads these columns.
    """

    key: tuple[Computed, ...]
    window: Window | None
    columns: tuple[Aggregated, ...]
    having: Filter | None = None
    ttl: Ttl | None = None
    changes: tuple[str, ...] | None = None
    """The key of the changes that it reads; None where it reads facts."""

    @property
    def needs_order(self) -> bool:
        """Whether its result depends on the order of rows."""
        evicts = self.window is not None and self.window.evict is not None
        return evicts or any(column.expression.needs_order for column in self.columns)


@dataclass(frozen=True, slots=True)
class Apply:
    """A user's function over the rows of each key and window.

    Its rows have the key's columns, `window_start` and `window_end` where windows have them, then
    the columns that it returns.
    """

    key: tuple[Computed, ...]
    window: Window
    code: UserCode
    of: Schema
    """The columns that the function is handed."""
    returns: Schema

    @property
    def ttl(self) -> None:
        """A window is forgotten when it is over."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What `top` ranks by."""

    value: Typed
    descending: bool
    nulls_last: bool
    text: str


@dataclass(frozen=True, slots=True)
class Top:
    """The first rows of a key (and window), with their `rank`."""

    key: tuple[Computed, ...]
    window: Window | None
    rows: int
    by: tuple[Ranking, ...]
    ttl: Ttl | None = None
    columns: frozenset[str] | None = None
    """The columns that are kept of a row, because they are read; None: all that it comes with."""
    changes: tuple[str, ...] | None = None
    """The key of the changes that it reads; None where it reads facts."""

    def keeps(self, column: str) -> bool:
        """Whether a column of its rows is kept."""
        return self.columns is None or column in self.columns or column in HIDDEN


@dataclass(frozen=True, slots=True)
class Dedup:
    """One row a key: the first that came, or the last, which replaces those before it."""

    key: tuple[Computed, ...]
    keep: Literal["first", "last"]
    ttl: Ttl | None = None
    in_time: bool = False
    """Whether it goes by event time: rows wait until the watermark has passed them."""
    late_to: str | None = None
    columns: frozenset[str] | None = None
    """The columns of rows that wait, because they are read; None: all that they come with."""

    def keeps(self, column: str) -> bool:
        """Whether a column of its rows is kept."""
        return self.columns is None or column in self.columns or column in HIDDEN


@dataclass(frozen=True, slots=True)
class Body:
    """A user's class as `process` runs it: what it puts out, and what it keeps of a key."""

    file: str
    name: str
    returns: Schema
    outputs: tuple[tuple[str, Schema], ...]
    """The named outputs, with their columns."""
    in_time: bool
    """Whether rows come in the order of their event time, for which they wait."""
    states: tuple[tuple[str, Declared], ...]
    """Its states and timers by their names, in the order in which it declares them."""

    @property
    def waits_for_clock(self) -> bool:
        """Whether something of it goes by the wall clock."""
        return any(said.processing for _, said in self.states)

    @property
    def timers(self) -> tuple[tuple[str, Declared], ...]:
        """Its timers."""
        return tuple((name, said) for name, said in self.states if said.kind is StateKind.TIMER)


@dataclass(frozen=True, slots=True)
class Process:
    """A user's class over the rows of each key."""

    key: tuple[Computed, ...]
    columns: Schema
    """The columns that rows come with."""
    timed: bool
    body: Body
    late_to: str | None = None

    @property
    def window(self) -> None:
        """It has none."""

    @property
    def ttl(self) -> None:
        """Each of its states has its own."""


Windowed: TypeAlias = Aggregate | Apply | Top
"""What may be done with the rows of a key and window."""

Keyed: TypeAlias = Aggregate | Apply | Top | Dedup | Process
"""What keeps state by key; its step reads rows that were hashed by that key."""
