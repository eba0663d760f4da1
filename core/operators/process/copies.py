"""Copies of values that can be changed: lists and structs, and what is in them.

What a class keeps, puts out or declares as a default is one object in Python; each of them goes on
for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableSequence
from typing import Any

from headrace.core.operators.process.aging import Ageing
from headrace.core.types import Array, Struct, Type


def is_nested(types: Iterable[Type]) -> bool:
    """Whether values of one of these types can be changed in place."""
    return any(isinstance(type, Array | Struct) for type in types)


def copied(value: Any) -> Any:
    """The same value, of which no part can be changed through the other one."""
    match value:
        case list() | tuple() | MutableSequence():
            return [copied(each) for each in value]
        case Mapping():
            return {key: copied(each) for key, each in value.items()}
    return value


def copied_state(kept: Any, copy: Callable[[Any], Any]) -> Any:
    """A list or a map of a state, or a value, with copies of what is in it: of the same kind."""
    match kept:
        case Ageing():
            return kept.copied(copy)
        case dict():
            return type(kept)({key: copy(value) for key, value in kept.items()})
        case list():
            return type(kept)([copy(value) for value in kept])
    return copy(kept)
