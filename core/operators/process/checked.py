"""The states of a cell that validate what is written: values, lists and maps.

Reading them is as fast as reading a plain list or dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

from headrace.core.process.declared import Declared, Kind
from headrace.core.process.fitting import CLASSES, Fit, Unfit, fitting, passes, shown
from headrace.core.types import Type

Write: TypeAlias = Callable[[Any, Any], None]


def fit_of(name: str, declared: Declared, type: Type) -> Fit:
    """Return the conversion of values to the type of a state, whose errors name the state."""
    fit = fitting(type)

    def convert(value: Any) -> Any:
        try:
            return fit(value)
        except Unfit as error:
            verb = {Kind.LIST: "was handed", Kind.MAP: "was handed"}.get(
                declared.kind, "was set to"
            )
            message = f'state "{name}" is a {declared}, and {verb} {shown(value)}'
            raise TypeError(f"{message}{_inside(value, error)}") from None

    return convert


def _inside(value: object, error: Unfit) -> str:
    """Return the error of the nested value, if not the whole value is invalid."""
    return "" if str(error).startswith(shown(value)) else f": {error}"


def written(name: str, declared: Declared, beginning: Any) -> property:
    """Return the property of a value without TTL, or of a list or a map, in a slot."""
    write = (
        _value(name, declared)
        if declared.kind is Kind.VALUE
        else _container(name, declared, beginning)
    )
    return property(attrgetter(f"_of_{name}"), write)  # no other getter in Python is as fast


def _value(name: str, declared: Declared) -> Write:
    (type,) = declared.types
    scope = {"fit": fit_of(name, declared, type), "kind": CLASSES.get(type)}
    test = passes(type, "kind")
    exec(
        f"def write(cell, value):\n cell._of_{name} = value if {test} else fit(value)",
        scope,
    )
    return scope["write"]  # type: ignore[return-value]


def _container(name: str, declared: Declared, beginning: Any) -> Write:
    # Setting a container writes all its elements.
    of, is_map = f"_of_{name}", declared.kind is Kind.MAP

    def write(cell: Any, value: Any) -> None:
        if value is getattr(cell, of):
            return
        new = beginning()
        wrong = str | bytes if is_map else str | bytes | Mapping
        if isinstance(value, wrong) or not isinstance(value, Iterable | None):
            raise TypeError(f'state "{name}" is a {declared}, and was set to {shown(value)}')
        (new.update if is_map else new.extend)(value or ())
        setattr(cell, of, new)

    return write


def list_kind(fit: Fit) -> type[list[Any]]:
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


def map_kind(fit_key: Fit, fit: Fit) -> type[dict[Any, Any]]:
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
