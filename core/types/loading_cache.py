"""A mapping whose values are loaded when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

V = TypeVar("V")


class LoadingCache(Mapping[str, V]):
    """A mapping of known keys; the value of a key is loaded when it is first read.

    >>> squares = LoadingCache(["2", "3"], lambda key: int(key) ** 2)
    >>> "2" in squares, squares["3"], squares.get("4")
    (True, 9, None)
    """

    def __init__(self, keys: Iterable[str], load: Callable[[str], V]) -> None:
        self._keys = dict.fromkeys(keys)
        self._load = load
        self._loaded: dict[str, V] = {}

    def __getitem__(self, key: str) -> V:
        if key not in self._loaded:
            if key not in self._keys:
                raise KeyError(key)
            self._loaded[key] = self._load(key)
        return self._loaded[key]

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
