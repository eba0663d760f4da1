"""The cell class of a user class: generated, because user code reads and writes cells for each row.

A cell is an object with all state of a key, as a user class sees it. These functions are generated
as source text, with the names of slots and the test of a type written into it:

- the property of a value, which validates what is written; of a value with a TTL, over two slots:
  the value and its expiry time; and of a timer, over the time that it is set to, and the time of
  its entry in the heap (`timers`);
- the function that creates a cell.

Lists and maps are containers that validate what is written; reading them is as fast as reading a
plain list or dict. Besides its states, a cell has `_id`, the key as user code sees it.

Reading and writing takes a third of the time of a plain class. Its test in
tests/core/operators/process compares the generated class with the plain one, and
`benchmarks/cell_class.py` measures both. The module needs values and their conversion only; clocks
and heaps are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

from headrace.core.errors.problems import suggest_name
from headrace.core.operators.process.state_values import (
    TtlList,
    TtlMap,
    copy_state,
    copy_value,
    is_nested,
)
from headrace.core.process.declarations import Declared, Kind
from headrace.core.process.process import to_datetime, to_microseconds
from headrace.core.process.value_conversion import (
    EXACT_CLASSES,
    ConversionError,
    ValueConverter,
    build_converter,
    build_exact_test,
    format_value,
)
from headrace.core.types.data_types import Type

Setter: TypeAlias = Callable[[Any, Any], None]


class CellClocks(Protocol):
    """The clocks by which states expire and timers are set, in microseconds."""

    @property
    def now_us(self) -> Callable[[], int]:
        """The wall clock."""
        ...

    def get_event_us(self) -> int:
        """Return the current event time."""
        ...


class TimerQueue(Protocol):
    """The timers of one clock."""

    def push(self, at_us: int, cell: Any, name: str) -> None:
        """Add an entry for that time."""
        ...


def build_state_converter(name: str, declared: Declared, type: Type) -> ValueConverter:
    """Return the conversion of values to the type of a state, whose errors name the state."""
    fit = build_converter(type)

    def convert(value: Any) -> Any:
        try:
            return fit(value)
        except ConversionError as error:
            verb = {Kind.LIST: "was handed", Kind.MAP: "was handed"}.get(
                declared.kind, "was set to"
            )
            message = f'state "{name}" is a {declared}, and {verb} {format_value(value)}'
            raise TypeError(f"{message}{_describe_nested(value, error)}") from None

    return convert


def _describe_nested(value: object, error: ConversionError) -> str:
    """Return the error of the nested value, if not the whole value is invalid."""
    return "" if str(error).startswith(format_value(value)) else f": {error}"


def build_property(name: str, declared: Declared, beginning: Any) -> property:
    """Return the property of a value without TTL, or of a list or a map, in a slot."""
    write = (
        _build_value_setter(name, declared)
        if declared.kind is Kind.VALUE
        else _build_container_setter(name, declared, beginning)
    )
    return property(attrgetter(f"_of_{name}"), write)  # no other getter in Python is as fast


def _build_value_setter(name: str, declared: Declared) -> Setter:
    (type,) = declared.types
    scope = {"fit": build_state_converter(name, declared, type), "kind": EXACT_CLASSES.get(type)}
    test = build_exact_test(type, "kind")
    exec(
        f"def write(cell, value):\n cell._of_{name} = value if {test} else fit(value)",
        scope,
    )
    return scope["write"]  # type: ignore[return-value]


def _build_container_setter(name: str, declared: Declared, beginning: Any) -> Setter:
    # Setting a container writes all its elements.
    of, is_map = f"_of_{name}", declared.kind is Kind.MAP

    def reject(value: Any) -> TypeError:
        shown = format_value(value)
        return TypeError(f'state "{name}" is a {declared}, and was set to {shown}')

    def write(cell: Any, value: Any) -> None:
        if value is getattr(cell, of):
            return
        new = beginning()
        wrong = str | bytes if is_map else str | bytes | Mapping
        if isinstance(value, wrong) or not isinstance(value, Iterable | None):
            raise reject(value)
        if is_map:
            try:
                entries = dict(value or ())
            except (TypeError, ValueError) as error:  # no pairs, or a key that has no hash
                raise reject(value) from error
            new.update(entries)
        else:
            new.extend(value or ())
        setattr(cell, of, new)

    return write


def build_list_class(fit: ValueConverter) -> type[list[Any]]:
    """Return a list class that converts its elements."""
    add, put, extend, insert = list.append, list.__setitem__, list.extend, list.insert

    class StateList(list[Any]):
        __slots__ = ()

        def append(self, value: Any) -> None:
            add(self, fit(value))

        def extend(self, values: Iterable[Any]) -> None:
            extend(self, [fit(value) for value in values])

        def insert(self, at: Any, value: Any) -> None:
            insert(self, at, fit(value))

        def __setitem__(self, at: Any, value: Any) -> None:
            put(self, at, [fit(v) for v in value] if isinstance(at, slice) else fit(value))

        def __iadd__(self, values: Iterable[Any]) -> StateList:  # type: ignore[misc]
            self.extend(values)
            return self

    return StateList


def build_map_class(fit_key: ValueConverter, fit: ValueConverter) -> type[dict[Any, Any]]:
    """Return a dict class that converts its keys and values."""
    put = dict.__setitem__

    class StateMap(dict[Any, Any]):
        __slots__ = ()

        def __setitem__(self, key: Any, value: Any) -> None:
            put(self, fit_key(key), fit(value))

        def setdefault(self, key: Any, value: Any = None) -> Any:
            if key not in self:
                self[key] = value
            return self[fit_key(key)]

        def update(self, *others: Any, **named: Any) -> None:
            for key, value in dict(*others, **named).items():
                self[key] = value

        def __ior__(self, other: Any) -> StateMap:  # type: ignore[misc]
            self.update(other)
            return self

    return StateMap


Cell: TypeAlias = Any


States: TypeAlias = Mapping[str, Declared]


NO_PROPERTIES: Mapping[str, property] = {}


CELL_CLASS_NAME = "State"
"""The name of the cell classes."""


class CellBase:
    """The base of all cells."""

    # No __getattr__ for misspelt names: it makes each read 50 % slower.
    __slots__ = ("_id",)


def describe_undeclared(name: str, known: Sequence[str]) -> str:
    """Return the error message for a state that the class does not declare."""
    hint = suggest_name(name, known) or f"it declares {', '.join(known) or 'none'}"
    return f'the class declares no state "{name}": {hint}'


class CellFactory:
    """A factory of cells, which also saves and restores their values."""

    def __init__(
        self,
        states: States,
        clocks: CellClocks,
        timers: TimerQueue,
        waits: TimerQueue,
        more: Mapping[str, property] = NO_PROPERTIES,
    ) -> None:
        """`timers` go by event time, `waits` by the wall clock; `more` are further properties."""
        slots: list[str] = []
        namespace: dict[str, object] = {"_cells": self, **more}
        begin: list[tuple[str, object]] = []
        for name, declared in states.items():
            clock = clocks.now_us if declared.processing else clocks.get_event_us
            if declared.kind is Kind.TIMER:
                slots += [f"_at_{name}", f"_in_{name}"]
                namespace[name] = _build_timer_property(
                    name, waits if declared.processing else timers, clocks, declared
                )
                begin += [(f"_at_{name}", None), (f"_in_{name}", None)]
            elif declared.kind is Kind.VALUE and declared.ttl_us is not None:
                slots += [f"_of_{name}", f"_until_{name}"]
                namespace[name] = _build_ttl_property(name, clock, declared)
                begin += [(f"_of_{name}", None), (f"_until_{name}", None)]
            else:
                slots.append(f"_of_{name}")
                begin.append((f"_of_{name}", _build_initial(name, declared, clock)))
        self._mutable = {
            f"_of_{name}": is_nested(declared.types)
            for name, declared in states.items()
            if declared.kind in (Kind.LIST, Kind.MAP) or is_nested(declared.types)
        }
        self._plain = tuple(name for name in slots if name not in self._mutable)
        kind = type(CELL_CLASS_NAME, (CellBase,), {"__slots__": tuple(slots), **namespace})
        for slot, beginning in begin:
            name = slot.removeprefix("_of_")
            if name in states and not hasattr(kind, name):
                setattr(kind, name, build_property(name, states[name], beginning))
        self.create: Callable[[object], Cell] = _compile_factory(kind, begin)
        """Creates the cell of a key that has no state."""

    def save(self, cell: Cell) -> tuple[list[object], list[Any]]:
        """Return the values from which `restore` can undo changes of the cell."""
        plain = [getattr(cell, name) for name in self._plain]
        return plain, [
            copy_state(getattr(cell, name), nested=nested) for name, nested in self._mutable.items()
        ]

    def restore(self, cell: Cell, saved: tuple[list[object], list[Any]]) -> None:
        """Restore the saved values of the cell."""
        for names, values in ((self._plain, saved[0]), (self._mutable, saved[1])):
            for name, value in zip(names, values, strict=True):
                setattr(cell, name, value)


def _compile_factory(kind: type, begin: list[tuple[str, object]]) -> Callable[[object], Cell]:
    """Generate the function that creates cells, with their slots inlined: it runs for each key."""
    scope: dict[str, Any] = {"__new": kind.__new__, "__kind": kind}
    lines = ["def new(id):", " cell = __new(__kind)", " cell._id = id"]
    for at, (slot, beginning) in enumerate(begin):
        scope[f"__b{at}"] = beginning
        lines.append(f" cell.{slot} = __b{at}{'()' if callable(beginning) else ''}")
    exec("\n".join([*lines, " return cell"]), scope)
    return scope["new"]  # type: ignore[no-any-return]


def _build_initial(name: str, declared: Declared, clock: Callable[[], int]) -> object:
    """Return the initial value of a state, or a callable that creates it."""
    ttl_us = declared.ttl_us
    first, last = (
        build_state_converter(name, declared, type)
        for type in (declared.types[0], declared.types[-1])
    )
    match declared.kind:
        case Kind.LIST:
            return (
                build_list_class(last) if ttl_us is None else partial(TtlList, clock, ttl_us, last)
            )
        case Kind.MAP:
            if ttl_us is None:
                return build_map_class(first, last)
            return partial(TtlMap, clock, ttl_us, first, last)
    if is_nested(declared.types):
        return partial(copy_value, declared.default)
    return declared.default


TTL_VALUE_SOURCE = """
def read(cell):
    until = cell._until_{name}
    if until is not None and until >= clock():
        return cell._of_{name}
    if own:  # a default that can be changed in place must be stored when it is read
        write(cell, copied(default))
        return cell._of_{name}
    return default

def write(cell, value):
    cell._of_{name} = value if {test} else fit(value)
    cell._until_{name} = None if value is None else clock() + ttl_us
"""


def _build_ttl_property(name: str, clock: Callable[[], int], declared: Declared) -> property:
    """Generate the property of a value with a TTL."""
    (type,) = declared.types
    scope = {
        "clock": clock,
        "copied": copy_value,
        "default": declared.default,
        "fit": build_state_converter(name, declared, type),
        "kind": EXACT_CLASSES.get(type),
        "own": declared.default is not None and is_nested(declared.types),
        "ttl_us": declared.ttl_us,
    }
    return _compile_property(
        TTL_VALUE_SOURCE.format(name=name, test=build_exact_test(type, "kind")), scope
    )


TIMER_SOURCE = """
def read(cell):
    return moment(cell._at_{name})

def write(cell, value):
    if value is None:
        cell._at_{name} = None
        return
    at_us = time_of(value)
    cell._at_{name} = at_us
    entry = cell._in_{name}
    if entry is None or at_us < entry:
        cell._in_{name} = at_us
        push(at_us, cell, "{name}")
"""


def _build_timer_property(
    name: str, timers: TimerQueue, clocks: CellClocks, declared: Declared
) -> property:
    """Generate the property of a timer.

    A timer that is set to a past time fires at once, after those of the same time.
    """

    def time_of(value: object) -> int:
        if not isinstance(value, datetime):
            actual = type(value).__name__
            raise TypeError(f'timer "{name}" must be set to a datetime or None, got {actual}')
        return (
            to_microseconds(value)
            if declared.processing
            else max(to_microseconds(value), clocks.get_event_us())
        )

    scope = {"moment": to_datetime, "push": timers.push, "time_of": time_of}
    return _compile_property(TIMER_SOURCE.format(name=name), scope)


def _compile_property(source: str, scope: dict[str, Any]) -> property:
    """Compile a property whose functions name its slots directly: they run for each row."""
    exec(source, scope)
    return property(scope["read"], scope["write"])
