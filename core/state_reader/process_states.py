"""The state of user-defined classes as rows for people.

Values and timers follow the columns of their key; a state that is shared by all keys has none.

    value        `value`, and `until` where it has a ttl
    list         a row for each element, numbered from 1
    map          a row for each entry, with its `key`
    timer        the time at which it fires
    held         the rows that wait for the watermark, in the order of their event times
    due, waits   the times under which timers are filed; a timer that was reset may be there twice
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, SLOT
from headrace.core.operators.process.cell_cache import VALUE_COLUMN, get_column_type
from headrace.core.operators.process.timers import TIMER_NAME
from headrace.core.plan import nodes
from headrace.core.plan.states import EVENT_TIMERS, HELD_RIGHT_ROWS, HELD_ROWS, WALL_CLOCK_TIMERS
from headrace.core.process.declarations import Declared, Kind
from headrace.core.state_reader.columns import make_unique_name
from headrace.core.state_reader.keys import decode_keys
from headrace.core.state_reader.state_schema import StateKey
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, HIDDEN_COLUMNS

if TYPE_CHECKING:
    import polars as pl

ENTRY_COLUMN, ELEMENT_COLUMN = "__entry", "__each"


class ProcessStateReader:
    """The reader of one step's user-defined state."""

    def __init__(self, operation: nodes.Process, key: StateKey) -> None:
        self._states = dict(operation.body.states)
        self._columns = {f.name: to_polars(f.type) for f in operation.columns}
        self._key = key
        self._inside = tuple(f"__k{at}" for at in range(len(key.names)))

    def list_identity_columns(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row of a state."""
        declared = self._states.get(name)
        if declared is None:
            return tuple(self.read(name, []).columns)
        names = self._list_key_names(declared)
        match declared.kind:
            case Kind.LIST:
                return (*names, make_unique_name("row", names))
            case Kind.MAP:
                return (*names, make_unique_name("key", names))
        return names

    def read(self, name: str, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the rows of a state."""
        import polars as pl

        whole = pl.concat(frames, how="diagonal") if frames else self._build_empty_state(name)
        if name in (HELD_ROWS, HELD_RIGHT_ROWS):
            return show_waiting_rows(whole, self._inside)
        if name in (EVENT_TIMERS, WALL_CLOCK_TIMERS):
            return self._read_timers(whole)
        declared = self._states[name]
        keys = [] if declared.shared else list(decode_keys(whole[KEY], self._key.columns))
        rows = pl.DataFrame([*keys, whole[VALUE_COLUMN].alias(ELEMENT_COLUMN)])
        if declared.kind in (Kind.LIST, Kind.MAP):
            return self._explode_elements(declared, rows)
        shown = make_unique_name(
            "at" if declared.kind is Kind.TIMER else VALUE_COLUMN, self._list_key_names(declared)
        )
        rows = rows.rename({ELEMENT_COLUMN: shown})
        if EXPIRY not in whole.columns:
            return rows
        until = whole[EXPIRY].cast(to_polars(TIMESTAMP))
        return rows.with_columns(until.alias(make_unique_name("until", rows.columns)))

    def _list_key_names(self, declared: Declared) -> tuple[str, ...]:
        """Return the columns in front: those of the key."""
        return () if declared.shared else self._key.names

    def _explode_elements(self, declared: Declared, rows: pl.DataFrame) -> pl.DataFrame:
        """Return a row for each element of a list, or entry of a map."""
        import polars as pl

        number = pl.int_ranges(1, pl.col(ELEMENT_COLUMN).list.len() + 1, dtype=pl.Int32)
        whole = rows.with_columns(number.alias(ENTRY_COLUMN)).explode(
            ELEMENT_COLUMN, ENTRY_COLUMN, empty_as_null=False
        )
        element = pl.col(ELEMENT_COLUMN)
        parts = {"row": pl.col(ENTRY_COLUMN), VALUE_COLUMN: element}
        if declared.kind is Kind.MAP:
            parts = {
                "key": element.struct.field("key"),
                VALUE_COLUMN: element.struct.field(VALUE_COLUMN),
            }
        if declared.ttl_us is not None:
            until = element.struct.field("until").cast(to_polars(TIMESTAMP))
            parts |= {VALUE_COLUMN: element.struct.field(VALUE_COLUMN), "until": until}
        names = self._list_key_names(declared)
        return whole.select(
            *names, *(expr.alias(make_unique_name(n, names)) for n, expr in parts.items())
        )

    def _read_timers(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return timers with the times at which they are due."""
        names = dict(zip(self._inside, self._key.names, strict=True))
        keys = rows.select(self._inside).rename(names)
        at = rows[SLOT].cast(to_polars(TIMESTAMP))
        timer = rows[TIMER_NAME].alias(make_unique_name("timer", keys.columns))
        shown = make_unique_name("at", keys.columns)
        return keys.with_columns(timer, at.alias(shown)).sort(shown, maintain_order=True)

    def _build_empty_state(self, name: str) -> pl.DataFrame:
        """Return an empty state with the operator's schema."""
        import polars as pl

        types = (to_polars(field.type) for field in self._key.columns)
        key = dict(zip(self._inside, types, strict=True))
        if name in (HELD_ROWS, HELD_RIGHT_ROWS):
            time = {EVENT_TIME: to_polars(TIMESTAMP), SLOT: pl.Int64()}
            return pl.DataFrame(schema={**key, **self._columns, **time})
        if name in (EVENT_TIMERS, WALL_CLOCK_TIMERS):
            return pl.DataFrame(schema={**key, TIMER_NAME: pl.String(), SLOT: pl.Int64()})
        declared = self._states[name]
        until = {} if declared.ttl_us is None else {EXPIRY: pl.Int64()}
        return pl.DataFrame(
            schema={KEY: pl.String(), VALUE_COLUMN: get_column_type(declared), **until}
        )


def show_waiting_rows(rows: pl.DataFrame, inside: Sequence[str]) -> pl.DataFrame:
    """Return rows as they came, with their event times, in the order of these.

    `inside` are the internal names of the key's columns.
    """
    shown = rows.sort(EVENT_TIME, maintain_order=True)
    hidden = {*inside, *HIDDEN_COLUMNS, SLOT}
    visible_rows = shown.select(name for name in shown.columns if name not in hidden)
    return visible_rows.with_columns(
        shown[EVENT_TIME].alias(make_unique_name("event_time", visible_rows.columns))
    )
