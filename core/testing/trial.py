"""Trials of `process` classes over literal rows, watermarks and times, without a pipeline.

    trial = Trial(
        Fraud,
        key="card",
        rows={"card": "string", "amount": "double", "at": "timestamp"},
        event_time="at",
        returns={"card": "string", "why": "string"},
    )
    trial.row(card="a", amount=0.5, at="2026-01-31T08:00:00")
    trial.row(card="a", amount=900.0, at="2026-01-31T08:00:10")
    trial.watermark("2026-01-31T08:01:00")
    assert trial.out == [{"card": "a", "why": "a large payment after a small one"}]

The class is run by the same operator as in a pipeline, with a simple state backend.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headrace.core.api.user_code import UserCode
from headrace.core.expressions.typed import ColumnReference, Span
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import OFFLOAD, Output
from headrace.core.operators.process.factory import build_process, build_two_input_process
from headrace.core.operators.process.process_operator import ProcessOperator, UserCodeContext
from headrace.core.operators.process.user_class import get_states
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import ConnectedMatch
from headrace.core.process.declarations import Declared, Kind
from headrace.core.process.process import Process, to_microseconds
from headrace.core.testing.plain_state import PlainState
from headrace.core.types.data_types import TIMESTAMP, Field, Schema, is_nested, to_polars
from headrace.core.types.elements import EVENT_TIME, HIDDEN_COLUMNS, MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import add_row_order, number_rows
from headrace.core.types.type_parser import parse_type

if TYPE_CHECKING:
    import polars as pl

Columns: TypeAlias = Mapping[str, str]
"""Names and types of columns, written as in a pipeline."""
Moment: TypeAlias = datetime | str
"""A time or its text, such as "2026-01-31T08:00:00"; without a zone it is UTC."""

LATE_STREAM = "late"
START_US = 1_767_225_600_000_000
"""The start of the wall clock: the beginning of the year 2026."""


@dataclass(frozen=True, slots=True)
class LoadedClass(UserCode):
    """A class that is already loaded."""

    loaded_class: type[Process]

    def load(self) -> Any:
        """Return the class."""
        return self.loaded_class


def _locate_class(kind: type[Process]) -> LoadedClass:
    file = Path(inspect.getfile(kind))
    return LoadedClass(file.parent, file.name, kind.__name__, kind)


class Trial:
    """Runs one class. `out` has the rows it emitted, `outputs` those of its named outputs."""

    def __init__(
        self,
        kind: type[Process],
        *,
        key: str | Sequence[str],
        returns: Columns,
        rows: Columns | None = None,
        left: Columns | None = None,
        right: Columns | None = None,
        rules: Columns | None = None,
        outputs: Mapping[str, Columns] | None = None,
        event_time: str | None = None,
        order: Literal["event_time", "arrival"] | None = None,
    ) -> None:
        """Build the operator of the class.

        `rows` has the columns of the input, or `left` and `right` those of two inputs; `rules` has
        the columns of a broadcast, in addition to `rows`. All else is as in a pipeline.
        """
        self.out: list[dict[str, Any]] = []
        self.outputs: dict[str, list[dict[str, Any]]] = {name: [] for name in outputs or {}}
        self.late: list[dict[str, Any]] = []
        """The rows that arrived after the watermark had passed them."""
        self._schemas = _parse_schemas(rows, left, right, rules)
        self._has_rules = rules is not None
        self._event_time = event_time
        self._row_count = 0
        self._now_us = START_US
        names = (key,) if isinstance(key, str) else tuple(key)
        _check_schemas(self._schemas[:1] if self._has_rules else self._schemas, names, event_time)
        in_time = _is_in_event_time(order, event_time)
        self._check_event_time(in_time=in_time)
        named = tuple((name, _parse_schema(columns)) for name, columns in (outputs or {}).items())
        self._declarations = self._get_states(kind)
        code, states = _locate_class(kind), tuple(self._declarations.items())
        body = nodes.ProcessBody(
            code.file, code.name, _parse_schema(returns), named, in_time, states
        )
        user_context = UserCodeContext("trial", code, None, frozenset())
        self._operator = self._build_operator(body, names, user_context)

    def _check_event_time(self, *, in_time: bool) -> None:
        """Check that the inputs have the column of the event time; rules need it only in order."""
        schemas = self._schemas[:1] if self._has_rules and not in_time else self._schemas
        if self._event_time is not None and any(self._event_time not in each for each in schemas):
            raise ValueError(f'event_time: there is no column "{self._event_time}"')

    def _get_states(self, kind: type[Process]) -> Mapping[str, Declared]:
        """Return the states that the class declares; only rules can write shared ones."""
        states = get_states(kind)
        if not self._has_rules and any(declared.shared for declared in states.values()):
            raise TypeError("the class has shared states, which rules write: give columns of rules")
        return states

    def _build_operator(
        self, body: nodes.ProcessBody, key: tuple[str, ...], user_context: UserCodeContext
    ) -> ProcessOperator:
        """Build the operator of the class."""
        context = KeyedContext(
            "trial", PlainState(), lambda: self._now_us, False, frozenset({LATE_STREAM})
        )
        timed = self._event_time is not None
        if len(self._schemas) == 1:
            (schema,) = self._schemas
            process = nodes.Process(_build_key(schema, key), schema, timed, body, LATE_STREAM)
            return build_process(process, context, user_context)
        keys = (key, () if self._has_rules else key)
        left, right = (
            nodes.JoinSide(name, _build_key(schema, of), _build_key(schema, schema.names))
            for name, schema, of in zip(("left", "right"), self._schemas, keys, strict=True)
        )
        matching = ConnectedMatch(body, self._has_rules)
        join = nodes.Join(
            left, right, "inner", matching, None, "", (LATE_STREAM, LATE_STREAM), timed
        )
        return build_two_input_process(join, matching, context, user_context)

    def row(self, **columns: object) -> None:
        """Process a row; columns that are left out are null."""
        self.rows(columns)

    def rows(self, *rows: Mapping[str, object]) -> None:
        """Process rows as one batch."""
        self._collect_outputs(self._operator.process(self._build_frame(rows, self._schemas[0])))

    def left(self, **columns: object) -> None:
        """Process a row of the left input."""
        self.rows(columns)

    def right(self, **columns: object) -> None:
        """Process a row of the right input."""
        if len(self._schemas) == 1 or self._has_rules:
            raise TypeError("the trial has one input: give left and right columns for two")
        self._process_right(columns)

    def rule(self, **columns: object) -> None:
        """Process a row of the broadcast."""
        if not self._has_rules:
            raise TypeError("the trial has no broadcast: give the columns of rules")
        self._process_right(columns)

    def watermark(self, at: Moment) -> None:
        """Advance the watermark: no row with an earlier event time follows."""
        self._collect_outputs(self._operator.advance(_to_us(at)))

    def end(self) -> None:
        """End the input: no row follows."""
        self._collect_outputs(self._operator.advance(MAX_WATERMARK_US))

    def clock(self, at: Moment) -> None:
        """Advance the wall clock to this time; it starts with the year 2026."""
        until_us = _to_us(at)
        while (due_us := self._operator.next_tick_us()) is not None and due_us <= until_us:
            self._now_us = max(self._now_us, due_us)
            self._collect_outputs(self._operator.tick(self._now_us))
        self._now_us = max(self._now_us, until_us)

    def state(self, *key: object) -> Any:
        """Return the state of a key, by the names that the class declares."""
        return self._operator.get_cell(key[0] if len(key) == 1 else key)

    @property
    def shared(self) -> Any:
        """The state shared by all keys, by the names that the class declares."""
        if not self._has_rules:
            raise TypeError("the trial has no broadcast: give the columns of rules")
        return self._operator.shared_cell

    @property
    def metrics(self) -> dict[str, float]:
        """The values of the counters and gauges of the class, by name."""
        return self._operator.metrics.list_all()

    def timers(self, *key: object) -> dict[str, datetime]:
        """Return the timers of a key that are set, with their times."""
        cell = self.state(*key)
        names = (
            name for name, declared in self._declarations.items() if declared.kind is Kind.TIMER
        )
        return {name: at for name in names if (at := getattr(cell, name)) is not None}

    def _process_right(self, columns: Mapping[str, object]) -> None:
        frame = self._build_frame([columns], self._schemas[1])
        self._collect_outputs(self._operator.process_right(frame))

    def _build_frame(self, rows: Sequence[Mapping[str, object]], schema: Schema) -> pl.DataFrame:
        import polars as pl

        alien = [name for row in rows for name in row if name not in schema]
        if alien:
            raise ValueError(f"rows have the columns {', '.join(schema.names)}, got {alien}")
        series = [
            self._build_series(field, [row.get(field.name) for row in rows]) for field in schema
        ]
        frame = pl.DataFrame(series)
        if self._event_time is not None and self._event_time in schema:
            frame = frame.with_columns(frame[self._event_time].alias(EVENT_TIME))
            if frame[EVENT_TIME].null_count():
                raise ValueError(f'"{self._event_time}" is the event time, and may not be None')
        frame = add_row_order(frame, number_rows(0, 0, self._row_count, frame.height))
        self._row_count += frame.height
        return frame

    def _build_series(self, field: Field, values: list[object]) -> pl.Series:
        import polars as pl

        type = to_polars(field.type)
        if isinstance(type, pl.Datetime):
            whole = [None if value is None else _to_us(value) for value in values]  # type: ignore[arg-type]
            return pl.Series(field.name, whole, dtype=pl.Int64).cast(type)
        return pl.Series(field.name, values, dtype=type, strict=True)

    def _collect_outputs(self, found: Iterator[Output]) -> None:
        for stream, frame in found:
            if stream == OFFLOAD and not frame.width:
                continue
            rows = frame.drop(HIDDEN_COLUMNS, strict=False).rows(named=True)
            name = stream.removeprefix("trial.")
            (self.late if stream == LATE_STREAM else self.outputs.get(name, self.out)).extend(rows)


def _parse_schemas(
    rows: Columns | None, left: Columns | None, right: Columns | None, rules: Columns | None
) -> tuple[Schema, ...]:
    """Return the schema of the one input, or of both."""
    if rows is not None and left is None and right is None:
        return tuple(_parse_schema(each) for each in (rows, rules) if each is not None)
    if rows is None and rules is None and left is not None and right is not None:
        return _parse_schema(left), _parse_schema(right)
    raise TypeError("give the columns of rows, perhaps with rules, or those of left and right")


def _is_in_event_time(order: str | None, event_time: str | None) -> bool:
    """Whether rows are processed in the order of event time."""
    found = order or ("event_time" if event_time else "arrival")
    if found not in ("event_time", "arrival"):
        raise ValueError(f'order: wanted "event_time" or "arrival", got "{order}"')
    if found == "event_time" and event_time is None:
        raise ValueError("order: event_time needs a column: give event_time")
    return found == "event_time"


def _check_schemas(schemas: Sequence[Schema], key: Sequence[str], event_time: str | None) -> None:
    """Raise ValueError for what a pipeline refuses too; `schemas` are of the inputs with a key."""
    if not key:
        raise ValueError("state and timers belong to a key: give its columns")
    for name in key:
        types = [field.type for schema in schemas if (field := schema.get(name)) is not None]
        if any(is_nested(type) for type in types):
            raise ValueError(f'key "{name}": wanted a single value, got {types[0]}')
        if len(set(types)) > 1:
            raise ValueError(f'key "{name}" is {types[0]} on the left, and {types[1]} on the right')
    for schema in schemas:
        field = None if event_time is None else schema.get(event_time)
        if field is not None and field.type != TIMESTAMP:
            raise ValueError(f'event_time: "{event_time}" must be a timestamp, got {field.type}')


def _build_key(schema: Schema, names: Sequence[str]) -> tuple[nodes.ComputedColumn, ...]:
    """Return the key that consists of these columns."""
    found = []
    for name in names:
        field = schema.get(name)
        if field is None:
            raise ValueError(f'key: there is no column "{name}"')
        column = ColumnReference(field.type, field.nullable, Span(0, 0), name)
        found.append(nodes.ComputedColumn(name, column))
    return tuple(found)


def _parse_schema(columns: Columns) -> Schema:
    return Schema(tuple(Field(name, *parse_type(text)) for name, text in columns.items()))


def _to_us(at: Moment) -> int:
    return to_microseconds(datetime.fromisoformat(at) if isinstance(at, str) else at)
