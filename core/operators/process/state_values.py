"""Lists and maps with a TTL: each element expires a fixed time after it was written.

Expired elements are never visible. They are removed on access, or when the number of elements has
doubled since the last removal. An expired element that is set again counts as new, whether or not
it had been removed: it comes after the others.

Copies of mutable values: lists, structs, and values nested in them.

A stored value, an emitted one and a declared default may be one object in Python; copies keep them
independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from types import MappingProxyType
from typing import Any

from headrace.core.process.value_conversion import ValueConverter
from headrace.core.types import data_types
from headrace.core.types.data_types import Array, MapType, Struct, Type

EMPTY_MAP: Mapping[Any, Any] = MappingProxyType({})


MIN_PRUNE_SIZE = 64
"""The number of elements that may be stored before expired ones are removed."""


class TtlCollection:
    """The base of collections with a TTL: the clock, and the TTL of the elements."""

    __slots__ = ("_clock", "_many", "_ttl_us")

    def __init__(self, clock: Callable[[], int], ttl_us: int) -> None:
        self._clock = clock
        self._ttl_us = ttl_us
        self._many = MIN_PRUNE_SIZE

    def clone(self, copy: Callable[[Any], Any] | None) -> TtlCollection:
        """Return a new collection with copies of the elements, or with the same elements."""
        raise NotImplementedError

    def _compute_expiry(self) -> int:
        return self._clock() + self._ttl_us

    def _prune(self) -> Any:
        """Return the stored elements, after removing the expired ones."""
        raise NotImplementedError

    def _prune_if_grown(self, count: int) -> None:
        """Remove expired elements from time to time, given the number of elements."""
        if count > self._many:
            self._many = 2 * len(self._prune()) + MIN_PRUNE_SIZE


class TtlList(TtlCollection, MutableSequence[Any]):
    """A list whose elements expire."""

    __slots__ = ("_fit", "entries")

    def __init__(
        self,
        clock: Callable[[], int],
        ttl_us: int,
        fit: ValueConverter,
        entries: Iterable[Any] = (),
    ) -> None:
        """`fit` converts elements to their declared type."""
        super().__init__(clock, ttl_us)
        self._fit = fit
        self.entries: list[tuple[Any, int]] = list(entries)
        """Each element with its expiry time."""

    def __len__(self) -> int:
        return len(self._prune())

    def __getitem__(self, at: Any) -> Any:
        found = self._prune()[at]
        return [value for value, _ in found] if isinstance(at, slice) else found[0]

    def __setitem__(self, at: Any, value: Any) -> None:
        until = self._compute_expiry()
        if isinstance(at, slice):
            self._prune()[at] = [(self._fit(each), until) for each in value]
        else:
            self._prune()[at] = (self._fit(value), until)

    def __delitem__(self, at: Any) -> None:
        del self._prune()[at]

    def __iter__(self) -> Iterator[Any]:
        return iter([value for value, _ in self._prune()])

    def __repr__(self) -> str:
        return repr(list(self))

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, TtlList) else other)

    __hash__ = None  # type: ignore[assignment]

    def insert(self, index: int, value: Any) -> None:
        self._prune().insert(index, (self._fit(value), self._compute_expiry()))

    def append(self, value: Any) -> None:
        """Append an element in constant time."""
        self.entries.append((self._fit(value), self._compute_expiry()))
        self._prune_if_grown(len(self.entries))

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """Sort the elements, which keep their expiry times."""
        by = (lambda each: each[0]) if key is None else (lambda each: key(each[0]))
        self._prune().sort(key=by, reverse=reverse)

    def reverse(self) -> None:
        """Reverse the elements, which keep their expiry times."""
        self._prune().reverse()

    def __add__(self, other: Iterable[Any]) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Any]) -> list[Any]:
        return [*other, *self]

    def copy(self) -> list[Any]:
        """Return the elements that have not expired, as a plain list."""
        return list(self)

    def clone(self, copy: Callable[[Any], Any] | None) -> TtlList:
        """Return a new list with copies of the elements, or with the same elements."""
        entries: Iterable[Any] = self.entries
        if copy is not None:
            entries = ((copy(value), until) for value, until in self.entries)
        return TtlList(self._clock, self._ttl_us, self._fit, entries)

    def _prune(self) -> list[tuple[Any, int]]:
        now_us = self._clock()
        if any(until < now_us for _, until in self.entries):
            self.entries[:] = [each for each in self.entries if each[1] >= now_us]
        return self.entries


class DictMethods(Mapping[Any, Any]):
    """The methods of dict beyond Mapping: both return a plain dict, whose entries do not expire."""

    __slots__ = ()

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return self.copy() | dict(other)

    def copy(self) -> dict[Any, Any]:
        """Return the current entries as a plain dict."""
        return dict(self)


class TtlMap(TtlCollection, DictMethods, MutableMapping[Any, Any]):
    """A map whose entries expire."""

    __slots__ = ("_fits", "entries")

    def __init__(
        self,
        clock: Callable[[], int],
        ttl_us: int,
        fit_key: ValueConverter,
        fit: ValueConverter,
        entries: Mapping[Any, tuple[Any, int]] = EMPTY_MAP,
    ) -> None:
        """`fit_key` and `fit` convert keys and values to their declared types."""
        super().__init__(clock, ttl_us)
        self._fits = fit_key, fit
        self.entries: dict[Any, tuple[Any, int]] = dict(entries)
        """Each entry's value and expiry time."""

    def __len__(self) -> int:
        return len(self._prune())

    def __getitem__(self, key: Any) -> Any:
        value, until = self.entries[key]
        if until < self._clock():
            del self.entries[key]
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        fit_key, fit = self._fits
        key, value, now_us = fit_key(key), fit(value), self._clock()
        before = self.entries.get(key)
        if before is not None and before[1] < now_us:
            del self.entries[key]
        self.entries[key] = (value, now_us + self._ttl_us)
        self._prune_if_grown(len(self.entries))

    def __delitem__(self, key: Any) -> None:
        self[key]
        del self.entries[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._prune()))

    def __repr__(self) -> str:
        return repr(dict(self))

    def __ior__(self, other: Any) -> TtlMap:  # type: ignore[misc, override]
        self.update(other)
        return self

    def clone(self, copy: Callable[[Any], Any] | None) -> TtlMap:
        """Return a new map with copies of the values, or with the same values."""
        entries = self.entries
        if copy is not None:
            entries = {key: (copy(value), until) for key, (value, until) in entries.items()}
        return TtlMap(self._clock, self._ttl_us, *self._fits, entries)

    def _prune(self) -> dict[Any, tuple[Any, int]]:
        now_us = self._clock()
        if any(until < now_us for _, until in self.entries.values()):
            for key in [key for key, (_, until) in self.entries.items() if until < now_us]:
                del self.entries[key]
        return self.entries


def is_nested(types: Iterable[Type]) -> bool:
    """Whether values of one of these types can be changed in place."""
    return any(map(data_types.is_nested, types))


def copy_value(value: Any) -> Any:
    """Return a deep copy of the value."""
    match value:
        case list() | tuple() | MutableSequence():
            return [copy_value(each) for each in value]
        case Mapping():
            return {key: copy_value(each) for key, each in value.items()}
    return value


def build_unknown_field_check(type: Type) -> Callable[[Any], bool] | None:
    """Return a predicate: whether a struct in a value has a field that its type has not.

    Returns None for a type without structs. Polars silently ignores such a field.
    """
    match type:
        case Array(element):
            find = build_unknown_field_check(element)
            if find is None:
                return None
            return lambda value: isinstance(value, list) and any(map(find, value))
        case MapType(_, value):
            inside = build_unknown_field_check(value)
            if inside is None:
                return None
            return lambda value: isinstance(value, Mapping) and any(map(inside, value.values()))
        case Struct(fields):
            names = {field.name for field in fields}
            found = ((field.name, build_unknown_field_check(field.type)) for field in fields)
            inner = [(name, find) for name, find in found if find is not None]

            def has_aliens(value: Any) -> bool:
                if not isinstance(value, Mapping):
                    return False
                return not value.keys() <= names or any(f(value.get(n)) for n, f in inner)

            return has_aliens
    return None


def copy_state(value: Any, *, nested: bool) -> Any:
    """Copy a list, map or value of a state; nested values are copied deeply.

    Values that are not nested are not visited: Python copies a list or a dict in a tenth of the
    time.
    """
    match value:
        case TtlCollection():
            return value.clone(copy_value if nested else None)
        case dict():
            return type(value)(
                {k: copy_value(each) for k, each in value.items()} if nested else value
            )
        case list():
            return type(value)([copy_value(each) for each in value] if nested else value)
    return copy_value(value)
