"""The operator of `match`.

Rows are buffered until the watermark has passed them. Then the rows of keys that have runs, or that
may start one, are tested, as far as that depends on a row alone, for all variables at once; and
they move the runs of their keys, one after the other. Timers end runs without a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.state import KEY, NO_CLOCK_US, RunsLayout, SortedRuns
from headrace.core.api.user_code import format_row
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions.typed import find_inputs
from headrace.core.operators.dedup import BUFFER_STATE
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.matches.conditions import RowConditions
from headrace.core.operators.matches.match_results import MatchOutput, MatchResults
from headrace.core.operators.matches.match_rows import MatchedRowColumns
from headrace.core.operators.matches.match_state import (
    MAX_KEYS,
    RunCache,
    RunTable,
    list_match_columns,
    list_waiting_columns,
)
from headrace.core.operators.matches.relevant_rows import RelevantRows
from headrace.core.operators.matches.run_timers import RunTimers
from headrace.core.operators.operator import ClocklessOperator, FailedRow, Output
from headrace.core.operators.process.row_buffer import RowBuffer, sort_rows
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.patterns.automaton import NO_VARIABLE, build_automaton
from headrace.core.patterns.key_matcher import KeyMatcher, RunChanges
from headrace.core.patterns.matcher import Matcher
from headrace.core.patterns.runs import TIME, Decision, MatchRules, Row, get_first_start
from headrace.core.plan.nodes import Match
from headrace.core.types.elements import HIDDEN_COLUMNS, MAX_WATERMARK_US
from headrace.core.types.frames import concat_contiguous, pick_rows
from headrace.core.types.out_of_range_times import format_out_of_range

if TYPE_CHECKING:
    import polars as pl

DUE_STATE = "due"
"""The name of the state with the times at which keys are looked at."""

FITS = "__fits"
"""The column with the variables that a row fits."""
ROWS_AT_ONCE = 2048
"""The number of rows that are Python values at the same time, so that they stay in the caches."""

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
        filed = (
            self._due.read(NO_CLOCK_US, MAX_WATERMARK_US) if 0 < table.rows <= MAX_KEYS else None
        )
        if filed is not None:
            self._runs.restore(filed)

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
        runs, frames = self._runs, self._buffer.release_frames(watermark_us)
        due = self._due.take(watermark_us)
        if frames:
            rows = sort_rows(runs.select_relevant_rows(frames))
            failed = runs.move_runs(self._grouping.encode_keys(rows), decisions)
        keys = None if due is None else self._grouping.encode_keys(due)[KEY]
        runs.end_runs(keys, watermark_us, decisions)
        if failed is not None and failed.height:
            yield from runs.fail_rows(failed)
        if decisions:
            yield from self._output.emit([runs.build_results(decisions)])
        runs.evict()
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
        table: RunTable,
        due: SortedRuns,
        step: str,
        on_failure: FailureHandler | None,
    ) -> None:
        """`table` has the runs of keys, `due` the times at which keys are looked at."""
        self._operation = operation
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
        matcher = Matcher(automaton, rules, tests.crossed, tests.test_crossed)
        self._matcher = KeyMatcher(matcher)
        may_start = tests.build_filter(matcher.start.mask)
        named = zip(operation.key, self._grouping.internal_names, strict=True)
        key = [name for each, name in named if find_inputs(each.value)]  # a rule is a constant
        self._relevant = RelevantRows(key, may_start, self._columns)
        self._timers = RunTimers(operation.within_us, self._columns, due)
        self._cache = RunCache(operation, table, self._matcher)
        self.build_results = MatchResults(operation, self._columns).build
        self.measure_size = self._cache.measure_size
        self._row_count = 0
        """The number of rows that have moved runs."""

    def select_relevant_rows(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return at least the rows that can move a run, in the order in which they came."""
        if self._cache.is_complete:
            return self._relevant.select(frames, self._cache.keys.values())
        return concat_contiguous(frames)

    def move_runs(self, rows: pl.DataFrame, decisions: list[Decision]) -> pl.DataFrame:
        """Move the runs of keys by their next rows, in row order; return the rows that fail."""
        self._cache.load(rows[KEY])
        changes = RunChanges(decisions, self._cache.changed)
        first = self._row_count
        tested = rows.hstack([self._conditions.test_rows(rows).alias(FITS)])
        if rows.height > ROWS_AT_ONCE:
            # A key's run, which is nowhere near those of other keys in memory, is read once.
            tested = tested.sort(tested[KEY].hash(), maintain_order=True)
        for part in tested.iter_slices(ROWS_AT_ONCE):
            self._matcher.push_rows(self._cache.keys, self._list_rows(part), changes)
        self._timers.add_starts(pick_rows(tested, [at - first for at in changes.started]))
        failed = pick_rows(tested, [at - first for at in changes.failed])
        return sort_rows(failed.drop(FITS))

    def _list_rows(self, rows: pl.DataFrame) -> Iterator[tuple[str, int, Row]]:
        """Number rows, and yield them with their keys and the variables that they fit."""
        first = self._row_count
        self._row_count += rows.height
        columns = self._columns.list_values(rows)
        tuples = zip(range(first, self._row_count), *columns, strict=True)
        return zip(rows[KEY].to_list(), rows[FITS].to_list(), tuples, strict=True)

    def end_runs(
        self, filed: pl.Series | None, watermark_us: int, decisions: list[Decision]
    ) -> None:
        """End the runs whose time has passed; `filed` are the keys that were filed up to then."""
        stored = list[str]()
        if filed is not None:
            stored = self._timers.take_filed(filed.unique())
            self._cache.load(filed)
        started = self._timers.take_started(watermark_us)
        cached, changed = self._cache.keys, self._cache.changed
        is_end, within_us = watermark_us == MAX_WATERMARK_US, self._operation.within_us or 0
        for key in [*cached] if is_end else [*stored, *started]:
            runs = cached.get(key)
            if runs is None:
                continue
            left = None
            if is_end:
                self._matcher.finish(runs, decisions)
            elif get_first_start(runs)[TIME] + within_us <= watermark_us:
                left = self._matcher.pass_time(runs, watermark_us, decisions)
            else:
                continue
            changed.add(key)
            if left is None:
                del cached[key]
            else:
                cached[key] = left
        self._timers.file((key, cached[key]) for key in stored if key in cached)

    def write_back(self) -> None:
        """Write the runs that have changed to the state."""
        cached, changed = self._cache.keys, self._cache.changed
        self._timers.file((key, cached[key]) for key in changed if key in cached)
        self._cache.write_back()

    @property
    def key_count(self) -> int:
        """The number of keys with runs in memory."""
        return len(self._cache.keys)

    @property
    def changed_keys(self) -> Collection[str]:
        """The keys whose runs may differ from the table."""
        return self._cache.changed

    def expect_no_stored_runs(self) -> None:
        """Rely on it that the table has no runs of this pattern."""
        self._cache.is_complete = True

    def restore(self, filed: pl.DataFrame) -> None:
        """Load all runs of the table into memory; `filed` has the keys that were filed."""
        self._cache.load_all(self._grouping.encode_keys(filed)[KEY])

    def evict(self, limit: int | None = None) -> None:
        """Keep the runs of half as many keys in memory if those of too many are there."""
        limit = MAX_KEYS if limit is None else limit
        if max(len(self._cache.keys), len(self._cache.changed)) <= limit:
            return
        self.write_back()
        if len(self._cache.keys) > limit:
            self._cache.drop_oldest(limit // 2)
            self._timers.forget()

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
