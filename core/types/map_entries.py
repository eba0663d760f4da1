"""Maps as lists of their entries: structs of a key and a value.

Polars has few functions of maps, and many of lists. Both have the same memory layout: a map becomes
a list at no cost, and a list a map at the cost of a hash of each key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

KEY, VALUE = "key", "value"
"""The fields of an entry."""


def convert_entries(
    value: pl.Expr,
    convert_key: Callable[[pl.Expr], pl.Expr],
    convert_value: Callable[[pl.Expr], pl.Expr],
) -> pl.Expr:
    """Convert the keys and the values of maps; the converted keys must be distinct."""
    return convert_to_list(value, convert_key, convert_value).list.to_map()


def convert_to_list(
    value: pl.Expr,
    convert_key: Callable[[pl.Expr], pl.Expr],
    convert_value: Callable[[pl.Expr], pl.Expr],
) -> pl.Expr:
    """Convert the keys and the values of maps, and return the lists of their entries."""
    import polars as pl

    key, each = (pl.element().struct.field(name) for name in (KEY, VALUE))
    entry = pl.struct(convert_key(key).alias(KEY), convert_value(each).alias(VALUE))
    return value.map.entries().list.eval(entry)
