"""Arrays as sets: without repeated values, united, subtracted, intersected, compared.

NULL elements count as equal to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import FLOAT_TYPES, to_polars

if TYPE_CHECKING:
    import polars as pl

_FAMILY = "collections"


def _overlap(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Return whether the arrays share a value; unknown if NULL could be one of the other's."""
    import polars as pl

    common = left.list.drop_nulls().list.set_intersection(right.list.drop_nulls())
    both = (left.list.len() > 0) & (right.list.len() > 0)
    unknown = both & (left.list.contains(None) | right.list.contains(None))
    known = pl.when(unknown).then(None).otherwise(False)
    found = pl.when(common.list.len() > 0).then(True).otherwise(known)
    return pl.when(left.is_not_null() & right.is_not_null()).then(found)


def _build_set(form: PolarsForm) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of a form over arrays as sets: to Spark, -0.0 in them is 0.0."""

    def build(bound: BoundArguments) -> PolarsForm:
        import polars as pl

        from headrace.core.expressions.arithmetic.doubles import normalize_zero
        from headrace.core.expressions.batch_forms import evaluate_once

        if bound.type_arguments["C"] not in FLOAT_TYPES:
            return evaluate_once(form, bound.result)
        normal = normalize_zero(pl.element()).cast(to_polars(bound.type_arguments["C"]))
        return evaluate_once(lambda *a: form(*(x.list.eval(normal) for x in a)), bound.result)

    return build


def _keep_distinct(array: pl.Expr) -> pl.Expr:
    return array.list.unique(maintain_order=True)


def _unite(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return _keep_distinct(_concatenate(left, right))


def _subtract(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Return the elements that come new after those of the right array, which are in front."""
    known = _keep_distinct(right)
    return _unite(known, left).list.slice(known.list.len())


def _intersect(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return _subtract(left, _subtract(left, right))


def _concatenate(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(left.is_not_null() & right.is_not_null()).then(left.list.concat(right))


ARRAY_SETS: tuple[SqlFunction, ...] = (
    function(
        *("arrays_overlap", _FAMILY, "Whether the arrays share an element that is not NULL."),
        overload(
            "arrays_overlap(left: array<C>, right: array<C>) -> boolean",
            build=_build_set(_overlap),
        ),
        example=("arrays_overlap(array(1, 2, 3), array(3, 4, 5))", "true"),
        more=(("arrays_overlap(array(1, null), array(2))", "NULL"),),
    ),
    function(
        *("array_distinct", _FAMILY, "The array with each value once, where it comes first."),
        overload(
            "array_distinct(array: array<C>) -> array<C>",
            build=_build_set(_keep_distinct),
            nulls="strict",
        ),
        example=("array_distinct(array(1, 2, null, 1))", "[1, 2, null]"),
    ),
    function(
        *("array_union", _FAMILY, "Each value of both arrays once."),
        overload(
            "array_union(left: array<C>, right: array<C>) -> array<C>",
            build=_build_set(_unite),
        ),
        example=("array_union(array(1, 2, 3), array(1, 3, 5))", "[1, 2, 3, 5]"),
    ),
    function(
        *("array_except", _FAMILY, "Each value of the first array once that is not in the second."),
        overload(
            "array_except(left: array<C>, right: array<C>) -> array<C>",
            build=_build_set(_subtract),
        ),
        example=("array_except(array(1, 2, 3), array(1, 3, 5))", "[2]"),
    ),
    function(
        *("array_intersect", _FAMILY, "Each value once that is in both arrays."),
        overload(
            "array_intersect(left: array<C>, right: array<C>) -> array<C>",
            build=_build_set(_intersect),
        ),
        example=("array_intersect(array(1, 2, 3), array(1, 3, 5))", "[1, 3]"),
    ),
)
"""The functions of arrays as sets."""
