"""The states of a cell that validate what is written: values, lists and maps.

Reading them is as fast as reading a plain list or dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

from headrace.core.process.declared import Declared, Kind
from headrace.core.process.fitting import (
    EXACT_CLASSES,
    ConversionError,
    ValueConverter,
    build_converter,
    build_exact_test,
    format_value,
)
from headrace.core.types import Type

Setter: TypeAlias = Callable[[Any, Any], None]


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

    def write(cell: Any, value: Any) -> None:
        if value is getattr(cell, of):
            return
        new = beginning()
        wrong = str | bytes if is_map else str | bytes | Mapping
        if isinstance(value, wrong) or not isinstance(value, Iterable | None):
            raise TypeError(f'state "{name}" is a {declared}, and was set to {format_value(value)}')
        (new.update if is_map else new.extend)(value or ())
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
