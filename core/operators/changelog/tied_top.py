"""`top` with ties: rows with equal values of `by` have the same rank, so more rows may be first.

Rows are stored in pages, as of `top` over retractions. The pages of a group that have first rows
are found by the number of ranks that each page takes at least. A rank is not the key of a row, so
the first rows are emitted as rows that are added and removed.

Over append-only rows, only the pages that have first rows are stored: no other row can become one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.changelog.ordered_pages import (
    GROUP,
    PAGE,
    OrderedPages,
    UpdatedPages,
    have_several,
)
from headrace.core.operators.changelog.retraction_top import COUNT, RetractionTopOperator
from headrace.core.operators.changelog.rows import NEWEST_TIME
from headrace.core.operators.changelog.weighted_rows import repeat_rows, subtract_rows
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.types.elements import EVENT_TIME, ORDER, WEIGHT
from headrace.core.types.frames import filter_rows

if TYPE_CHECKING:
    import polars as pl

BEFORE = "__before"
"""The number of ranks that the pages before the previous page take at least."""

RUN = "__run"
"""The number of a run of pages that begin with the same values."""

IS_NEXT = "__is_next"
"""Whether the values of a row differ from those of the row before."""


class TiedTopOperator(RetractionTopOperator):
    """The operator of `top` with `ties`."""

    def _count_rows(self) -> pl.Expr:
        """Return the number of copies of the rows of a page, or of their values for `dense_rank`.

        Of these the first one is left out: the page before may have it too.
        """
        import polars as pl

        if self._operation.ties == "rank":
            return super()._count_rows()
        alike = pl.col(WEIGHT).is_null().alias("__alike")
        values = pl.struct(_list_values(self._operation) or [alike])
        later = values.filter(values.ne_missing(values.first()), pl.col(WEIGHT) > 0)
        return later.n_unique().cast(pl.Int64)

    def _select_first_pages(self, pages: pl.DataFrame) -> pl.DataFrame:
        """Return the pages of each group that may have first rows.

        The values with which a page begins may be those of the last rows of the page before: only
        the ranks of the pages before that one are surely lower. Pages that begin with the same
        values are selected together.
        """
        import polars as pl

        if not have_several(pages):
            return pages
        is_next = differs_from_previous(pages, [pl.col(GROUP), *_list_values(self._operation)])
        run = is_next.cum_sum().alias(RUN)
        before = pl.col(COUNT).cum_sum() - pl.col(COUNT)
        counted = (
            pages[[GROUP, COUNT]]
            .hstack([run])
            .with_columns(before.shift(1).over(GROUP).alias(BEFORE))
        )
        lower_ranks = counted.select(pl.col(BEFORE).first().over(RUN).fill_null(0))[BEFORE]
        return filter_rows(pages, lower_ranks < self._operation.rows)

    def _select_stored(
        self, updated: UpdatedPages, groups: pl.DataFrame, pages: OrderedPages
    ) -> UpdatedPages:
        """Return the pages that stay stored: over rows that stay, those that have first rows."""
        if self._operation.reads_retractions or not have_several(updated.pages):
            return updated
        first = self._select_first_pages(updated.pages)
        other = updated.pages.join(first, on=[GROUP, PAGE], how="anti")
        return pages.remove(other[[GROUP, PAGE]], updated, groups)

    def _rank_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        ranks = compute_ranks(rows, self._operation)
        is_first = ranks <= self._operation.rows
        return repeat_rows(filter_rows(rows.hstack([ranks]), is_first))

    def _list_times(self, groups: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
        """Return no event times: a removed row has all values of the row that was added."""
        import polars as pl

        time = groups.schema[NEWEST_TIME]
        return pl.repeat(None, rows.height, dtype=time, eager=True).alias(EVENT_TIME)

    def _compare_rows(self, before: pl.DataFrame, after: pl.DataFrame) -> tuple[pl.DataFrame, str]:
        """Return the rows that are added and removed; one at another rank is another row."""
        import polars as pl

        once = pl.repeat(1, before.height, dtype=pl.Int64, eager=True).alias(WEIGHT)
        ranked = before.hstack([compute_ranks(before.hstack([once]), self._operation)])
        columns = [GROUP, *self._shown_columns, RANK_COLUMN]
        if self._context.is_ordered:
            columns.append(ORDER)
        return subtract_rows(after[columns], ranked[columns]), WEIGHT


def compute_ranks(rows: pl.DataFrame, operation: nodes.Top) -> pl.Series:
    """Return the ranks of rows, which are in order and have GROUP and WEIGHT."""
    import polars as pl

    is_new = differs_from_previous(rows, [pl.col(GROUP), *_list_values(operation)])
    number = pl.col(WEIGHT).cum_sum().over(GROUP) - pl.col(WEIGHT) + 1
    match operation.ties:
        case "row_number":
            rank = number
        case "dense_rank":
            rank = pl.col(IS_NEXT).cum_sum().over(GROUP)
        case _:
            rank = pl.when(IS_NEXT).then(number).forward_fill()
    numbered = rows[[GROUP, WEIGHT]].hstack([is_new.alias(IS_NEXT)])
    return numbered.select(rank.cast(pl.Int32).alias(RANK_COLUMN))[RANK_COLUMN]


def _list_values(operation: nodes.Top) -> list[pl.Expr]:
    """Return the values that decide the rank of a row; none: all rows are alike."""
    by = [each for each in operation.by if not each.is_constant]
    return [to_expr(each.value).alias(f"__by{at}") for at, each in enumerate(by)]


def differs_from_previous(rows: pl.DataFrame, values: list[pl.Expr]) -> pl.Series:
    """Return whether a row differs from the one before in any of these values."""
    import polars as pl

    differs = pl.any_horizontal(
        pl.lit(False), *(value.ne_missing(value.shift(1)) for value in values)
    )
    is_first = pl.int_range(pl.len()) == 0
    return rows.select((is_first | differs).alias(IS_NEXT)).to_series()
