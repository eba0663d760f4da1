"""The conditions in time by which a join matches rows of two inputs with equal keys.

All times are in microseconds.
"""

from __future__ import annotations

from typing import TypeAlias

from headrace.core.plan.nodes.keyed import ProcessBody
from headrace.core.plan.nodes.matches import Match
from headrace.core.plan.nodes.rows import ComputedColumn
from headrace.core.plan.nodes.windows import Ttl, Window
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IntervalMatch:
    """An interval join: bounds, both included, of the right row's time minus the left row's time.

    `ttl: 1h` is the same as from -1h to 1h. Without bounds all rows are stored forever.
    """

    least_us: int | None = None
    most_us: int | None = None
    uses_processing_time: bool = False
    """Whether a row's time is its arrival by the wall clock."""


@dataclass(frozen=True, slots=True)
class WindowMatch:
    """A window join: rows of the same window, emitted when the window has ended."""

    window: Window


@dataclass(frozen=True, slots=True)
class AsOfMatch:
    """An as-of join: each left row matches the latest right row that is not later than it.

    With `ttl`, the right row may be at most that much older than the left row. The right input may
    be the changes of a table: then a row is valid at the most until its deletion.
    """

    ttl_us: int | None = None
    sequence: ComputedColumn | None = None
    """The value that orders changes of a row at the same time; None: their position does."""
    has_deletes: bool = False
    """Whether right rows say whether they delete the row with their key."""


@dataclass(frozen=True, slots=True)
class ChangelogMatch:
    """A join of changelogs: the join of the current rows, and the changes of its result.

    `keys` are the columns that identify the rows of each input; they include the join key.
    """

    ttl: Ttl | None = None
    keys: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


@dataclass(frozen=True, slots=True)
class TableMatch:
    """A join of which at least one input is a changelog: the join of the rows that are there.

    Unlike `ChangelogMatch`, rows may be joined by any columns, and need no key. With `ttl`, the
    event times of two rows are at most that much apart, and changes of older rows are late.
    """

    ttl_us: int | None = None
    has_key: bool = True
    """Whether the keys of both inputs may identify the rows of the join."""


@dataclass(frozen=True, slots=True)
class BroadcastMatch:
    """A broadcast join: every subtask stores the whole right input; any condition is possible."""

    key: tuple[ComputedColumn, ...] | None
    """The key by which a right row replaces another; None: rows never replace each other."""
    ttl_us: int | None = None
    """The time for which a right row is valid."""
    uses_event_time: bool = True
    """Whether rows match the right rows valid at their event time, or those that have arrived."""


@dataclass(frozen=True, slots=True)
class ConnectedMatch:
    """Two inputs of a user-defined class, which matches their rows itself."""

    body: ProcessBody
    is_broadcast: bool = False
    """Whether the right input is broadcast to every subtask: its rows are rules for all keys."""


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """Patterns over the rows of the left input, each of which is a rule of the right input.

    A row of the right input adds, replaces or removes the rule of its name.
    """

    match: Match
    """A match without a pattern: all that the rules have in common. Its key ends with the name of
    the rule, and its columns are null."""


JoinMatching: TypeAlias = (
    IntervalMatch
    | WindowMatch
    | AsOfMatch
    | ChangelogMatch
    | TableMatch
    | BroadcastMatch
    | ConnectedMatch
    | RuleMatch
)
