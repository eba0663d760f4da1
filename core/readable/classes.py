"""The state of user-defined classes as rows for people.

value     the key, `value`, and `until` where it has a ttl list      a row for each element,
numbered from 1 map       a row for each entry, with its `key` timer     the key, and when it fires
held      the rows that wait for the watermark, in the order of their event times shared    a state
for all keys: the same without a key due, waits  the times under which timers are filed; a timer
that was reset may be there twice
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, HIDDEN
from headrace.core.operators.process.due import NAME
from headrace.core.operators.process.kept import VALUE, column
from headrace.core.plan import nodes
from headrace.core.plan.states import DUE, HELD, HELD_RIGHT, WAITS
from headrace.core.process.declared import Declared, Kind
from headrace.core.readable.columns import free
from headrace.core.readable.keys import decoded
from headrace.core.readable.meaning import Key
from headrace.core.state import KEY, SLOT, UNTIL
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

ENTRY, EACH = "__entry", "__each"


class ClassStates:
    """The reader of one step's user-defined state."""

    def __init__(self, operation: nodes.Process, key: Key) -> None:
        self._states = dict(operation.body.states)
        self._columns = {f.name: to_polars(f.type) for f in operation.columns}
        self._key = key
        self._inside = tuple(f"__k{at}" for at in range(len(key.names)))

    def identity(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row of a state."""
        said = self._states.get(name)
        if said is None:
            return tuple(self.read(name, []).columns)
        names = self._names(said)
        match said.kind:
            case Kind.LIST:
                return (*names, free("row", names))
            case Kind.MAP:
                return (*names, free("key", names))
        return names

    def read(self, name: str, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the rows of a state."""
        import polars as pl

        whole = pl.concat(frames, how="diagonal") if frames else self._nothing(name)
        if name in (HELD, HELD_RIGHT):
            return self._held(whole)
        if name in (DUE, WAITS):
            return self._filed(whole)
        said = self._states[name]
        keys = [] if said.shared else list(decoded(whole[KEY], self._key.columns))
        rows = pl.DataFrame([*keys, whole[VALUE].alias(EACH)])
        if said.kind in (Kind.LIST, Kind.MAP):
            return self._elements(said, rows)
        shown = free("at" if said.kind is Kind.TIMER else VALUE, self._names(said))
        rows = rows.rename({EACH: shown})
        if UNTIL not in whole.columns:
            return rows
        until = whole[UNTIL].cast(to_polars(TIMESTAMP))
        return rows.with_columns(until.alias(free("until", rows.columns)))

    def _names(self, said: Declared) -> tuple[str, ...]:
        """Return the columns in front: those of the key."""
        return () if said.shared else self._key.names

    def _elements(self, said: Declared, rows: pl.DataFrame) -> pl.DataFrame:
        """Return a row for each element of a list, or entry of a map."""
        import polars as pl

        number = pl.int_ranges(1, pl.col(EACH).list.len() + 1, dtype=pl.Int32)
        whole = rows.with_columns(number.alias(ENTRY)).explode(EACH, ENTRY, empty_as_null=False)
        element = pl.col(EACH)
        parts = {"row": pl.col(ENTRY), VALUE: element}
        if said.kind is Kind.MAP:
            parts = {"key": element.struct.field("key"), VALUE: element.struct.field(VALUE)}
        if said.ttl_us is not None:
            until = element.struct.field("until").cast(to_polars(TIMESTAMP))
            parts |= {VALUE: element.struct.field(VALUE), "until": until}
        names = self._names(said)
        return whole.select(*names, *(expr.alias(free(n, names)) for n, expr in parts.items()))

    def _held(self, rows: pl.DataFrame) -> pl.DataFrame:
        shown = rows.sort(EVENT_TIME, maintain_order=True)
        inside = {*self._inside, *HIDDEN, SLOT}
        kept = shown.select(name for name in shown.columns if name not in inside)
        return kept.with_columns(shown[EVENT_TIME].alias(free("event_time", kept.columns)))

    def _filed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return timers with the times at which they are due."""
        names = dict(zip(self._inside, self._key.names, strict=True))
        keys = rows.select(self._inside).rename(names)
        at = rows[SLOT].cast(to_polars(TIMESTAMP))
        timer = rows[NAME].alias(free("timer", keys.columns))
        shown = free("at", keys.columns)
        return keys.with_columns(timer, at.alias(shown)).sort(shown, maintain_order=True)

    def _nothing(self, name: str) -> pl.DataFrame:
        """Return an empty state with the operator's schema."""
        import polars as pl

        types = (to_polars(field.type) for field in self._key.columns)
        key = dict(zip(self._inside, types, strict=True))
        if name in (HELD, HELD_RIGHT):
            time = {EVENT_TIME: to_polars(TIMESTAMP), SLOT: pl.Int64()}
            return pl.DataFrame(schema={**key, **self._columns, **time})
        if name in (DUE, WAITS):
            return pl.DataFrame(schema={**key, NAME: pl.String(), SLOT: pl.Int64()})
        said = self._states[name]
        until = {} if said.ttl_us is None else {UNTIL: pl.Int64()}
        return pl.DataFrame(schema={KEY: pl.String(), VALUE: column(said), **until})
