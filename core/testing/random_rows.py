"""Random rows of a source: few different values, nulls, and times near each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from decimal import Decimal as DecimalNumber

from headrace.core.api.window_classes import EPOCH
from headrace.core.expressions import find_columns, to_expr
from headrace.core.plan import nodes
from headrace.core.testing.row_frames import build_frame
from headrace.core.testing.typed_rows import Row, list_record_columns
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT_TYPES,
    INTEGER_TYPES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Array,
    Decimal,
    Field,
    MapType,
    Schema,
    Struct,
    Time,
    Type,
)
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

WORDS = ("a", "b", "c", "d")
NULLS = 0.1
"""The share of nulls among values that may be null."""
SAMPLED = 0.8
"""The share of values that are taken from given rows, if there are any."""
DELETIONS = 0.2
"""The share of deletions among the changes of a key that is there."""
SECOND_US = 1_000_000
TIME_FORMS: Mapping[str, tuple[tuple[Type, ...], Callable[[datetime], object]]] = {
    "time": ((TIMESTAMP,), lambda time: time),
    "local time": ((TIMESTAMP_NTZ,), lambda time: time.replace(tzinfo=None)),
    "seconds": ((BIGINT,), lambda time: int(time.timestamp())),
    "milliseconds": ((BIGINT,), lambda time: int(time.timestamp() * 1000)),
    "microseconds": ((BIGINT,), lambda time: int(time.timestamp() * 1_000_000)),
    "text": ((STRING,), lambda time: time.isoformat().replace("+00:00", "Z")),
    "plain text": ((STRING,), lambda time: time.strftime("%Y-%m-%d %H:%M:%S")),
}
"""The forms in which a record may have its event time."""


class NoEventTime(Exception):
    """No value is known from which a source computes an event time."""


def convert_us(time_us: int) -> datetime:
    """Return the time of a number of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=time_us)


@dataclass(slots=True)
class RandomValues:
    """Draws values of types; the times among them are near a given one."""

    chance: random.Random

    def draw(self, type: Type, time_us: int) -> object:
        """Return a value; None for types of which there are no values in tests."""
        chance = self.chance
        match type:
            case Decimal(precision, scale):
                return DecimalNumber(chance.randrange(min(10**precision, 500))).scaleb(-scale)
            case Time():
                return convert_us(time_us).time().replace(microsecond=0)
            case Array(element):
                return [self.draw(element, time_us) for _ in range(chance.randrange(3))]
            case MapType(key, value):
                keys = [self.draw(key, time_us) for _ in range(chance.randrange(3))]
                return {key: self.draw(value, time_us) for key in keys}
            case Struct(fields):
                return {each.name: self.draw(each.type, time_us) for each in fields}
        return self._draw_atom(type, time_us)

    def _draw_atom(self, type: Type, time_us: int) -> object:
        chance = self.chance
        if type in INTEGER_TYPES:
            return chance.choice((0, 1, 1, 2, 3, 4, 10, 100))
        if type in FLOAT_TYPES:
            return chance.randrange(40) / 4  # sums of quarters are exact in any order
        if type == STRING:
            return chance.choice(WORDS)
        if type == BOOLEAN:
            return chance.random() < 0.5
        if type == BINARY:
            return chance.choice(WORDS).encode()
        near = convert_us(time_us + chance.randrange(-5, 6) * SECOND_US)
        times: dict[Type, object] = {
            DATE: near.date(),
            TIMESTAMP: near,
            TIMESTAMP_NTZ: near.replace(tzinfo=None),
        }
        return times.get(type)


@dataclass(frozen=True, slots=True)
class RowSamples:
    """Given rows of a source: values are taken from them by column, or, `are_whole`, whole rows."""

    rows: Sequence[Row]
    are_whole: bool = False


NO_SAMPLES = RowSamples(())


@dataclass(slots=True)
class RowGenerator:
    """Draws rows of one source, at event times that the caller gives.

    Of a table, a row changes or deletes a key; its sequence grows. Raises NoEventTime if event
    times cannot be chosen.
    """

    source: nodes.Source
    chance: random.Random
    samples: RowSamples = NO_SAMPLES
    columns: Schema = field(init=False)
    """The columns of the drawn rows."""
    _time_column: Field | None = field(init=False, default=None)
    """The column from which the event time is computed."""
    _time_form: str = field(init=False, default="")
    _pools: dict[str, list[object]] = field(init=False, default_factory=dict)
    _keys: list[tuple[object, ...]] = field(init=False, default_factory=list)
    """The keys of a table that have a row."""
    _count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.columns = list_record_columns(self.source)
        for each in self.columns:
            values = [row[each.name] for row in self.samples.rows if each.name in row]
            self._pools[each.name] = [value for value in values if value is not None]
        if self.source.event_time is not None:
            self._time_column, self._time_form = self._find_time_form()

    def draw(self, time_us: int, least_us: int) -> Row:
        """Return a row at an event time; no later row has one before `least_us`."""
        self._count += 1
        if self.samples.are_whole:
            row = dict(self.chance.choice(self.samples.rows))
        else:
            row = {each.name: self._draw_value(each, time_us) for each in self.columns}
        if self._time_column is not None:
            row[self._time_column.name] = encode_time(self._time_form, time_us)
        watermark = self.source.watermark_column
        if watermark is not None and watermark in row:
            row[watermark] = convert_us(least_us)
        if self.source.table is not None:
            self._set_change(row, self.source.table)
        return row

    def _draw_value(self, column: Field, time_us: int) -> object:
        table = self.source.table
        if table is not None and column.name in table.metadata:
            return None
        is_key = table is not None and column.name in table.key
        if column.nullable and not is_key and self.chance.random() < NULLS:
            return None
        pool = self._pools[column.name]
        if pool and self.chance.random() < SAMPLED:
            return self.chance.choice(pool)
        return RandomValues(self.chance).draw(column.type, time_us)

    def _set_change(self, row: Row, table: nodes.SourceTable) -> None:
        """Make a row a change: an upsert, or the deletion of a row that is there."""
        row[CHANGE] = row[DELETE] = None
        if table.sequence is not None:
            for name in find_columns(table.sequence.value):
                row[name] = self._draw_sequence(name)
        key = tuple(row[name] for name in table.key)
        if key in self._keys and self.chance.random() < DELETIONS:
            row[DELETE] = True
            self._keys.remove(key)
        elif key not in self._keys:
            self._keys.append(key)

    def _draw_sequence(self, name: str) -> object:
        """Return a value that is greater than those before."""
        column = self.columns.get(name)
        if column is not None and column.type in INTEGER_TYPES:
            return self._count
        return convert_us(self._count * SECOND_US)

    def _find_time_form(self) -> tuple[Field, str]:
        """Return the column that the event time depends on, and its form. Raises NoEventTime."""
        name = self.source.event_time
        assert name is not None
        if (column := self.columns.get(name)) is not None:
            return column, "time" if column.type == TIMESTAMP else "local time"
        for column in self._list_time_columns():
            for form, (types, _) in TIME_FORMS.items():
                if column.type in types and self._is_time_form(column, form):
                    return column, form
        raise NoEventTime(self.source.name)

    def _list_time_columns(self) -> Iterator[Field]:
        computed = next(c for c in self.source.times if c.name == self.source.event_time)
        for name in sorted(find_columns(computed.value)):
            if (column := self.columns.get(name)) is not None:
                yield column

    def _is_time_form(self, column: Field, form: str) -> bool:
        """Whether the source computes the event times that values in this form stand for."""
        computed = next(c for c in self.source.times if c.name == self.source.event_time)
        wanted = [convert_us(SECOND_US * at) for at in (0, 86_400 * 20_000)]
        rows = [
            {each.name: RandomValues(self.chance).draw(each.type, 0) for each in self.columns}
            | {column.name: TIME_FORMS[form][1](time)}
            for time in wanted
        ]
        frame = build_frame(rows, self.columns)
        try:
            found = frame.select(to_expr(computed.value)).to_series().to_list()
        except Exception:  # whatever the expression raises, it cannot read this form
            return False
        return found == wanted


def encode_time(form: str, time_us: int) -> object:
    """Return the value in a form that stands for a time."""
    return TIME_FORMS[form][1](convert_us(time_us))
