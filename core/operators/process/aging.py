"""Lists and maps with a TTL: each element expires a fixed time after it was written.

Expired elements are never visible. They are removed on access, or when the number of elements has
doubled since the last removal. An expired element that is set again counts as new, whether or not
it had been removed: it comes after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence
from types import MappingProxyType
from typing import Any

from headrace.core.process.fitting import Fit

NOTHING: Mapping[Any, Any] = MappingProxyType({})
FEW = 64
"""The number of elements that may be stored before expired ones are removed."""


class Ageing:
    """The base of collections with a TTL: the clock, and the TTL of the elements."""

    __slots__ = ("_clock", "_many", "_ttl_us")

    def __init__(self, clock: Callable[[], int], ttl_us: int) -> None:
        self._clock = clock
        self._ttl_us = ttl_us
        self._many = FEW

    def copied(self, copy: Callable[[Any], Any] | None) -> Ageing:
        """Return a new collection with copies of the elements, or with the same elements."""
        raise NotImplementedError

    def _until(self) -> int:
        return self._clock() + self._ttl_us

    def _live(self) -> Any:
        """Return the stored elements, after removing the expired ones."""
        raise NotImplementedError

    def _grown(self, count: int) -> None:
        """Remove expired elements from time to time, given the number of elements."""
        if count > self._many:
            self._many = 2 * len(self._live()) + FEW


class AgeingList(Ageing, MutableSequence[Any]):
    """A list whose elements expire."""

    __slots__ = ("_fit", "entries")

    def __init__(
        self, clock: Callable[[], int], ttl_us: int, fit: Fit, entries: Iterable[Any] = ()
    ) -> None:
        """`fit` converts elements to their declared type."""
        super().__init__(clock, ttl_us)
        self._fit = fit
        self.entries: list[tuple[Any, int]] = list(entries)
        """Each element with its expiry time."""

    def __len__(self) -> int:
        return len(self._live())

    def __getitem__(self, at: Any) -> Any:
        found = self._live()[at]
        return [value for value, _ in found] if isinstance(at, slice) else found[0]

    def __setitem__(self, at: Any, value: Any) -> None:
        until = self._until()
        if isinstance(at, slice):
            self._live()[at] = [(self._fit(each), until) for each in value]
        else:
            self._live()[at] = (self._fit(value), until)

    def __delitem__(self, at: Any) -> None:
        del self._live()[at]

    def __iter__(self) -> Iterator[Any]:
        return iter([value for value, _ in self._live()])

    def __repr__(self) -> str:
        return repr(list(self))

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, AgeingList) else other)

    __hash__ = None  # type: ignore[assignment]

    def insert(self, index: int, value: Any) -> None:
        self._live().insert(index, (self._fit(value), self._until()))

    def append(self, value: Any) -> None:
        """Append an element in constant time."""
        self.entries.append((self._fit(value), self._until()))
        self._grown(len(self.entries))

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """Sort the elements, which keep their expiry times."""
        by = (lambda each: each[0]) if key is None else (lambda each: key(each[0]))
        self._live().sort(key=by, reverse=reverse)

    def reverse(self) -> None:
        """Reverse the elements, which keep their expiry times."""
        self._live().reverse()

    def __add__(self, other: Iterable[Any]) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Any]) -> list[Any]:
        return [*other, *self]

    def copy(self) -> list[Any]:
        """Return the elements that have not expired, as a plain list."""
        return list(self)

    def copied(self, copy: Callable[[Any], Any] | None) -> AgeingList:
        """Return a new list with copies of the elements, or with the same elements."""
        entries: Iterable[Any] = self.entries
        if copy is not None:
            entries = ((copy(value), until) for value, until in self.entries)
        return AgeingList(self._clock, self._ttl_us, self._fit, entries)

    def _live(self) -> list[tuple[Any, int]]:
        now_us = self._clock()
        if any(until < now_us for _, until in self.entries):
            self.entries[:] = [each for each in self.entries if each[1] >= now_us]
        return self.entries


class LikeDict(Mapping[Any, Any]):
    """The methods of dict beyond Mapping: both return a plain dict, whose entries do not expire."""

    __slots__ = ()

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return self.copy() | dict(other)

    def copy(self) -> dict[Any, Any]:
        """Return the current entries as a plain dict."""
        return dict(self)


class AgeingMap(Ageing, LikeDict, MutableMapping[Any, Any]):
    """A map whose entries expire."""

    __slots__ = ("_fits", "entries")

    def __init__(
        self,
        clock: Callable[[], int],
        ttl_us: int,
        fit_key: Fit,
        fit: Fit,
        entries: Mapping[Any, tuple[Any, int]] = NOTHING,
    ) -> None:
        """`fit_key` and `fit` convert keys and values to their declared types."""
        super().__init__(clock, ttl_us)
        self._fits = fit_key, fit
        self.entries: dict[Any, tuple[Any, int]] = dict(entries)
        """Each entry's value and expiry time."""

    def __len__(self) -> int:
        return len(self._live())

    def __getitem__(self, key: Any) -> Any:
        value, until = self.entries[key]
        if until < self._clock():
            del self.entries[key]
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        fit_key, fit = self._fits
        value, key, now_us = fit(value), fit_key(key), self._clock()
        before = self.entries.get(key)
        if before is not None and before[1] < now_us:
            del self.entries[key]
        self.entries[key] = (value, now_us + self._ttl_us)
        self._grown(len(self.entries))

    def __delitem__(self, key: Any) -> None:
        self[key]
        del self.entries[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._live()))

    def __repr__(self) -> str:
        return repr(dict(self))

    def __ior__(self, other: Any) -> AgeingMap:  # type: ignore[misc, override]
        self.update(other)
        return self

    def copied(self, copy: Callable[[Any], Any] | None) -> AgeingMap:
        """Return a new map with copies of the values, or with the same values."""
        entries = self.entries
        if copy is not None:
            entries = {key: (copy(value), until) for key, (value, until) in entries.items()}
        return AgeingMap(self._clock, self._ttl_us, *self._fits, entries)

    def _live(self) -> dict[Any, tuple[Any, int]]:
        now_us = self._clock()
        if any(until < now_us for _, until in self.entries.values()):
            for key in [key for key, (_, until) in self.entries.items() if until < now_us]:
                del self.entries[key]
        return self.entries
