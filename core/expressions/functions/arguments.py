"""What the forms of several families ask of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import Constant, Form, Typed

if TYPE_CHECKING:
    import polars as pl


def repeating(form: Form) -> Callable[[Bound], Form]:
    """Builds a form that mentions an argument more than once; none of them is a constant."""

    def build(bound: Bound) -> Form:
        from headrace.core.expressions.batches import once

        return once(form, bound.result)

    return build


def literal_text(typed: Typed) -> str | None:
    """The text written there, if it is a literal."""
    value = typed.value if isinstance(typed, Constant) else None
    return value if isinstance(value, str) else None


def literal_int(typed: Typed) -> int | None:
    """The whole number written there, if it is a literal."""
    value = typed.value if isinstance(typed, Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def natural(count: pl.Expr) -> pl.Expr:
    """The count, or 0 where it is negative."""
    return count.clip(0)


def characters(text: pl.Expr) -> pl.Expr:
    """How many characters it has, as a type that holds sums of such numbers."""
    import polars as pl

    return text.str.len_chars().cast(pl.Int64)
