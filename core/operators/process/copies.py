"""Copies of mutable values: lists, structs, and values nested in them.

A stored value, an emitted one and a declared default may be one object in Python; copies keep them
independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableSequence
from typing import Any

from headrace.core.operators.process.aging import TtlCollection
from headrace.core.types import Array, Struct, Type


def is_nested(types: Iterable[Type]) -> bool:
    """Whether values of one of these types can be changed in place."""
    return any(isinstance(type, Array | Struct) for type in types)


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


def copy_state(kept: Any, *, nested: bool) -> Any:
    """Copy a list, map or value of a state; nested values are copied deeply.

    Values that are not nested are not visited: Python copies a list or a dict in a tenth of the
    time.
    """
    match kept:
        case TtlCollection():
            return kept.clone(copy_value if nested else None)
        case dict():
            return type(kept)({k: copy_value(each) for k, each in kept.items()} if nested else kept)
        case list():
            return type(kept)([copy_value(each) for each in kept] if nested else kept)
    return copy_value(kept)
