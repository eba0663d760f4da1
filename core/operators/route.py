"""`route`: each row goes to the first branch whose condition is true, else to `else`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import to_expr
from headrace.core.operators.operator import Output, StatelessOperator
from headrace.core.plan import nodes

if TYPE_CHECKING:
    import polars as pl


class RouteOperator(StatelessOperator):
    """The operator of `route`; `wanted` are the outputs with readers, other rows are dropped."""

    def __init__(self, step: str, operation: nodes.Route, wanted: frozenset[str]) -> None:
        import polars as pl

        self._streams = [f"{step}.{name}" for name, _, _ in operation.branches] + [f"{step}.else"]
        self._wanted = wanted
        branch = pl.lit(len(operation.branches), dtype=pl.Int32)
        for at, (_, condition, _) in reversed(list(enumerate(operation.branches))):
            branch = pl.when(to_expr(condition)).then(pl.lit(at, dtype=pl.Int32)).otherwise(branch)
        self._branch = branch.alias("__branch")

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows of each output, in the order of the branches."""
        chosen = frame.with_columns_seq(self._branch)["__branch"]
        low, high = chosen.min(), chosen.max()
        for at, stream in enumerate(self._streams):
            if stream in self._wanted and low == high == at:
                yield stream, frame
            elif stream in self._wanted and low != high:
                yield stream, frame.filter(chosen == at)
