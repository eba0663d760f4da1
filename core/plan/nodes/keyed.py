"""Keyed operations: operations on the rows of each key, with state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.api.user_code import UserCode
from headrace.core.expressions.typed import TypedExpression, find_columns
from headrace.core.plan.nodes.matches import Match
from headrace.core.plan.nodes.rows import AggregatedColumn, ComputedColumn, Filter
from headrace.core.plan.nodes.windows import Ttl, Window
from headrace.core.process.declarations import Declared
from headrace.core.process.declarations import Kind as StateKind
from headrace.core.types.change_columns import (
    BEFORE,
    CHANGE,
    CHANGE_NUMBER,
    SEQUENCE,
    ChangeForm,
)
from headrace.core.types.data_types import BIGINT, STRING, Field, Schema, Struct
from headrace.core.types.elements import HIDDEN_COLUMNS
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.over_calls import OverExpression, RankFunction
    from headrace.core.aggregates.value_sets import ValueSet


WINDOW_BOUNDS = ("window_start", "window_end")
"""The columns added by windows with a start and an end."""

RANK_COLUMN = "rank"
"""The column added by `top`."""

CHANGE_FIELDS = (
    Field(CHANGE, STRING, nullable=False),
    Field(SEQUENCE, BIGINT, nullable=False),
)
"""The columns of a full changelog, after those of its rows."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregation: one row per key and window; without a window, one per change of a key.

    Output rows have the key's columns, `window_start` and `window_end` if windows have them, then
    the aggregates. `having` reads these columns.
    """

    key: tuple[ComputedColumn, ...]
    window: Window | None
    columns: tuple[AggregatedColumn, ...]
    having: Filter | None = None
    ttl: Ttl | None = None
    changelog_key: tuple[str, ...] | None = None
    """The key of the upserts that it reads; None if it reads other rows."""
    reads_retractions: bool = False
    """Whether it reads rows that are added and removed."""
    emits_empty: bool = False
    """Whether there is a row for no rows, too; then it has neither a key nor a window."""
    has_event_time: bool = False
    """Whether its rows have an event time; of an aggregate that emits a row for no rows."""

    @property
    def stores_rows(self) -> bool:
        """Whether it stores the rows that it reads, each under its key."""
        return self.window is None and self.changelog_key is not None

    @property
    def counts_values(self) -> bool:
        """Whether it stores counted values, because some results cannot be subtracted."""
        if self.window is not None or not self.reads_retractions:
            return False
        calls = (call for column in self.columns for call in column.expression.calls)
        return not all(call.accumulator.is_subtractable for call in calls)

    @property
    def expires_pages(self) -> bool:
        """Whether the pages of a group expire with it."""
        return self.ttl is not None and self.counts_values

    @property
    def value_sets(self) -> Mapping[str, ValueSet]:
        """The sets of counted values that it stores, by the names of their states."""
        if not self.counts_values:
            return {}
        from headrace.core.aggregates.calls import deduplicate_calls
        from headrace.core.aggregates.value_sets import list_value_sets, name_values_state

        sets = list_value_sets(deduplicate_calls(each.expression for each in self.columns))
        return {name_values_state(number): each for number, each in enumerate(sets)}

    @property
    def has_rows_in_windows(self) -> bool:
        """Whether its windows store the rows that it reads, and not partial results."""
        evicts = self.window is not None and self.window.evict is not None
        return evicts or (self.window is not None and self.reads_retractions)

    @property
    def needs_order(self) -> bool:
        """Whether its result depends on the order of rows."""
        evicts = self.window is not None and self.window.evict is not None
        return evicts or any(column.expression.needs_order for column in self.columns)


@dataclass(frozen=True, slots=True)
class Apply:
    """A user-defined function over the rows of each key and window.

    Output rows have the key's columns, `window_start` and `window_end` if windows have them, then
    the columns that the function returns.
    """

    key: tuple[ComputedColumn, ...]
    window: Window
    code: UserCode
    input_columns: Schema
    """The columns that are passed to the function."""
    returns: Schema

    @property
    def ttl(self) -> None:
        """None: a window is dropped when it ends."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """An expression that `top` ranks by, with its direction."""

    value: TypedExpression
    descending: bool
    nulls_last: bool
    text: str

    @property
    def is_constant(self) -> bool:
        """Whether it has the same value for all rows, and so decides nothing."""
        return not find_columns(self.value)


@dataclass(frozen=True, slots=True)
class Top:
    """The first rows of a key (and window), with their `rank`."""

    key: tuple[ComputedColumn, ...]
    window: Window | None
    rows: int
    by: tuple[Ranking, ...]
    ttl: Ttl | None = None
    columns: frozenset[str] | None = None
    """The columns of a row that are stored, because they are read; None: all input columns."""
    changelog_key: tuple[str, ...] | None = None
    """The key of the upserts that it reads; None if it reads other rows."""
    reads_retractions: bool = False
    """Whether it reads rows that are added and removed."""
    time_column: str = ""
    """Of a `dedup` of changes: the column with the event time of its rows, which have no rank."""
    ties: RankFunction = "row_number"
    """The ranks of rows with equal values of `by`; `row_number` gives each row its own."""

    @property
    def has_ties(self) -> bool:
        """Whether several rows of a group may have the same rank."""
        return self.ties != "row_number"

    @property
    def stores_rows(self) -> bool:
        """Whether it stores all rows that it reads, and not only the first ones."""
        changes = self.reads_retractions or self.changelog_key is not None
        return changes and self.window is None

    @property
    def stores_pages(self) -> bool:
        """Whether it stores rows in pages, in the order of their ranks."""
        return self.window is None and (self.reads_retractions or self.has_ties)

    @property
    def expires_pages(self) -> bool:
        """Whether the pages of a group expire with it."""
        return self.ttl is not None and self.stores_pages

    def stores_column(self, column: str) -> bool:
        """Whether a column of its rows is stored."""
        return self.columns is None or column in self.columns or column in HIDDEN_COLUMNS


@dataclass(frozen=True, slots=True)
class ChangeOrder:
    """The order of the changes of a table, of which the last one of each key counts."""

    by: Literal["sequence", "place", "arrival"]
    """The sequence of a change, then its place among all rows; its place; or its arrival."""
    sequence: ComputedColumn | None = None
    orders_rows: bool = False
    """Whether the rows of the table have the order of their sequence, not of their event time."""

    def without_arrival(self) -> ChangeOrder:
        """Return the order in which the place of a change stands for its arrival."""
        return replace(self, by="place") if self.by == "arrival" else self


@dataclass(frozen=True, slots=True)
class Dedup:
    """One row per key: the first, or the last, which replaces the rows before it."""

    key: tuple[ComputedColumn, ...]
    keep: Literal["first", "last"]
    ttl: Ttl | None = None
    uses_event_time: bool = False
    """Whether the order is event time: rows wait until the watermark has passed them."""
    late_to: str | None = None
    row: Schema = field(default_factory=lambda: Schema(()))
    """The columns of its rows."""
    columns: frozenset[str] | None = None
    """The columns of waiting rows that are stored, because they are read; None: all of them."""
    changes: ChangeOrder | None = None
    """The order of the rows if they are the changes of a table, among them deletes."""

    @property
    def remembers_changes(self) -> bool:
        """Whether it stores the last change of each key."""
        return self.changes is not None and self.changes.by != "arrival"

    def stores_column(self, column: str) -> bool:
        """Whether a column of its rows is stored."""
        return self.columns is None or column in self.columns or column in HIDDEN_COLUMNS


@dataclass(frozen=True, slots=True)
class OverColumn:
    """A column that `over` adds: its name, its expression, and the text of that."""

    name: str
    expression: OverExpression
    text: str


@dataclass(frozen=True, slots=True)
class Over:
    """Columns added to each row, computed from the rows of its key in the order of event time.

    A row waits until the watermark has passed it, and for the rows after it that a column needs.
    With `ttl`, a key begins again with the first row after a longer time without rows.
    """

    key: tuple[ComputedColumn, ...]
    columns: tuple[OverColumn, ...]
    row: Schema
    """The columns of its input rows."""
    ttl: Ttl | None = None
    late_to: str | None = None
    stored_columns: frozenset[str] | None = None
    """The columns of a row that are stored, because they are read; None: all input columns."""

    @property
    def window(self) -> None:
        """None: it has no window."""

    def stores_column(self, column: str) -> bool:
        """Whether a column of its rows is stored."""
        return (
            self.stored_columns is None or column in self.stored_columns or column in HIDDEN_COLUMNS
        )


@dataclass(frozen=True, slots=True)
class ChangelogConversion:
    """The conversion of upserts into retractions, or the reverse, by the key of their rows.

    The plan adds it where the two kinds meet. The current row of each key is stored. With `form`,
    the changes are emitted as a sink writes them, each with the row that it replaces.
    """

    key: tuple[ComputedColumn, ...]
    output: Literal["retract", "upsert", "counted"]
    """`counted`: retractions without a key, whose equal rows are counted; only with a form."""
    columns: Schema
    """The columns of the rows; all of them are stored."""
    has_event_time: bool
    form: ChangeForm | None = None

    @property
    def added_columns(self) -> tuple[Field, ...]:
        """The columns that describe the change."""
        match self.form:
            case "full":
                return CHANGE_FIELDS
            case "debezium":
                before = Field(BEFORE, Struct(self.columns.fields))
                return (before, Field(CHANGE_NUMBER, BIGINT, nullable=False))
        return ()

    @property
    def window(self) -> None:
        """None: it has no window."""

    @property
    def ttl(self) -> None:
        """None: a row is stored until a change deletes it."""


@dataclass(frozen=True, slots=True)
class ProcessBody:
    """A user-defined class as `process` runs it: its outputs and its states."""

    file: str
    name: str
    returns: Schema
    outputs: tuple[tuple[str, Schema], ...]
    """The named outputs, with their columns."""
    uses_event_time: bool
    """Whether rows are passed in the order of event time, for which they wait."""
    states: tuple[tuple[str, Declared], ...]
    """Its states and timers by name, in the order of their declaration."""

    @property
    def uses_wall_clock(self) -> bool:
        """Whether any of its states or timers uses the wall clock."""
        return any(declared.processing for _, declared in self.states)

    @property
    def timers(self) -> tuple[tuple[str, Declared], ...]:
        """The timers among its states."""
        return tuple(
            (name, declared) for name, declared in self.states if declared.kind is StateKind.TIMER
        )


@dataclass(frozen=True, slots=True)
class Process:
    """A user-defined class over the rows of each key."""

    key: tuple[ComputedColumn, ...]
    columns: Schema
    """The input columns."""
    has_event_time: bool
    body: ProcessBody
    late_to: str | None = None
    reads_changes: bool = False
    """Whether its rows are facts about changes."""

    @property
    def window(self) -> None:
        """None: it has no window."""

    @property
    def ttl(self) -> None:
        """None: each of its states has its own ttl."""


WindowedOperation: TypeAlias = Aggregate | Apply | Top
"""An operation on the rows of a key and window."""

KeyedOperation: TypeAlias = (
    Aggregate | Apply | Top | Dedup | Over | Match | Process | ChangelogConversion
)
"""An operation with keyed state; its step reads rows that are hashed by its key."""
