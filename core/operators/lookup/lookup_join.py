"""The lookup join: the keys of rows, and the output of rows once their keys are answered.

`LookupJoin` never waits, and can be tested with literals; `look_up_rows` waits for all answers of a
bounded set of rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.expressions.typed import PROCESSING_TIME
from headrace.core.operators.lookup.answers import ERROR, IS_FOUND, assemble_answers
from headrace.core.operators.lookup.answers import build_failed_answers as failed_answers
from headrace.core.operators.lookup.client import LookupClient
from headrace.core.operators.operator import FailedRow, Output
from headrace.core.operators.stateless_operators import ProjectionKernel
from headrace.core.operators.stateless_operators import ProjectionStage as Columns
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE, HIDDEN_COLUMNS
from headrace.core.types.frames import select_columns
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.out_of_range_times import format_out_of_range
from headrace.core.types.row_order import restore_row_time

if TYPE_CHECKING:
    import polars as pl


_ID_COLUMN = "__id"


@dataclass(frozen=True, slots=True)
class DistinctKeys:
    """The distinct keys of a batch, and the index of each row's key; null if the key has a null."""

    keys: pl.DataFrame
    row_ids: pl.Series


class LookupJoin:
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
        self.input_stream, self.output_stream = names
        self.lookup = lookup
        self.emitted_rows = 0
        """The number of rows emitted to the output stream."""
        self.missed_rows = 0
        """The number of rows without a match in the table."""
        self._handle_failed = failed
        self._emits_missed = reads_missed
        self._now_us = now_us
        self._kernel = ProjectionKernel(
            Columns((), {column.name: column.value for column in lookup.key})
        )
        self._key_names = tuple(column.name for column in lookup.key)

    @cached_property
    def no_answers(self) -> pl.DataFrame:
        """The empty set of answers, for rows without any key."""
        return failed_answers(0, self.lookup, "")

    def compute_keys(self, frame: pl.DataFrame) -> DistinctKeys:
        """Compute the keys of rows."""
        import polars as pl

        if self._kernel.needs_now:
            frame = frame.with_columns(pl.lit(self._now_us()).alias(PROCESSING_TIME))
        columns = self._kernel(frame, _EMPTY_COUNTER).select(self._key_names)
        if self.lookup.reads_upserts and DELETE in frame.columns:
            exists = ~frame[DELETE].fill_null(False)  # a deletion needs no answer
            columns = columns.with_columns(pl.when(exists).then(pl.all()))
        distinct = columns.drop_nulls().unique(maintain_order=True)
        if distinct.height == frame.height:  # each row has a key of its own
            return DistinctKeys(distinct, pl.int_range(frame.height, dtype=pl.UInt32, eager=True))
        numbered = distinct.with_row_index(_ID_COLUMN)
        ids = columns.join(numbered, on=self._key_names, how="left", maintain_order="left")[
            _ID_COLUMN
        ]
        return DistinctKeys(distinct, ids)

    @property
    def fails_job(self) -> bool:
        """Whether rows whose lookup failed end the job."""
        return self._handle_failed is None

    def join_rows(
        self, frame: pl.DataFrame, answers: pl.DataFrame, error: BaseException | None
    ) -> Iterator[Output]:
        """Yield the output of rows, given their answers; `error` is the error of a failed call.

        Raises ConnectorError if failed rows or rows without a match fail the job.
        """
        if self.lookup.reads_upserts:
            yield from self._join_upserts(frame, answers, error)
            return
        errors = answers[ERROR]
        if errors.null_count() < frame.height:
            yield from self._handle_errors(frame, errors, error)
            valid = errors.is_null()
            frame, answers = frame.filter(valid), answers.filter(valid)
        found = answers[IS_FOUND].fill_null(value=False)
        miss_count = frame.height - int(found.sum())
        if miss_count:
            self.missed_rows += miss_count
            yield from self._handle_misses(frame.filter(~found))
            if self.lookup.on_miss != "null":
                frame, answers = frame.filter(found), answers.filter(found)
        if frame.height:
            self.emitted_rows += frame.height
            yield self.output_stream, self._append_columns(frame, answers)

    def _join_upserts(
        self, frame: pl.DataFrame, answers: pl.DataFrame, error: BaseException | None
    ) -> Iterator[Output]:
        """Yield the output of upserts: one without a result deletes the row with its key."""
        import polars as pl

        deletes = pl.Series(DELETE, [False]).new_from_index(0, frame.height)
        if DELETE in frame.columns:
            deletes = frame[DELETE].fill_null(False)
        rows, errors = frame.drop(DELETE, strict=False), answers[ERROR]
        failed = errors.is_not_null() & ~deletes
        if failed.any():
            yield from self._handle_errors(rows.filter(failed), errors.filter(failed), error)
        missed = ~(answers[IS_FOUND].fill_null(value=False) | failed | deletes)
        if missed.any():
            self.missed_rows += int(missed.sum())
            yield from self._handle_misses(restore_row_time(rows.filter(missed)))
        gone = deletes | failed
        if self.lookup.on_miss != "null":
            gone |= missed
        self.emitted_rows += rows.height
        whole = rows.with_columns(gone.rename(DELETE))
        yield self.output_stream, self._append_columns(whole, answers)

    def _append_columns(self, frame: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
        whole = frame.hstack([answers[name] for name in self.lookup.added_schema.names])
        hidden = [name for name in HIDDEN_COLUMNS if name in frame.columns]
        visible = [name for name in whole.columns if name not in hidden]
        return select_columns(whole, *visible, *hidden) if hidden else whole

    def _handle_errors(
        self, frame: pl.DataFrame, errors: pl.Series, error: BaseException | None
    ) -> Iterator[Output]:
        """Handle the rows whose answer is an error."""
        rows = frame.filter(errors.is_not_null())
        messages = errors.drop_nulls().to_list()
        if error is not None and not isinstance(error, ConnectorError):
            raise error
        if self._handle_failed is None:
            hint = error.hint if isinstance(error, ConnectorError) else ""
            final = error is None or error.is_final
            raise ConnectorError(
                f"{messages[0]} (lookup of {self._format_key(rows)})", hint, final=final
            )
        visible = format_out_of_range(rows.drop(HIDDEN_COLUMNS, strict=False)).iter_rows(named=True)
        failures = [FailedRow(why, row) for why, row in zip(messages, visible, strict=True)]
        yield from self._handle_failed(failures)

    def _handle_misses(self, rows: pl.DataFrame) -> Iterator[Output]:
        """Handle the rows without a match."""
        if self.lookup.on_miss == "fail":
            message = f"the table has no row for {self._format_key(rows)}"
            hint = "on_miss sets what happens to such a row: null, drop, fail or {to: name}"
            raise ConnectorError(message, hint, final=True)
        if self.lookup.on_miss == "to" and self._emits_missed:
            yield self.lookup.miss_stream, rows

    def _format_key(self, rows: pl.DataFrame) -> str:
        """Format the key of the first row."""
        if self._kernel.needs_now:
            return "such a key"
        keys = self._kernel(rows.head(1), _EMPTY_COUNTER).select(self._key_names)
        key = format_out_of_range(keys).row(0, named=True)
        return ", ".join(f"{name} = {_format_value(value)}" for name, value in key.items())


def match_rows(
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


def _format_value(value: object) -> str:
    return "null" if value is None else str(value)


_EMPTY_COUNTER = Counter[str]()
"""The counter of a kernel without conditions, which stays empty."""


async def look_up_rows(
    stage: LookupJoin, client: LookupClient, frame: pl.DataFrame
) -> list[Output]:
    """Return the output of the rows. Raises ConnectorError."""
    import polars as pl

    if not frame.height:
        return []
    keys = stage.compute_keys(frame)
    request, changed = client.request(keys.keys), asyncio.Event()
    request.on_change = changed.set
    while request.keys_left:
        await changed.wait()
        changed.clear()
    answers = assemble_answers(request.keys, request.parts) if request.parts else stage.no_answers
    answers = answers.select(pl.all().gather(keys.row_ids))
    return list(stage.join_rows(frame, answers, request.error))
