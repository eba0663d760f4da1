"""States and timers as a class declares them; an editor knows the type of each.

What is declared with a word that is no literal of these, as `decimal(10,2)` or `array<int>`, may be
anything. `default` is what a value is before it is set, and again when it is forgotten.
"""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from datetime import date, datetime, timedelta
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

from headrace.core.process.declared import Declared, Kind, declared, shared_of

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
    """A state or a timer in a class, where `state.name` reads and sets it."""

    def __init__(self, said: Declared) -> None:
        self.said = said
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
    """One value a key; None, or the default, before it is set. `ttl` counts from when it was."""
    return State(declared(Kind.VALUE, (type,), ttl, time, default))


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
    """A list a key, empty at first. `ttl` counts for each element from when it was added."""
    return State(declared(Kind.LIST, (element,), ttl, time))


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
    """A map a key, empty at first. `ttl` counts for each entry from when it was set."""
    return State(declared(Kind.MAP, (key, value), ttl, time))


def timer(*, time: Time = "event") -> State[datetime | None]:
    """A time a key at which `on_timer` is called: set it to a moment, or to None to delete it."""
    return State(declared(Kind.TIMER, (), None, time))


def shared(state: State[T]) -> State[T]:
    """A value, list or map that all keys have: `on_rule` writes it, the other methods read it."""
    return State(shared_of(state.said))
