"""The node of `match`: a pattern over the rows of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import (
    ColumnReference,
    Constant,
    FunctionCall,
    TypedExpression,
    find_columns,
)
from headrace.core.plan.nodes.rows import AggregatedColumn, ComputedColumn
from headrace.core.types.data_types import BIGINT, STRING, TIMESTAMP, Field, Schema
from headrace.core.types.elements import HIDDEN_COLUMNS
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression
    from headrace.core.patterns.pattern import Pattern
    from headrace.core.patterns.runs import SkipRule

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

SKIP_RULES: Mapping[str, SkipRule] = {
    "past_last": "past_last",
    "next": "next",
    "first": "first",
    "last": "last",
    "none": "none",
}


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

    @property
    def references(self) -> frozenset[str]:
        """The variables whose rows it reads."""
        conditions = (call.condition for call in self.value.calls if call.condition)
        return frozenset(find_filter_variable(each.typed) for each in conditions)

    @property
    def is_crossed(self) -> bool:
        """Whether it reads the rows matched before, besides the tested one."""
        return bool(self.value.calls)


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
    """The columns of a waiting row that are stored, because they are read; None: all of them."""
    stores_rows: bool = False
    """Whether matched rows are stored as a whole, since rules with other patterns share a table."""

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
    def read_columns(self) -> frozenset[str]:
        """The columns of matched rows that conditions and results read."""
        typed = (*(c.value for c in self.conditions), *(c.expression for c in self.emit))
        calls = (call for each in typed for call in each.calls)
        return frozenset().union(*(call.input_columns for call in calls)) - {VARIABLE}

    @property
    def tested_columns(self) -> frozenset[str]:
        """The columns of a row that conditions read when it is tested."""
        names = {field.name for field in self.row}
        found = (find_columns(condition.value.finish) for condition in self.conditions)
        return frozenset().union(*found) & names

    @property
    def matched_row(self) -> Schema:
        """The columns that are stored of matched rows."""
        crossed = (find_columns(c.value.finish) for c in self.conditions if c.is_crossed)
        read = self.read_columns.union(*crossed)
        return Schema(
            tuple(
                field
                for field in self.row
                if field.name in read
                or ((self.all_rows or self.stores_rows) and self.stores_column(field.name))
            )
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of its rows."""
        if self.all_rows:
            keys = {each.name for each in self.key}
            others = (field for field in self.matched_row if field.name not in keys)
            return (*self._key_fields, *MATCH_BOUNDS, VARIABLE_FIELD, *others)
        emitted = (
            Field(each.name, each.expression.type, each.expression.finish.nullable)
            for each in self.emit
        )
        return (*self._key_fields, *MATCH_BOUNDS, *emitted)

    @property
    def schema(self) -> Schema:
        """The columns of its rows, each name once."""
        return Schema(tuple({field.name: field for field in self.fields}.values()))

    @property
    def incomplete_schema(self) -> Schema:
        """The columns of its partial matches."""
        emitted = (Field(e.name, e.expression.type, nullable=True) for e in self.emit)
        return Schema((*self._key_fields, *INCOMPLETE_FIELDS, *emitted))

    @property
    def _key_fields(self) -> Iterator[Field]:
        return (Field(each.name, each.value.type, each.value.nullable) for each in self.key)


def find_filter_variable(condition: TypedExpression) -> str:
    """Return the variable of a filter `__variable = 'x'`."""
    match condition:
        case FunctionCall(
            arguments=(ColumnReference(name="__variable"), Constant(value=str(name)))
        ):
            return name
    raise AssertionError(condition)
