"""The node of `match`: a pattern over the rows of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.patterns.pattern import Pattern
from headrace.core.plan.nodes.rows import ComputedColumn
from headrace.core.types.data_types import BIGINT, STRING, TIMESTAMP, Field, Schema
from headrace.core.types.elements import HIDDEN_COLUMNS
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression
    from headrace.core.plan.nodes.keyed import AggregatedColumn

VARIABLE = "__variable"
"""The column with the variable that a row was matched as, which the calls of aggregates filter by.
"""
MATCH_BOUNDS = (
    Field("match_start", TIMESTAMP, nullable=False),
    Field("match_end", TIMESTAMP, nullable=False),
)
"""The event times of the first and the last row of a match."""
VARIABLE_FIELD = Field("variable", STRING, nullable=False)
"""With `all_rows`: the variable of a row."""
INCOMPLETE_FIELDS = (
    MATCH_BOUNDS[0],
    Field("reached", STRING, nullable=False),
    Field("rows", BIGINT, nullable=False),
)
"""The columns of a partial match: its start, the last variable with rows, and how many it has."""

SkipRule: TypeAlias = Literal["past_last", "next", "first", "last", "none"]


@dataclass(frozen=True, slots=True)
class AfterMatch:
    """The row from which the next match may start.

    `past_last`: the row after the last matched one; `next`: the row after the first matched one;
    `first`, `last`: the first or last row of the variable, and `next` if it has none or that is
    the start; `none`: all matches are emitted, whatever rows they share.
    """

    rule: SkipRule = "past_last"
    variable: str | None = None

    def __str__(self) -> str:
        return self.rule if self.variable is None else f"{{{self.rule}: {self.variable}}}"


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """The condition of a variable; a variable without one fits any row.

    `value` is boolean. Outside of its calls it reads the columns of the tested row. Its calls are
    aggregates over the rows that the match has before that row: each has a filter that reads
    VARIABLE, except `count(*)`.
    """

    variable: str
    value: AggregateExpression
    text: str


@dataclass(frozen=True, slots=True)
class Match:
    """A pattern over the rows of each key, in row order.

    Output rows have the key's columns, `match_start` and `match_end`, then those of `emit`; with
    `all_rows` there is one for each matched row: `variable`, then the input's columns.
    """

    key: tuple[ComputedColumn, ...]
    pattern: Pattern
    conditions: tuple[MatchCondition, ...]
    """In the order of the pattern's names."""
    within_us: int | None
    """A row at the time of the first one plus this, or later, is outside of the match."""
    after_match: AfterMatch
    emit: tuple[AggregatedColumn, ...]
    """Aggregates over the rows of the match, as the calls of conditions."""
    all_rows: bool
    row: Schema
    """The columns of its input rows."""
    max_runs: int
    """The largest number of runs of a key; a row with which a key has more fails."""
    late_to: str | None = None
    incomplete_to: str | None = None
    """The stream of partial matches whose time has passed, or that the end of input has ended."""
    stored_columns: frozenset[str] | None = None
    """The columns of a row that are stored, because they are read; None: all input columns."""

    @property
    def window(self) -> None:
        """None: it has no window."""

    @property
    def ttl(self) -> None:
        """None: a run ends with its time."""

    def get_condition(self, variable: str) -> MatchCondition | None:
        """Return the condition of a variable; None if it fits any row."""
        return next((each for each in self.conditions if each.variable == variable), None)

    def stores_column(self, column: str) -> bool:
        """Whether a column of its rows is stored."""
        return (
            self.stored_columns is None or column in self.stored_columns or column in HIDDEN_COLUMNS
        )

    @property
    def incomplete_schema(self) -> Schema:
        """The columns of its partial matches."""
        key = (Field(each.name, each.value.type, each.value.nullable) for each in self.key)
        emitted = (Field(e.name, e.expression.type, nullable=True) for e in self.emit)
        return Schema((*key, *INCOMPLETE_FIELDS, *emitted))
