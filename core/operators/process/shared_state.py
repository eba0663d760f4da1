"""The state shared by all keys (broadcast state): one cell per subtask, which `on_rule` writes.

All subtasks get the same rules in the same order, so their shared states are equal. Rules are
handled in one order of time with the rows. A late rule is handled with the next rows instead of
being left out: subtasks would leave out different ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from headrace.core.api.state import EXPIRY, Entries, Redistribution, StepState
from headrace.core.operators.process.call_context import EVERY_KEY, CallContext
from headrace.core.operators.process.cell_cache import (
    NOT_STORED,
    build_column,
    collect_values,
    fill_cells,
)
from headrace.core.operators.process.cell_class import Cell, CellFactory, States
from headrace.core.operators.process.state_values import DictMethods, copy_value, is_nested
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.process.declarations import Declared, Kind


class SharedState:
    """The shared states of a class."""

    def __init__(
        self, states: States, call_context: CallContext, state: StepState, name: str
    ) -> None:
        """`name` is the name of the class in messages."""
        self._states = states
        self._name = name
        none = TimerHeap(())
        self.cell = CellFactory(states, call_context, none, none).create(EVERY_KEY)
        """The cell that `on_rule` writes."""
        self._changed = True
        self._entries: dict[str, Entries] = {}
        for each, declared in states.items():
            entries = self._entries[each] = state.open_entries(each, Redistribution.GROUPS)
            if entries.rows is not None and entries.rows.height:
                until = entries.rows[EXPIRY].to_list() if EXPIRY in entries.rows.columns else None
                fill_cells(each, declared, [self.cell], entries.rows, until)

    @property
    def properties(self) -> Mapping[str, property]:
        """The states as read-only properties of the keys' cells."""
        return {
            name: self._build_property(name, declared) for name, declared in self._states.items()
        }

    def begin_write(self) -> Cell:
        """Return the cell for the rules that are handled next."""
        self._changed = True
        return self.cell

    def flush_to_state(self) -> None:
        """Write the shared state to the state, if rules were handled since."""
        import polars as pl

        if not self._changed:
            return
        self._changed = False
        for name, declared in self._states.items():
            (value,), until = collect_values(name, declared, [self.cell])
            if value is NOT_STORED:
                self._entries[name].rows = None
                continue
            frame = build_column(self._name, name, declared, [value], [self.cell]).to_frame()
            if until is not None:
                frame.insert_column(1, pl.Series(EXPIRY, until, dtype=pl.Int64))
            self._entries[name].rows = frame

    def _build_property(self, name: str, declared: Declared) -> property:
        cell, own = self.cell, is_nested(declared.types)

        def read(_: object) -> Any:
            value = getattr(cell, name)
            if declared.kind is Kind.MAP:
                return MappingProxyType(_CopyingMap(value) if own else value)
            value = copy_value(value) if own else value
            return tuple(value) if declared.kind is Kind.LIST else value

        def write(_: object, value: object) -> None:
            raise TypeError(f'state "{name}" is shared by all keys: only on_rule sets it')

        return property(read, write)


class _CopyingMap(DictMethods):
    """A map that copies its values on access: most rows look at few of many."""

    __slots__ = ("_of",)

    def __init__(self, of: Mapping[Any, Any]) -> None:
        self._of = of

    def __getitem__(self, key: Any) -> Any:
        return copy_value(self._of[key])

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def __repr__(self) -> str:
        return repr(self._of)
