"""Folds whose rows users' functions see: all of a window's rows are kept until it fires.

`apply` makes rows of them; an evictor says which of them the aggregates see, or `apply`, or `top`.
The function is called once a key and window, with a DataFrame of the rows in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.operators.calling import Calling
from headrace.core.operators.folds import Fold
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.kept import GROUP, KEPT, listed, rows_of
from headrace.core.operators.ranking import place
from headrace.core.operators.returned import Returned
from headrace.core.operators.telling import Telling
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.windows import Evict
from headrace.core.types import TIMESTAMP, Schema, to_polars
from headrace.core.user_code import UserCodeError

if TYPE_CHECKING:
    import polars as pl

ROW = "__row"
"""The number of a row, by which an evictor's answer is known again."""
FROM = "__from"
"""The number of the group that a row was made of."""


class _AllRows:
    """Keeps rows; with `newest` also the greatest event time of a group."""

    def __init__(self, row: Mapping[str, pl.DataType], *, newest: bool) -> None:
        import polars as pl

        self._row = {**{n: row[n] for n in sorted(row)}, ORDER: to_polars(ORDER_TYPE)}
        newest_of = {EVENT_TIME: to_polars(TIMESTAMP)} if newest else {}
        self._newest = [pl.col(EVENT_TIME).max()] if newest else []
        self.reads = frozenset((*self._row, *newest_of))
        self.columns = {KEPT: pl.List(pl.Struct(self._row)), **newest_of}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The rows of each group, in their order."""
        import polars as pl

        return listed(rows.sort(place()), by, pl.struct(*self._row), *self._newest)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The rows of several lists."""
        return self.begin(rows_of(states, (*by, *self.columns.keys() - {KEPT})), by)


class Applied(_AllRows):
    """The fold of `apply`; `again`: a window has one row at most, which replaces the one before."""

    def __init__(
        self, operation: nodes.Apply, grouping: Grouping, telling: Telling, *, newest: bool
    ) -> None:
        self.types = types_of(operation.of)
        super().__init__(self.types, newest=newest)
        if newest:
            self.types = {**self.types, EVENT_TIME: to_polars(TIMESTAMP)}
        self._grouping = grouping
        self._shown = operation.of.names
        self._again = operation.window.fires_again
        self._calling = Calling(operation.code, telling)
        self._returned = Returned(operation.code.shown, operation.returns)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The rows that the function returns, each behind what names its group."""
        import polars as pl

        inside = dict(zip(self._grouping.inside, self._grouping.names, strict=True))
        named = [pl.col(name).alias(inside.get(name, name)) for name in by]
        newest = [name for name in self.columns if name != KEPT and name not in by]
        made = self._made(states, by)
        origin = made[FROM]
        groups = states.select(*named, *newest)[origin]
        rows = groups.hstack(made.drop(FROM).get_columns())
        if not self._again:
            return rows
        silent = states.select(*named, *newest).with_row_index(FROM)
        silent = silent.join(origin.unique().to_frame(), on=FROM, how="anti").drop(FROM)
        rows = rows.with_columns(pl.lit(False).alias(DELETE))
        gone = silent.with_columns(pl.lit(True).alias(DELETE))
        return pl.concat([rows, gone], how="diagonal") if gone.height else rows

    def _made(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The returned rows, with FROM."""
        import polars as pl

        groups = self._calling.of(states, by)
        number = pl.Series(FROM, [], dtype=pl.UInt32)
        frames = [self._returned.frame([]).with_columns(number)]
        for at, piece in enumerate(pieces(states, self._shown)):
            answer = groups.answer(at, piece)
            try:
                frame = self._framed(answer)
            except UserCodeError as error:
                raise groups.failed(at, error) from error.__cause__
            if self._again and frame.height > 1:
                message = f"{self._calling.name} returned {frame.height} rows for a window"
                hint = "what fires again replaces its row: return one, or say accumulate: false"
                raise groups.failed(at, UserCodeError(f"{message} that may fire again", hint))
            frames.append(frame.with_columns(pl.lit(at, dtype=number.dtype).alias(FROM)))
        return pl.concat(frames)

    def _framed(self, answer: object) -> pl.DataFrame:
        """What the function returned for one window, of the declared columns."""
        import polars as pl

        if isinstance(answer, pl.DataFrame):
            return self._returned.declared(answer)
        if isinstance(answer, list | dict | None):
            return self._returned.frame(self._returned.rows(answer))
        message = f"{self._calling.name} must return a DataFrame, dicts or None"
        raise UserCodeError(f"{message}, got {type(answer).__name__}")


class EvictedByUser(_AllRows):
    """The rows that a user's evictor leaves; another fold makes something of them."""

    def __init__(
        self, evict: Evict, inner: Fold, types: Mapping[str, pl.DataType], telling: Telling
    ) -> None:
        """`types` are those of the columns that the inner fold reads."""
        assert evict.code is not None and evict.of is not None
        read = {name: types[name] for name in inner.reads - {ORDER}}
        super().__init__({**types_of(evict.of), **read}, newest=False)
        self._inner = inner
        self._shown = evict.of.names
        self._telling = telling
        self._calling = Calling(evict.code, telling)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """What the inner fold makes of the rows that are left, none among them."""
        import polars as pl

        numbered = states.with_row_index(GROUP)
        flat = rows_of(numbered, (GROUP,))
        rows = flat[self._kept(states, by)]
        with self._telling.numbered(numbered, GROUP):
            of_group = self._inner.begin(rows, (GROUP,))
            if of_group.height < numbered.height:
                nothing = self._inner.begin(rows.clear().drop(GROUP), ())
                empty = numbered.select(GROUP).join(of_group, on=GROUP, how="anti")
                of_none = empty.join(nothing, how="cross").select(of_group.columns)
                of_group = pl.concat([of_group, of_none])
        return self._inner.finish(numbered.drop(KEPT).join(of_group, on=GROUP), by)

    def _kept(self, states: pl.DataFrame, by: Sequence[str]) -> pl.Series:
        """The numbers of the rows that are left, among all of them."""
        import polars as pl

        groups, start, kept = self._calling.of(states, by), 0, list[pl.Series]()
        for at, piece in enumerate(pieces(states, self._shown)):
            numbers = pl.int_range(start, start + piece.height, eager=True).alias(ROW)
            answer = returned = groups.answer(at, piece.with_columns(numbers))
            if isinstance(answer, pl.Series) and answer.dtype == pl.Boolean:
                answer = numbers.filter(answer) if answer.len() == piece.height else None
            elif isinstance(answer, pl.DataFrame):
                answer = answer[ROW] if ROW in answer.columns else None
                if answer is not None and not answer.is_in(numbers.implode()).all():
                    answer = None
            else:
                answer = None
            if answer is None:
                came = type(returned).__name__
                message = f"{self._calling.name} must return some of the rows, got {came}"
                hint = "filter them, or return a Series of booleans, one a row"
                raise groups.failed(at, UserCodeError(message, hint))
            kept.append(answer.cast(pl.Int64).unique().sort())
            start += piece.height
        return pl.concat(kept) if kept else pl.Series(ROW, [], pl.Int64)


def pieces(states: pl.DataFrame, shown: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows of each group, of these columns."""
    rows = rows_of(states, ()).select(shown)
    start = 0
    for length in states[KEPT].list.len().to_list():
        yield rows.slice(start, length)
        start += length


def types_of(columns: Schema) -> dict[str, pl.DataType]:
    """The types that carry these columns."""
    return {field.name: to_polars(field.type) for field in columns}
