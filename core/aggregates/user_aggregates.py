"""Calls of user-defined aggregate classes: Python for each group, with columns on both sides.

Polars gathers the rows of a group, as a list for each column; then the class is called once a
group, and its result becomes the columns of the state again. A group with a single state needs no
merge, so the class is not called for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.accumulator import Accumulator
from headrace.core.aggregates.calls import AggregateCall, AggregateExpression, AggregateInput
from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.aggregates.user_partials import (
    InvalidGroupResult,
    PartialCodec,
    build_series,
    split_lists,
)
from headrace.core.api.user_code import UserCode, UserCodeError, get_instance, reraise_interrupt
from headrace.core.api.window_classes import Aggregate
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.typed import NO_SPARK_FORM, ColumnReference, Span, TypedExpression
from headrace.core.types.data_types import Schema, Type
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

COUNT_COLUMN = "count"
METHODS = ("partial", "merge", "finish")


class GroupCodeError(UserCodeError):
    """User code failed in a group; `of` has the columns that identify the group."""

    def __init__(self, message: str, of: Mapping[str, object], hint: str = "") -> None:
        super().__init__(message, hint)
        self.of = of


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAggregateCall(AggregateCall):
    """A call of a user class; without `partial_schema`, its partials are JSON."""

    code: UserCode
    partial_schema: Schema | None

    def partial(self) -> list[pl.Expr]:
        """Return the expressions that gather the rows of a group."""
        import polars as pl

        return [
            pl.col(each.name).implode().alias(self._gathered_name(at))
            for at, each in enumerate(self.inputs)
        ]

    def merge(self) -> list[pl.Expr]:
        """Return the expressions that gather and count the states of a group."""
        import polars as pl

        parts = [pl.col(name).implode() for name in self._state_names]
        return [*parts, pl.len().alias(self._gathered_name(COUNT_COLUMN))]

    def finish(self) -> pl.Expr:
        """Return the column of the result, which `apply_finish` computed."""
        import polars as pl

        return pl.col(self.name)

    def apply_partial(self, groups: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Replace the gathered rows of each group by its partial."""
        names = [self._gathered_name(at) for at in range(len(self.inputs))]
        columns = [
            split_lists(
                groups[name],
                each.typed.name if isinstance(each.typed, ColumnReference) else each.name,
            )
            for name, each in zip(names, self.inputs, strict=True)
        ]
        partial, partials, made = self._load_class().partial, self._codec, []
        with _attribute_to_group(groups, keys):
            for at, values in enumerate(zip(*columns, strict=True)):
                returned = self._call_method(partial, at, "partial", *values)
                made.append(partials.check_partial(returned, at, "partial"))
            return groups.drop(names).hstack(
                partials.build_columns(made, self._state_names, "partial")
            )

    def apply_merge(self, groups: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Replace the gathered partials of each group by one partial."""
        import polars as pl

        count = self._gathered_name(COUNT_COLUMN)
        firsts = [pl.col(name).list.first() for name in self._state_names]
        alone = groups.filter(pl.col(count) == 1).with_columns(firsts).drop(count)
        if alone.height == groups.height:
            return alone
        groups = groups.filter(pl.col(count) > 1).drop(count)
        merge, partials, made = self._load_class().merge, self._codec, []
        with _attribute_to_group(groups, keys):
            for at, each in enumerate(
                partials.read_partial_lists([groups[name] for name in self._state_names])
            ):
                made.append(
                    partials.check_partial(self._call_method(merge, at, "merge", each), at, "merge")
                )
            columns = partials.build_columns(made, self._state_names, "merge")
        return alone.vstack(groups.with_columns(columns).select(alone.columns))

    def apply_retract(
        self, states: pl.DataFrame, removed: pl.DataFrame, keys: Sequence[str]
    ) -> pl.DataFrame:
        """Take the partials of removed rows out of the partials of the same groups."""
        retract, partials, made = self._load_class().retract, self._codec, []
        both = zip(
            partials.read_partials([states[name] for name in self._state_names]),
            partials.read_partials([removed[name] for name in self._state_names]),
            strict=True,
        )
        with _attribute_to_group(states, keys):
            for at, (partial, gone) in enumerate(both):
                returned = self._call_method(retract, at, "retract", partial, gone)
                made.append(partials.check_partial(returned, at, "retract"))
            columns = partials.build_columns(made, self._state_names, "retract")
        return states.with_columns(columns)

    def apply_finish(self, states: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Add the column of results to the states."""
        finish = self._load_class().finish
        with _attribute_to_group(states, keys):
            made = [
                self._call_method(finish, at, "finish", each)
                for at, each in enumerate(
                    self._codec.read_partials([states[name] for name in self._state_names])
                )
            ]
            what = f"{self.code.display_name}: finish returned a value"
            results = build_series(self.name, made, self.type, what)
            if not self.nullable and results.null_count():
                at = int(results.is_null().arg_true()[0])
                raise InvalidGroupResult(
                    f"{self.code.display_name}: finish returned None, but its result is declared "
                    "not null",
                    at,
                )
        return states.with_columns(results)

    def _load_class(self) -> Aggregate[Any]:
        """Return the user's object, after a check that its state is as declared in its file."""
        made: Aggregate[Any] = get_instance(self.code)
        if missing := [name for name in METHODS if not hasattr(made, name)]:
            message = f"{self.code.display_name} has no {' and no '.join(missing)}"
            raise UserCodeError(message, f"write class {self.code.name}(Aggregate)")
        if hasattr(made, "retract") and not self.accumulator.is_subtractable:
            message = f"{self.code.display_name} has a retract that its file does not define in it"
            raise UserCodeError(message, f"write def retract in class {self.code.name} itself")
        fields, declared = (
            [*getattr(made, "state", ())],
            [*self.partial_schema] if self.partial_schema else [],
        )
        if fields != [field.name for field in declared]:
            actual = ", ".join(fields) or "nothing"
            known = ", ".join(field.name for field in declared) or "nothing"
            message = (
                f"{self.code.display_name} has the state {actual}, but its file declares {known}"
            )
            hint = f"write state in class {self.code.name} itself, as plain text"
            raise UserCodeError(message, hint)
        return made

    def _gathered_name(self, what: object) -> str:
        return f"{self.name}<{what}"

    @property
    def _codec(self) -> PartialCodec:
        return PartialCodec(self.code.display_name, self.partial_schema)

    @property
    def _state_names(self) -> list[str]:
        return [f"{self.name}.{part}" for part in self._codec.column_types]

    def _call_method(
        self, method: Callable[..., object], at: int, what: str, *arguments: object
    ) -> object:
        try:
            return method(*arguments)
        except BaseException as error:
            reraise_interrupt(error)
            raise InvalidGroupResult(f"{self.code.format_error(error)} (in {what})", at) from error


@contextmanager
def _attribute_to_group(groups: pl.DataFrame, keys: Sequence[str]) -> Iterator[None]:
    """Raise an error in a group with the columns that identify the group."""
    try:
        yield
    except InvalidGroupResult as unfit:
        of = groups[unfit.at].select(keys).row(0, named=True) if keys else {}
        raise GroupCodeError(unfit.message, of, unfit.hint) from unfit.__cause__


def select_user_calls(calls: Iterable[AggregateCall]) -> list[UserAggregateCall]:
    """Return the calls of user classes."""
    return [call for call in calls if isinstance(call, UserAggregateCall)]


def apply_user_calls(
    groups: pl.DataFrame,
    keys: Sequence[str],
    calls: Sequence[AggregateCall],
    make: Callable[[UserAggregateCall, pl.DataFrame, Sequence[str]], pl.DataFrame],
    more: Iterable[pl.Expr] = (),
) -> pl.DataFrame:
    """Compute the states of user calls, and order the columns by the calls, then `more`."""
    users = select_user_calls(calls)
    if not users:
        return groups
    for call in users:
        groups = make(call, groups, keys)
    states = (f"{c.name}.{part}" for c in calls for part, _ in c.accumulator.state)
    return groups.select(*keys, *states, *(each.meta.output_name() for each in more))


def build_user_call(
    code: UserCode,
    of: Iterable[tuple[str, TypedExpression]],
    returns: tuple[Type, bool],
    partial_schema: Schema | None,
    *,
    can_retract: bool = False,
) -> AggregateExpression:
    """Build the expression that calls a user class on expressions, each given with its text.

    `can_retract`: the class defines `retract`.
    """
    texts = [(canonical_text(parse_expression(text)), typed) for text, typed in of]
    inputs = (
        AggregateInput(
            typed.name if isinstance(typed, ColumnReference) else f"__{text} {typed.type}", typed
        )
        for text, typed in texts
    )
    type, nullable = returns
    name = f"__{code}({', '.join(text for text, _ in texts)}) -> {type}"
    state = tuple(PartialCodec(code.display_name, partial_schema).column_types.items())
    call = UserAggregateCall(
        name,
        type,
        nullable,
        tuple(inputs),
        None,
        _build_state_accumulator(state, can_retract=can_retract),
        NO_SPARK_FORM,
        code=code,
        partial_schema=partial_schema,
    )
    return AggregateExpression((call,), ColumnReference(type, nullable, Span(0, 0), name))


def _build_state_accumulator(
    state: tuple[tuple[str, Type], ...], *, can_retract: bool
) -> Accumulator:
    """Return the accumulator of a user class; its steps are not column expressions."""

    def none(*_: object) -> Any:
        raise AssertionError("a user class is called for each group")

    return Accumulator(state, none, none, none, is_subtractable=can_retract)
