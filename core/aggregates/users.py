"""Calls of user-defined aggregate classes: Python for each group, with columns on both sides.

Polars gathers the rows of a group, as a list for each column; then the class is called once a
group, and its result becomes the columns of the state again. A group with a single state needs no
merge, so the class is not called for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.calls import AggregateCall, AggregateExpression, Input
from headrace.core.aggregates.identity import identity
from headrace.core.aggregates.partials import Partials, Unfit, pieces, series
from headrace.core.aggregates.triple import Triple
from headrace.core.expressions.parser import parse
from headrace.core.expressions.typed import OURS, Column, Span, Typed
from headrace.core.types import Schema, Type
from headrace.core.user_code import UserCode, UserCodeError, made_of

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.windows import Aggregate

COUNT = "count"
METHODS = ("partial", "merge", "finish")


class GroupFailed(UserCodeError):
    """User code failed in a group; `of` has the columns that identify the group."""

    def __init__(self, message: str, of: Mapping[str, object], hint: str = "") -> None:
        super().__init__(message, hint)
        self.of = of


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCall(AggregateCall):
    """A call of a user class; `kept` are the columns of its partials, None if they are JSON."""

    code: UserCode
    kept: Schema | None

    def partial(self) -> list[pl.Expr]:
        """Return the expressions that gather the rows of a group."""
        import polars as pl

        return [
            pl.col(each.name).implode().alias(self._gathered(at))
            for at, each in enumerate(self.inputs)
        ]

    def merge(self) -> list[pl.Expr]:
        """Return the expressions that gather and count the states of a group."""
        import polars as pl

        parts = [pl.col(name).implode() for name in self._names]
        return [*parts, pl.len().alias(self._gathered(COUNT))]

    def finish(self) -> pl.Expr:
        """Return the column of the result, which `apply_finish` computed."""
        import polars as pl

        return pl.col(self.name)

    def begun(self, groups: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Replace the gathered rows of each group by its partial."""
        names = [self._gathered(at) for at in range(len(self.inputs))]
        columns = [
            pieces(groups[name], each.typed.name if isinstance(each.typed, Column) else each.name)
            for name, each in zip(names, self.inputs, strict=True)
        ]
        partial, partials, made = self._class().partial, self._partials, []
        with _telling(groups, keys):
            for at, given in enumerate(zip(*columns, strict=True)):
                returned = self._called(partial, at, "partial", *given)
                made.append(partials.checked(returned, at, "partial"))
            return groups.drop(names).hstack(partials.columns(made, self._names, "partial"))

    def merged(self, groups: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Replace the gathered partials of each group by one partial."""
        import polars as pl

        count = self._gathered(COUNT)
        firsts = [pl.col(name).list.first() for name in self._names]
        alone = groups.filter(pl.col(count) == 1).with_columns(firsts).drop(count)
        if alone.height == groups.height:
            return alone
        groups = groups.filter(pl.col(count) > 1).drop(count)
        merge, partials, made = self._class().merge, self._partials, []
        with _telling(groups, keys):
            for at, each in enumerate(partials.several([groups[name] for name in self._names])):
                made.append(partials.checked(self._called(merge, at, "merge", each), at, "merge"))
            columns = partials.columns(made, self._names, "merge")
        return alone.vstack(groups.with_columns(columns).select(alone.columns))

    def finished(self, states: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
        """Add the column of results to the states."""
        finish = self._class().finish
        with _telling(states, keys):
            made = [
                self._called(finish, at, "finish", each)
                for at, each in enumerate(
                    self._partials.single([states[name] for name in self._names])
                )
            ]
            what = f"{self.code.shown}: finish returned a value"
            results = series(self.name, made, self.type, what)
            if not self.nullable and results.null_count():
                at = int(results.is_null().arg_true()[0])
                raise Unfit(
                    f"{self.code.shown}: finish returned None, but its result is declared not null",
                    at,
                )
        return states.with_columns(results)

    def _class(self) -> Aggregate[Any]:
        """Return the user's object, after a check that its state is as declared in its file."""
        made: Aggregate[Any] = made_of(self.code)
        if missing := [name for name in METHODS if not hasattr(made, name)]:
            message = f"{self.code.shown} has no {' and no '.join(missing)}"
            raise UserCodeError(message, f"write class {self.code.name}(Aggregate)")
        fields, declared = [*getattr(made, "state", ())], [*self.kept] if self.kept else []
        if fields != [field.name for field in declared]:
            actual = ", ".join(fields) or "nothing"
            known = ", ".join(field.name for field in declared) or "nothing"
            message = f"{self.code.shown} has the state {actual}, but its file declares {known}"
            hint = f"write state in class {self.code.name} itself, as plain text"
            raise UserCodeError(message, hint)
        return made

    def _gathered(self, what: object) -> str:
        return f"{self.name}<{what}"

    @property
    def _partials(self) -> Partials:
        return Partials(self.code.shown, self.kept)

    @property
    def _names(self) -> list[str]:
        return [f"{self.name}.{part}" for part in self._partials.types]

    def _called(self, method: Callable[..., object], at: int, what: str, *given: object) -> object:
        try:
            return method(*given)
        except Exception as error:
            raise Unfit(f"{self.code.failed(error)} (in {what})", at) from error


@contextmanager
def _telling(groups: pl.DataFrame, keys: Sequence[str]) -> Iterator[None]:
    """Raise an error in a group with the columns that identify the group."""
    try:
        yield
    except Unfit as unfit:
        of = groups[unfit.at].select(keys).row(0, named=True) if keys else {}
        raise GroupFailed(unfit.message, of, unfit.hint) from unfit.__cause__


def of_users(calls: Iterable[AggregateCall]) -> list[UserCall]:
    """Return the calls of user classes."""
    return [call for call in calls if isinstance(call, UserCall)]


def by_users(
    groups: pl.DataFrame,
    keys: Sequence[str],
    calls: Sequence[AggregateCall],
    make: Callable[[UserCall, pl.DataFrame, Sequence[str]], pl.DataFrame],
) -> pl.DataFrame:
    """Compute the states of user calls, and order the columns by the calls."""
    users = of_users(calls)
    if not users:
        return groups
    for call in users:
        groups = make(call, groups, keys)
    return groups.select(*keys, *(f"{c.name}.{part}" for c in calls for part, _ in c.triple.state))


def user_call(
    code: UserCode,
    of: Iterable[tuple[str, Typed]],
    returns: tuple[Type, bool],
    kept: Schema | None,
) -> AggregateExpression:
    """Build the expression that calls a user class on expressions, each given with its text."""
    texts = [(identity(parse(text)), typed) for text, typed in of]
    inputs = (
        Input(typed.name if isinstance(typed, Column) else f"__{text} {typed.type}", typed)
        for text, typed in texts
    )
    type, nullable = returns
    name = f"__{code}({', '.join(text for text, _ in texts)}) -> {type}"
    state = tuple(Partials(code.shown, kept).types.items())
    call = UserCall(
        name, type, nullable, tuple(inputs), None, _kept(state), OURS, code=code, kept=kept
    )
    return AggregateExpression((call,), Column(type, nullable, Span(0, 0), name))


def _kept(state: tuple[tuple[str, Type], ...]) -> Triple:
    """Return the accumulator of a user class; its steps are not column expressions."""

    def none(*_: object) -> Any:
        raise AssertionError("a user class is called for each group")

    return Triple(state, none, none, none)
