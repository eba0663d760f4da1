"""The functions that declare states and timers in a class, typed for editors.

A type text that is not one of these literals, such as `decimal(10,2)` or `array<int>`, is typed as
Any. `default` is the value before it is set, and after it has expired.
"""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from datetime import date, datetime, timedelta
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

from headrace.core.process.declarations import Declared, Kind, make_shared, parse_declaration

T = TypeVar("T")

Time: TypeAlias = Literal["event", "processing"]
Ttl: TypeAlias = str | timedelta | None
Ints: TypeAlias = Literal["tinyint", "smallint", "int", "bigint"]
Floats: TypeAlias = Literal["float", "double"]
Strings: TypeAlias = Literal["string"]
Booleans: TypeAlias = Literal["boolean"]
Dates: TypeAlias = Literal["date"]
Timestamps: TypeAlias = Literal["timestamp"]
Bytes: TypeAlias = Literal["binary"]


class State(Generic[T]):
    """The descriptor of a state or timer in a class; `state.name` reads and sets it."""

    def __init__(self, declared: Declared) -> None:
        self.declaration = declared
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, state: None, owner: type) -> State[T]: ...

    @overload
    def __get__(self, state: object, owner: type) -> T: ...

    def __get__(self, state: object | None, owner: type) -> State[T] | T:
        if state is None:
            return self
        raise AttributeError(f"state belongs to a key: read it as state.{self.name}, not of self")

    def __set__(self, state: object, value: T) -> None:
        raise AttributeError(f"state belongs to a key: set it as state.{self.name}, not of self")


@overload
def value(type: Ints, *, ttl: Ttl = ..., time: Time = ...) -> State[int | None]: ...


@overload
def value(type: Ints, *, default: int, ttl: Ttl = ..., time: Time = ...) -> State[int]: ...


@overload
def value(type: Floats, *, ttl: Ttl = ..., time: Time = ...) -> State[float | None]: ...


@overload
def value(type: Floats, *, default: float, ttl: Ttl = ..., time: Time = ...) -> State[float]: ...


@overload
def value(type: Strings, *, ttl: Ttl = ..., time: Time = ...) -> State[str | None]: ...


@overload
def value(type: Strings, *, default: str, ttl: Ttl = ..., time: Time = ...) -> State[str]: ...


@overload
def value(type: Booleans, *, ttl: Ttl = ..., time: Time = ...) -> State[bool | None]: ...


@overload
def value(type: Booleans, *, default: bool, ttl: Ttl = ..., time: Time = ...) -> State[bool]: ...


@overload
def value(type: Dates, *, ttl: Ttl = ..., time: Time = ...) -> State[date | None]: ...


@overload
def value(type: Dates, *, default: date, ttl: Ttl = ..., time: Time = ...) -> State[date]: ...


@overload
def value(type: Timestamps, *, ttl: Ttl = ..., time: Time = ...) -> State[datetime | None]: ...


@overload
def value(
    type: Timestamps, *, default: datetime, ttl: Ttl = ..., time: Time = ...
) -> State[datetime]: ...


@overload
def value(type: Bytes, *, ttl: Ttl = ..., time: Time = ...) -> State[bytes | None]: ...


@overload
def value(type: Bytes, *, default: bytes, ttl: Ttl = ..., time: Time = ...) -> State[bytes]: ...


@overload
def value(type: str, *, default: Any = ..., ttl: Ttl = ..., time: Time = ...) -> State[Any]: ...


def value(
    type: str, *, default: object = None, ttl: Ttl = None, time: Time = "event"
) -> State[Any]:
    """Declare one value per key: None, or the default, before it is set.

    `ttl` counts from the last time that it was set.
    """
    return State(parse_declaration(Kind.VALUE, (type,), ttl, time, default))


@overload
def list_of(element: Ints, *, ttl: Ttl = ..., time: Time = ...) -> State[MutableSequence[int]]: ...


@overload
def list_of(
    element: Floats, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableSequence[float]]: ...


@overload
def list_of(
    element: Strings, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableSequence[str]]: ...


@overload
def list_of(
    element: Booleans, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableSequence[bool]]: ...


@overload
def list_of(
    element: Dates, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableSequence[date]]: ...


@overload
def list_of(
    element: Timestamps, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableSequence[datetime]]: ...


@overload
def list_of(
    element: Bytes, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableSequence[bytes]]: ...


@overload
def list_of(element: str, *, ttl: Ttl = ..., time: Time = ...) -> State[MutableSequence[Any]]: ...


def list_of(element: str, *, ttl: Ttl = None, time: Time = "event") -> State[Any]:
    """Declare a list per key, empty at first. `ttl` counts for each element from its addition."""
    return State(parse_declaration(Kind.LIST, (element,), ttl, time))


@overload
def map_of(
    key: Strings, value: Ints, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[str, int]]: ...


@overload
def map_of(
    key: Strings, value: Floats, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[str, float]]: ...


@overload
def map_of(
    key: Strings, value: Strings, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[str, str]]: ...


@overload
def map_of(
    key: Strings, value: Booleans, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[str, bool]]: ...


@overload
def map_of(
    key: Strings, value: Dates, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[str, date]]: ...


@overload
def map_of(
    key: Strings, value: Timestamps, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[str, datetime]]: ...


@overload
def map_of(
    key: Strings, value: Bytes, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[str, bytes]]: ...


@overload
def map_of(
    key: Ints, value: Ints, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[int, int]]: ...


@overload
def map_of(
    key: Ints, value: Floats, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[int, float]]: ...


@overload
def map_of(
    key: Ints, value: Strings, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[int, str]]: ...


@overload
def map_of(
    key: Ints, value: Booleans, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[int, bool]]: ...


@overload
def map_of(
    key: Ints, value: Dates, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[int, date]]: ...


@overload
def map_of(
    key: Ints, value: Timestamps, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[int, datetime]]: ...


@overload
def map_of(
    key: Ints, value: Bytes, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[int, bytes]]: ...


@overload
def map_of(
    key: str, value: str, *, ttl: Ttl = ..., time: Time = ...
) -> State[MutableMapping[Any, Any]]: ...


def map_of(key: str, value: str, *, ttl: Ttl = None, time: Time = "event") -> State[Any]:
    """Declare a map per key, empty at first. `ttl` counts for each entry from its last set."""
    return State(parse_declaration(Kind.MAP, (key, value), ttl, time))


def timer(*, time: Time = "event") -> State[datetime | None]:
    """Declare a timer per key, which calls `on_timer`: set it to a time, or None to delete it."""
    return State(parse_declaration(Kind.TIMER, (), None, time))


def shared(state: State[T]) -> State[T]:
    """Declare broadcast state, common to all keys: `on_rule` writes it, other methods read it."""
    return State(make_shared(state.declaration))
