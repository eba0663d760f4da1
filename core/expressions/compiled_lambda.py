"""Lambda functions, compiled, and the form of a call that has some among its arguments.

The body of a lambda function is one expression over a frame with a row for each element: the
columns of its parameters, and of the outer columns that it reads, repeated for each element. So a
body is evaluated once for a batch, not once for each row, and one inside another body as well.

A call in a body that fails for an element fails the row. The values that a growing call in a body
makes for the elements of one row count together as one value of that row: max_value bounds them.
Large outer values are not repeated for all elements at once: they are evaluated in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import (
    CallCheck,
    LambdaArgument,
    compile_checked,
    find_largest,
)
from headrace.core.expressions.typed import (
    FunctionCall,
    PolarsForm,
    find_inputs,
    is_fallible,
    walk,
)
from headrace.core.expressions.value_sizes import cut_pieces, measure_values
from headrace.core.types.data_types import Type, to_polars
from headrace.core.types.frames import add_columns, align_lengths
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

_RESULT = "__result"
PIECE_BYTES = 16 * 2**20
"""The bytes of outer values that are repeated for elements at once."""


class CompiledLambda:
    """A lambda function of a call, which may be evaluated for many elements at once."""

    def __init__(self, argument: LambdaArgument) -> None:
        function = argument.function
        self._body = function.body
        self._call = argument.call
        self._check = argument.check
        self._parameters = tuple(parameter.column for parameter in function.parameters)
        self.inputs = tuple(sorted(find_inputs(function)))
        """The columns that the body reads besides the parameters."""
        self._reads = find_inputs(function.body)
        self.may_fail = any(
            isinstance(node, FunctionCall) and node.failure is not None
            for node in walk(function.body)
        )
        """Whether the body has a call that fails on purpose or for its arguments."""
        self._expr = (
            None if is_fallible(function.body) else compile_checked(function.body, argument.check)
        )

    @property
    def is_growing(self) -> bool:
        """Whether the values of the call count for its limit."""
        return self._call.growth is not None

    def reads_parameter(self, at: int) -> bool:
        """Whether the body reads the parameter at this index."""
        return at < len(self._parameters) and self._parameters[at] in self._reads

    def evaluate(
        self, arguments: Sequence[pl.Series | None], outer: pl.DataFrame, rows: pl.Series
    ) -> pl.Series:
        """Return the value for each element.

        `arguments` are the values of the parameters; one that is not read may be None, but not all
        of them. `rows` has the row of `outer` to which each element belongs.
        """
        import polars as pl

        pieces = [values for _, values in self._evaluate_pieces(arguments, outer, rows)]
        return pieces[0] if len(pieces) == 1 else pl.concat(pieces)

    def evaluate_bounded(
        self, arguments: Sequence[pl.Series | None], outer: pl.DataFrame, rows: pl.Series
    ) -> tuple[pl.Series, pl.Series | None]:
        """Return the value for each element, as `evaluate`, and the rows whose values together are
        within the limit of the call; None if all are.

        No values are computed after those that are above it.
        """
        import polars as pl

        assert self._call.growth is not None
        pieces: list[pl.Series] = []
        sizes = pl.zeros(outer.height, dtype=pl.Int64, eager=True)
        admitted = None
        for piece_rows, values in self._evaluate_pieces(arguments, outer, rows):
            pieces.append(values)
            sizes += _sum_by_row(piece_rows, measure_values(values), outer.height)
            if int(sizes.sum()) > self._call.growth.max_bytes:
                admitted = self.admit(sizes)
            if admitted is not None and not admitted.any():
                return values.clear(len(rows)), admitted.head(outer.height)
        within = None if admitted is None else admitted.head(outer.height)
        return pl.concat(pieces), within

    def _evaluate_pieces(
        self, arguments: Sequence[pl.Series | None], outer: pl.DataFrame, rows: pl.Series
    ) -> Iterator[tuple[pl.Series, pl.Series]]:
        """Yield the rows and the values of a piece of the elements after the other."""
        repeated = [measure_values(outer[name]) for name in self.inputs]
        if sum(map(find_largest, repeated)) * len(rows) <= PIECE_BYTES:
            yield rows, self._evaluate_piece(arguments, outer, rows)
            return
        sizes = sum(repeated[1:], start=repeated[0]).gather(rows)
        for start, count in cut_pieces(sizes, PIECE_BYTES):
            given = [None if each is None else each.slice(start, count) for each in arguments]
            piece = rows.slice(start, count)
            yield piece, self._evaluate_piece(given, outer, piece)

    def _evaluate_piece(
        self, arguments: Sequence[pl.Series | None], outer: pl.DataFrame, rows: pl.Series
    ) -> pl.Series:
        import polars as pl

        named = zip(self._parameters, arguments, strict=False)
        columns = [values.alias(name) for name, values in named if values is not None]
        if not columns:  # a constant body
            columns = [rows.alias(_RESULT)]
        columns += [outer[name].gather(rows) for name in self.inputs]
        expr = self._expr
        if expr is None:
            expr = compile_checked(self._body, _ElementCheck(self._check, rows, outer.height))
        return add_columns(pl.DataFrame(columns), expr.alias(_RESULT))[_RESULT]

    def admit(self, sizes: pl.Series) -> pl.Series | None:
        """Return the rows whose values of the call, of these sizes, are within its limit."""
        return self._check.admit(self._call, sizes)


@dataclass(frozen=True, slots=True)
class _ElementCheck:
    """A check of calls for elements, of which those of a row fail or count together."""

    check: CallCheck
    rows: pl.Series
    height: int

    def reject(self, call: FunctionCall, reasons: pl.Series) -> None:
        """Report the rows with an element for which the call fails, with the first reason."""
        import polars as pl

        reasons = self._fill_elements(reasons)
        failed = pl.DataFrame([self.rows.alias("row"), reasons.alias("reason")]).drop_nulls()
        first = failed.unique("row", keep="first", maintain_order=True)
        by_row = pl.repeat(None, self.height, dtype=pl.String, eager=True)
        self.check.reject(call, by_row.scatter(first["row"], first["reason"]))

    def admit(self, call: FunctionCall, sizes: pl.Series) -> pl.Series | None:
        """Return the elements whose results are to be computed; None for all of them."""
        totals = _sum_by_row(self.rows, self._fill_elements(sizes), self.height)
        admitted = self.check.admit(call, totals)
        return None if admitted is None else admitted.gather(self.rows)

    def _fill_elements(self, values: pl.Series) -> pl.Series:
        """Return the values for all elements: those of constants are the same for each."""
        count = len(self.rows)
        return values.new_from_index(0, count) if len(values) == 1 != count else values


def _sum_by_row(rows: pl.Series, sizes: pl.Series, height: int) -> pl.Series:
    """Return the sum of the sizes of the elements of each row."""
    import polars as pl

    elements = pl.DataFrame([rows.alias("row"), sizes.alias("size")])
    summed = elements.group_by("row").agg(pl.col("size").sum())
    totals = pl.zeros(height, dtype=pl.Int64, eager=True)
    return totals.scatter(summed["row"], summed["size"])


@dataclass(frozen=True, slots=True)
class HigherOrderRows:
    """The rows over which a call with lambda functions is computed."""

    values: tuple[pl.Series, ...]
    """The arguments that are no lambda functions."""
    outer: pl.DataFrame
    """The columns that the bodies read besides the parameters."""


def build_higher_order_form(compute: Callable[..., pl.Series], result: Type) -> PolarsForm:
    """Return the form of a call: `compute` takes `HigherOrderRows` and each compiled lambda."""

    def form(*arguments: pl.Expr | LambdaArgument) -> pl.Expr:
        import polars as pl

        lambdas = [CompiledLambda(each) for each in arguments if isinstance(each, LambdaArgument)]
        values = [each for each in arguments if not isinstance(each, LambdaArgument)]
        names = sorted({name for each in lambdas for name in each.inputs})

        def compute_on(columns: Sequence[pl.Series]) -> pl.Series:
            aligned = align_lengths(columns)
            outer = [c.alias(name) for c, name in zip(aligned[len(values) :], names, strict=True)]
            height = len(aligned[0])
            frame = pl.DataFrame(outer) if outer else pl.DataFrame(height=height)
            return compute(HigherOrderRows(tuple(aligned[: len(values)]), frame), *lambdas)

        inputs = [*values, *map(pl.col, names)]
        return pl.map_batches(
            inputs, compute_on, return_dtype=to_polars(result), is_elementwise=True
        )

    return form
