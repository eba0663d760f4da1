"""The lookup join: the keys of rows, and the output of rows once their keys are answered.

It never waits, and can be tested with literals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.contracts import ConnectorError
from headrace.core.elements import HIDDEN
from headrace.core.expressions.typed import PROCESSING_TIME
from headrace.core.far_times import near
from headrace.core.frames import projected
from headrace.core.lookup.answers import ERROR, FOUND
from headrace.core.lookup.answers import failed as failed_answers
from headrace.core.operators.columns import Kernel
from headrace.core.operators.columns import Stage as Columns
from headrace.core.operators.map import FailedRow
from headrace.core.operators.operator import Output
from headrace.core.plan import nodes

if TYPE_CHECKING:
    import polars as pl

_ID = "__id"


@dataclass(frozen=True, slots=True)
class Keys:
    """The distinct keys of a batch, and the index of each row's key; null if the key has a null."""

    keys: pl.DataFrame
    ids: pl.Series


class Stage:
    """The lookup of a step. `names` are its input and its output stream.

    `failed` takes the rows whose lookup failed; without it they fail the job. `reads_missed`:
    whether the stream of rows without a match has a reader.
    """

    def __init__(
        self,
        step: str,
        names: tuple[str, str],
        lookup: nodes.Lookup,
        now_us: Callable[[], int],
        failed: Callable[[list[FailedRow]], Iterator[Output]] | None = None,
        *,
        reads_missed: bool = True,
    ) -> None:
        self.step = step
        self.reads, self.leaves = names
        self.lookup = lookup
        self.put_out = 0
        """The number of rows emitted to the output stream."""
        self.missed = 0
        """The number of rows without a match in the table."""
        self._failed = failed
        self._reads_missed = reads_missed
        self._now_us = now_us
        self._kernel = Kernel(Columns((), {column.name: column.value for column in lookup.on}))
        self.nothing = failed_answers(0, lookup, "")
        """The empty set of answers, for rows without any key."""
        self._names = tuple(column.name for column in lookup.on)

    def keys(self, frame: pl.DataFrame) -> Keys:
        """Compute the keys of rows."""
        import polars as pl

        if self._kernel.needs_now:
            frame = frame.with_columns(pl.lit(self._now_us()).alias(PROCESSING_TIME))
        columns = self._kernel(frame, _UNCOUNTED).select(self._names)
        distinct = columns.drop_nulls().unique(maintain_order=True)
        if distinct.height == frame.height:  # each row has a key of its own
            return Keys(distinct, pl.int_range(frame.height, dtype=pl.UInt32, eager=True))
        numbered = distinct.with_row_index(_ID)
        ids = columns.join(numbered, on=self._names, how="left", maintain_order="left")[_ID]
        return Keys(distinct, ids)

    @property
    def fails(self) -> bool:
        """Whether rows whose lookup failed end the job."""
        return self._failed is None

    def rows(
        self, frame: pl.DataFrame, answers: pl.DataFrame, error: BaseException | None
    ) -> Iterator[Output]:
        """Yield the output of rows, given their answers; `error` is the error of a failed call.

        Raises ConnectorError if failed rows or rows without a match fail the job.
        """
        errors = answers[ERROR]
        if errors.null_count() < frame.height:
            yield from self._fail(frame, errors, error)
            valid = errors.is_null()
            frame, answers = frame.filter(valid), answers.filter(valid)
        found = answers[FOUND].fill_null(value=False)
        miss_count = frame.height - int(found.sum())
        if miss_count:
            self.missed += miss_count
            yield from self._miss(frame, found)
            if self.lookup.on_miss != "null":
                frame, answers = frame.filter(found), answers.filter(found)
        if frame.height:
            self.put_out += frame.height
            yield self.leaves, self._beside(frame, answers)

    def _beside(self, frame: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
        whole = frame.hstack([answers[name] for name in self.lookup.added.names])
        hidden = [name for name in HIDDEN if name in frame.columns]
        visible = [name for name in whole.columns if name not in hidden]
        return projected(whole, *visible, *hidden) if hidden else whole

    def _fail(
        self, frame: pl.DataFrame, errors: pl.Series, error: BaseException | None
    ) -> Iterator[Output]:
        """Handle the rows whose answer is an error."""
        rows = frame.filter(errors.is_not_null())
        messages = errors.drop_nulls().to_list()
        if error is not None and not isinstance(error, ConnectorError):
            raise error
        if self._failed is None:
            hint = error.hint if isinstance(error, ConnectorError) else ""
            final = error is None or error.final
            raise ConnectorError(
                f"{messages[0]} (lookup of {self._shown(rows)})", hint, final=final
            )
        visible = near(rows.drop(HIDDEN, strict=False)).iter_rows(named=True)
        failures = [FailedRow(why, row) for why, row in zip(messages, visible, strict=True)]
        yield from self._failed(failures)

    def _miss(self, frame: pl.DataFrame, found: pl.Series) -> Iterator[Output]:
        """Handle the rows without a match."""
        if self.lookup.on_miss == "fail":
            message = f"the table has no row for {self._shown(frame.filter(~found))}"
            hint = "on_miss sets what happens to such a row: null, drop, fail or {to: name}"
            raise ConnectorError(message, hint, final=True)
        if self.lookup.on_miss == "to" and self._reads_missed:
            yield self.lookup.missed, frame.filter(~found)

    def _shown(self, rows: pl.DataFrame) -> str:
        """Format the key of the first row."""
        if self._kernel.needs_now:
            return "such a key"
        keys = self._kernel(rows.head(1), _UNCOUNTED).select(self._names)
        key = near(keys).row(0, named=True)
        return ", ".join(f"{name} = {_value(value)}" for name, value in key.items())


def taken(
    frame: pl.DataFrame, ids: pl.Series, indices: Sequence[int], keys: int
) -> tuple[pl.Series, pl.Series]:
    """Return a mask of the rows with one of these keys, and each one's position in `indices`.

    `keys` is the number of keys that `ids` refer to.
    """
    import polars as pl

    places = pl.Series([None], dtype=pl.UInt32).new_from_index(0, keys)
    places = places.scatter(list(indices), pl.int_range(len(indices), dtype=pl.UInt32, eager=True))
    at = places.gather(ids) if keys else ids
    mask = at.is_not_null()
    return mask, at.filter(mask)


def _value(value: object) -> str:
    return "null" if value is None else str(value)


_UNCOUNTED = Counter[str]()
"""The counter of a kernel without conditions, which stays empty."""
