"""The Polars forms of `sequences`.

All is computed in whole numbers: the numbers themselves, microseconds, or the months that are added
to the start. Of months, the last may lie behind the stop, because months have different lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.flat_arrays import (
    group_elements,
    number_elements,
    number_rows,
    sum_by_row,
)
from headrace.core.expressions.typed import PolarsForm
from headrace.core.expressions.value_sizes import WIDEST_BYTES
from headrace.core.types import calendar
from headrace.core.types.data_types import (
    DATE,
    TIMESTAMP,
    Array,
    Interval,
    Type,
    is_integer,
    to_polars,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

SHORTEST_MONTH_US = 28 * calendar.DAY_US


@dataclass(frozen=True, slots=True)
class SequenceSteps:
    """The steps of sequences: the type of the elements, and that of the step, if it is a time."""

    type: Type
    unit: Type

    @property
    def _is_by_months(self) -> bool:
        return isinstance(self.unit, Interval) and self.unit.is_months

    def build(self) -> PolarsForm:
        """Return the form of the array of a start, a stop and perhaps a step."""
        from headrace.core.expressions.batch_forms import compute_on_frame

        return compute_on_frame(self._compute, Array(self.type))

    def explain_bounds(self, start: pl.Expr, stop: pl.Expr, step: pl.Expr) -> pl.Expr:
        """Return the reason where a step leads away from the stop."""
        import polars as pl

        way, length = self._to_number(stop) - self._to_number(start), self._to_length(step)
        leads_away = ((length > 0) & (way < 0)) | ((length < 0) & (way > 0))
        stays = (length == 0) & (way != 0)
        reason = pl.when(leads_away | stays).then(
            pl.lit("the step does not lead from the start to the stop")
        )
        if self.type != DATE or self._is_by_months:
            return reason
        is_short = way.is_not_null() & (length.abs() < calendar.DAY_US)
        return (
            pl.when(is_short)
            .then(pl.lit("the step between dates is less than a day"))
            .otherwise(reason)
        )

    def measure(self, start: pl.Expr, stop: pl.Expr, *step: pl.Expr) -> pl.Expr:
        """Return the size of the array, as a number that is never too large for a bigint."""
        import polars as pl

        size = self._count(start, stop, *step) * WIDEST_BYTES
        return size.clip(0, pl.lit(2**62, dtype=pl.Int128)).cast(pl.Int64)

    def _to_number(self, value: pl.Expr) -> pl.Expr:
        """Return a bound as a whole number of 128 bits: of microseconds, for a time."""
        import polars as pl

        if is_integer(self.type):
            return value.cast(pl.Int128)
        number = value.to_physical().cast(pl.Int128)
        return number * calendar.DAY_US if self.type == DATE else number

    def _to_length(self, step: pl.Expr) -> pl.Expr:
        """Return a step as such a number; of a month, the fewest it may have."""
        import polars as pl

        if is_integer(self.type):
            return step.cast(pl.Int128)
        length = step.to_physical().cast(pl.Int128)
        return length * SHORTEST_MONTH_US if self._is_by_months else length

    def _count(self, start: pl.Expr, stop: pl.Expr, *step: pl.Expr) -> pl.Expr:
        """Return the number of elements, of months at most; 0 where there are none."""
        import polars as pl

        way = self._to_number(stop) - self._to_number(start)
        length = self._to_length(*step) if step else self._choose_step(way)
        steps = pl.when(length == 0).then(pl.lit(0, dtype=pl.Int128)).otherwise(way // length)
        count = pl.when(steps < 0).then(pl.lit(0, dtype=pl.Int128)).otherwise(steps + 1)
        return count.fill_null(0)

    def _choose_step(self, way: pl.Expr) -> pl.Expr:
        """Return the step that leads to the stop: one, or a day."""
        import polars as pl

        one = 1 if is_integer(self.type) else calendar.DAY_US
        forward = pl.lit(one, dtype=pl.Int128)
        return pl.when(way >= 0).then(forward).otherwise(-forward)

    def _compute(self, frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        start, stop, *step = (pl.col(name) for name in frame.columns)
        way = self._to_number(stop) - self._to_number(start)
        months = bool(step) and self._is_by_months and not is_integer(self.type)
        length = step[0].to_physical() if months else self._to_length(*step) if step else None
        rows = frame.select(
            start.alias("start"),
            stop.alias("stop"),
            (self._choose_step(way) if length is None else length).cast(pl.Int128).alias("length"),
            self._count(start, stop, *step).cast(pl.Int64).alias("count"),
        )
        counts = rows["count"]
        each = rows[number_rows(counts)].with_columns(
            (number_elements(counts).cast(pl.Int128) * pl.col("length")).alias("away")
        )
        if months:
            return self._group_months(each, rows, counts)
        values = each.select(self._to_value(self._to_number(pl.col("start")) + pl.col("away")))
        return self._null_where(group_elements(values.to_series(), counts), frame)

    def _group_months(self, each: pl.DataFrame, rows: pl.DataFrame, counts: pl.Series) -> pl.Series:
        """Return the arrays of times some months away, up to the stop."""
        import polars as pl

        add = calendar.add_months if self.type == DATE else calendar.add_months_to_time
        moved = each.with_columns(add(pl.col("start"), pl.col("away").cast(pl.Int64)).alias("at"))
        at, stop, forward = pl.col("at"), pl.col("stop"), pl.col("length") >= 0
        inside = pl.when(forward).then(at <= stop).otherwise(at >= stop).fill_null(False)
        found = moved.select(inside).to_series()
        arrays = group_elements(moved["at"].filter(found), sum_by_row(found, counts))
        return self._null_where(arrays, rows.select("start", "stop", "length"))

    def _to_value(self, number: pl.Expr) -> pl.Expr:
        """Return an element of such a number."""
        import polars as pl

        if is_integer(self.type):
            return number.cast(to_polars(self.type))
        if self.type == TIMESTAMP:
            return calendar.to_timestamp(number)
        return (number // calendar.DAY_US).cast(pl.Int32).cast(pl.Date)

    def _null_where(self, arrays: pl.Series, arguments: pl.DataFrame) -> pl.Series:
        """Return the arrays, NULL where an argument is."""
        import polars as pl

        given = arguments.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
        return pl.select(pl.when(given).then(arrays)).to_series()
