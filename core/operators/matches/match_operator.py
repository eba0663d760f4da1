"""The operator of `match`.

Rows are buffered until the watermark has passed them. Then they are tested, as far as that depends
on a row alone, for all variables at once; and only the rows of keys that have runs, or that may
start one, move the runs of their keys, one after the other. The times at which runs end are filed,
so that they are ended without a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import KEY, SLOT, KeyedTable, RunsLayout, SortedRuns
from headrace.core.api.user_code import format_row
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.operators.dedup import BUFFER_STATE
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.matches.conditions import RowConditions
from headrace.core.operators.matches.match_results import MatchOutput, MatchResults
from headrace.core.operators.matches.match_rows import MatchedRowColumns
from headrace.core.operators.matches.match_state import (
    KeyRuns,
    RunCache,
    list_match_columns,
    list_waiting_columns,
)
from headrace.core.operators.operator import ClocklessOperator, FailedRow, Output
from headrace.core.operators.process.row_buffer import RowBuffer
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.patterns.automaton import NO_VARIABLE, build_automaton
from headrace.core.patterns.matcher import Matcher, TooManyRuns
from headrace.core.patterns.runs import TIME, Decision, MatchRules
from headrace.core.plan.nodes import Match
from headrace.core.types.elements import HIDDEN_COLUMNS, MAX_WATERMARK_US
from headrace.core.types.out_of_range_times import format_out_of_range

if TYPE_CHECKING:
    import polars as pl

DUE_STATE = "due"
"""The name of the state with the times at which keys are looked at."""
END_SLOT = MAX_WATERMARK_US - 1
"""The slot of a key whose runs have no time: they end with the input."""

FailureHandler: TypeAlias = Callable[[list[FailedRow]], Iterator[Output]]


class TooManyRunsOfKey(ExpressionFailure):
    """A row would give a key more runs than `max_runs`."""

    hint = (
        "max_runs allows more, within ends them earlier; on_error: skip in the step leaves such "
        "rows out, on_error: {to: NAME} collects them"
    )


class MatchOperator(ClocklessOperator):
    """The operator of `match`."""

    watermark_delay_us = 0

    def __init__(
        self,
        operation: Match,
        context: KeyedContext,
        step: str,
        on_failure: FailureHandler | None,
    ) -> None:
        """`on_failure` takes the rows that fail; without it they fail the job."""
        self._operation = operation
        self._context = context
        self._state = context.state
        grouping = self._grouping = GroupingKey(operation.key)
        table = context.state.open_table(KEYS_STATE, list_match_columns(operation))
        inside = grouping.internal_names
        columns = {**grouping.types, **list_waiting_columns(operation)}
        self._buffer = RowBuffer(BUFFER_STATE, columns, inside, context.state)
        layout = RunsLayout(grouping.types, inside, lambda frame: frame.unique())
        self._due = context.state.open_runs(DUE_STATE, layout)
        self._runs = PatternRuns(operation, table, self._due, step, on_failure)
        context.state.buffered_sizes[KEYS_STATE] = self._runs.measure_size
        self._output = MatchOutput(operation, context)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer the rows that are not late."""
        frame = yield from self._context.drop_late_rows(frame, self._operation.late_to)
        if frame.height:
            stored = [name for name in frame.columns if self._operation.stores_column(name)]
            self._buffer.add(self._grouping.project_rows(frame, stored))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the matches that are decided."""
        if watermark_us <= self._state.clock_us:
            return
        decisions, failed = list[Decision](), None
        rows, due = self._buffer.release(watermark_us), self._due.take(watermark_us)
        if rows is not None and rows.height:
            rows = self._grouping.encode_keys(rows)
            failed = self._runs.move_runs(rows, watermark_us, decisions)
        if due is not None and due.height:
            self._runs.look_at_keys(self._grouping.encode_keys(due), watermark_us, decisions)
        if failed is not None and failed.height:
            yield from self._runs.fail_rows(failed)
        yield from self._output.emit([self._runs.build_results(decisions)])
        self._runs.evict()
        self._state.clock_us = watermark_us

    def flush_to_state(self) -> None:
        """Write the rows that wait, and the runs that have changed, to the state."""
        self._buffer.flush_to_state()
        self._runs.write_back()

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows."""
        return len(self._buffer)


class PatternRuns:
    """The runs of one pattern, by key: rows and times in, decisions out."""

    def __init__(
        self,
        operation: Match,
        table: KeyedTable,
        due: SortedRuns,
        step: str,
        on_failure: FailureHandler | None,
    ) -> None:
        """`table` has the runs of keys, `due` the times at which keys are looked at."""
        self._operation = operation
        self._due = due
        self._step = step
        self._on_failure = on_failure
        self._grouping = GroupingKey(operation.key)
        automaton = build_automaton(operation.pattern)
        self._columns = MatchedRowColumns(operation, automaton)
        self._conditions = RowConditions(operation, self._columns)
        skip = operation.after_match
        skip_to = NO_VARIABLE if skip.variable is None else automaton.names.index(skip.variable)
        rules = MatchRules(operation.within_us, skip.rule, skip_to, operation.max_runs)
        tests = self._conditions
        self._matcher = Matcher(automaton, rules, tests.crossed, tests.test_crossed)
        self._cache = RunCache(operation, table, self._matcher)
        self.build_results = MatchResults(operation, self._columns).build
        self.measure_size = self._cache.measure_size
        self.write_back = self._cache.write_back
        self.evict = self._cache.evict
        self._row_count = 0
        """The number of rows that have moved runs."""

    def move_runs(
        self,
        rows: pl.DataFrame,
        watermark_us: int,
        decisions: list[Decision],
    ) -> pl.DataFrame:
        """Move the runs of keys by their next rows, in row order; return the rows that fail."""
        self._cache.load(rows[KEY])
        fits = self._conditions.test_rows(rows)
        rows, fits = self._select_relevant_rows(rows, fits)
        values = self._columns.list_values(rows)
        places = range(self._row_count, self._row_count + rows.height)
        self._row_count += rows.height
        failed = list[int]()
        touched, push, cached = dict[str, int](), self._matcher.push, self._cache.keys
        moves = zip(
            rows[KEY].to_list(), fits.to_list(), zip(places, *values, strict=True), strict=True
        )
        for at, (key, fit, row) in enumerate(moves):
            found = cached.get(key)
            if found is None:
                found = cached[key] = KeyRuns([])
            try:
                push(found.runs, row, fit, decisions)
            except TooManyRuns:
                failed.append(at)
            touched[key] = at
        self._file_keys(touched, rows, watermark_us, decisions)
        return rows[failed]

    def _select_relevant_rows(
        self, rows: pl.DataFrame, fits: pl.Series
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Return the rows of keys that have runs, or of which a row may start one."""
        import polars as pl

        may_start = (fits & self._matcher.start.mask) != 0
        known = pl.Series(KEY, self._cache.keys.keys(), dtype=pl.String)
        keys = pl.concat([known, rows[KEY].filter(may_start)]).unique()
        is_relevant = rows[KEY].is_in(keys.implode())
        return rows.filter(is_relevant), fits.filter(is_relevant)

    def look_at_keys(self, due: pl.DataFrame, watermark_us: int, decisions: list[Decision]) -> None:
        """End the runs of keys whose time has passed."""
        due = due.unique(KEY, maintain_order=True)
        self._cache.load(due[KEY])
        touched = dict[str, int]()
        for at, key in enumerate(due[KEY].to_list()):
            found = self._cache.keys.get(key)
            if found is not None:
                found.due_us = None
                touched[key] = at
        self._file_keys(touched, due, watermark_us, decisions)

    def _file_keys(
        self,
        touched: dict[str, int],
        rows: pl.DataFrame,
        watermark_us: int,
        decisions: list[Decision],
    ) -> None:
        """End the runs whose time has passed, and file when to look at keys with others.

        `touched` has a row of each key.
        """
        import polars as pl

        within_us, slots, indexes = self._operation.within_us, list[int](), list[int]()
        keys, is_end = self._cache.keys, watermark_us == MAX_WATERMARK_US
        passed_us = None if within_us is None else watermark_us - within_us
        self._cache.changed.update(touched)
        for key, at in touched.items():
            found = keys[key]
            runs = found.runs
            if runs and is_end:
                self._matcher.finish(runs, decisions)
            elif runs and passed_us is not None and runs[0].start[TIME] <= passed_us:
                self._matcher.pass_time(runs, watermark_us, decisions)
            if not runs:
                del keys[key]
            elif found.due_us is None:
                found.due_us = END_SLOT if within_us is None else runs[0].start[TIME] + within_us
                slots.append(found.due_us)
                indexes.append(at)
        if indexes:
            inside = self._grouping.internal_names
            filed = rows[indexes].with_columns(pl.Series(SLOT, slots, dtype=pl.Int64))
            self._due.add(filed.select(*inside, SLOT))

    def fail_rows(self, rows: pl.DataFrame) -> Iterator[Output]:
        """Fail the rows that would give their keys too many runs."""
        message = f"more than {self._operation.max_runs:,} runs of one key (max_runs)"
        inside = (KEY, *self._grouping.internal_names, *HIDDEN_COLUMNS)
        shown = format_out_of_range(rows.drop(*inside, strict=False)).iter_rows(named=True)
        if self._on_failure is not None:
            return self._on_failure([FailedRow(message, row) for row in shown])
        keys = self._grouping.restore_names(rows.select(self._grouping.internal_names))
        key = f" for the key {format_row(keys.row(0, named=True))}" if keys.width else ""
        with attribute_errors_to(self._step):
            raise TooManyRunsOfKey(f"{message},{key} in the row {format_row(next(shown))}")
