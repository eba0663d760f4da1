"""The model of the generated cell class: a dict of states, changed by plain functions.

It has no slots, no generated source and no heap of timers. A container is read as a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core.process.declarations import Declared, Kind
from headrace.core.process.value_conversion import ConversionError, build_converter, format_value
from headrace.core.types.data_types import Array, Struct, Type

NEVER_US = 1 << 62
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class PlainCell:
    """The state of a key: of a value or an entry, it stores what was written and until when.

    `get_event_us` and `get_wall_us` return the current time of each clock.
    """

    def __init__(
        self,
        states: Mapping[str, Declared],
        get_event_us: Callable[[], int],
        get_wall_us: Callable[[], int],
    ) -> None:
        self.states = states
        self.clocks = get_event_us, get_wall_us
        self.stored: dict[str, Any] = {}
        for name, declared in states.items():
            match declared.kind:
                case Kind.VALUE:
                    until = NEVER_US if declared.ttl_us is None else -1
                    self.stored[name] = deepcopy(declared.default), until
                case Kind.LIST:
                    self.stored[name] = []
                case Kind.MAP:
                    self.stored[name] = {}
                case Kind.TIMER:
                    self.stored[name] = None

    def read(self, name: str) -> Any:
        """Return a state: what has not expired of it."""
        declared = self.states[name]
        match declared.kind:
            case Kind.LIST:
                return [value for value, _ in self._drop_expired(name)]
            case Kind.MAP:
                return {key: value for key, (value, _) in self._drop_expired(name).items()}
            case Kind.TIMER:
                at_us = self.stored[name]
                return None if at_us is None else EPOCH + at_us * MICROSECOND
        value, until = self.stored[name]
        if until >= self._now_us(name):
            return value
        if declared.default is not None and isinstance(declared.types[0], Array | Struct):
            self.write(name, deepcopy(declared.default))
            return self.stored[name][0]
        return declared.default

    def write(self, name: str, value: Any) -> None:
        """Set a state; None empties a list or map, and deletes a timer."""
        declared = self.states[name]
        match declared.kind:
            case Kind.TIMER:
                self.stored[name] = self._convert_time(name, value)
            case Kind.LIST:
                self._check_container(name, value, str | bytes | Mapping)
                self.stored[name] = [self._build_entry(name, each) for each in value or ()]
            case Kind.MAP:
                self._check_container(name, value, str | bytes)
                try:
                    pairs = dict(value or ())
                except (TypeError, ValueError):
                    raise self._reject(name, value) from None
                entries = {}
                for key, each in pairs.items():
                    converted = self._convert(name, declared.types[0], key)
                    entries[converted] = self._build_entry(name, each)
                self.stored[name] = entries
            case _:
                value, until = self._build_entry(name, value)
                is_expired = value is None and declared.ttl_us is not None
                self.stored[name] = value, -1 if is_expired else until

    def append(self, name: str, value: Any) -> None:
        """Append to a list."""
        self._drop_expired(name).append(self._build_entry(name, value))

    def insert(self, name: str, at: int, value: Any) -> None:
        """Insert into a list."""
        self._drop_expired(name).insert(at, self._build_entry(name, value))

    def put(self, name: str, at: Any, value: Any) -> None:
        """Set an element of a list, or an entry of a map."""
        if self.states[name].kind is Kind.MAP:
            at = self._convert(name, self.states[name].types[0], at)
        entry = self._build_entry(name, value)
        self._drop_expired(name)[at] = entry

    def delete(self, name: str, at: Any) -> None:
        """Delete an element of a list, or an entry of a map."""
        del self._drop_expired(name)[at]

    def save(self) -> Any:
        """Return the values to which `restore` can return."""
        return deepcopy(self.stored)

    def restore(self, saved: Any) -> None:
        """Undo all changes since `saved`."""
        self.stored = saved

    def fire(self, before_us: int, *, by_wall: bool) -> Iterator[tuple[int, str]]:
        """Delete and return the timers of a clock that are due before a time, in their order."""
        mine = [
            name
            for name, each in self.states.items()
            if each.kind is Kind.TIMER and each.processing is by_wall
        ]
        due = [
            (self.stored[name], rank, name)
            for rank, name in enumerate(mine)
            if self.stored[name] is not None and self.stored[name] < before_us
        ]
        for at_us, _, name in sorted(due):
            self.stored[name] = None
            yield at_us, name

    def _now_us(self, name: str) -> int:
        return self.clocks[self.states[name].processing]()

    def _drop_expired(self, name: str) -> Any:
        found, now_us = self.stored[name], self._now_us(name)
        if isinstance(found, dict):
            found = {key: each for key, each in found.items() if each[1] >= now_us}
        else:
            found = [each for each in found if each[1] >= now_us]
        self.stored[name] = found
        return found

    def _build_entry(self, name: str, value: Any) -> tuple[Any, int]:
        ttl_us = self.states[name].ttl_us
        converted = self._convert(name, self.states[name].types[-1], value)
        return converted, NEVER_US if ttl_us is None else self._now_us(name) + ttl_us

    def _convert(self, name: str, type: Type, value: Any) -> Any:
        declared = self.states[name]
        try:
            return build_converter(type)(value)
        except ConversionError as error:
            verb = "was set to" if declared.kind is Kind.VALUE else "was handed"
            shown = format_value(value)
            inner = "" if str(error).startswith(shown) else f": {error}"
            raise TypeError(f'state "{name}" is a {declared}, and {verb} {shown}{inner}') from None

    def _convert_time(self, name: str, value: Any) -> int | None:
        if value is None:
            return None
        if not isinstance(value, datetime):
            found = type(value).__name__
            raise TypeError(f'timer "{name}" must be set to a datetime or None, got {found}')
        at_us = (value - EPOCH) // MICROSECOND
        return at_us if self.states[name].processing else max(at_us, self._now_us(name))

    def _check_container(self, name: str, value: Any, wrong: Any) -> None:
        if isinstance(value, wrong) or not isinstance(value, Iterable | None):
            raise self._reject(name, value)

    def _reject(self, name: str, value: Any) -> TypeError:
        shown = format_value(value)
        return TypeError(f'state "{name}" is a {self.states[name]}, and was set to {shown}')
