"""The operator of `match` with rules: patterns that come as rows, and hold from their event time.

A rule is a pattern over the rows from its event time to that of the row that replaces or removes
it. So each rule has the runs of a pattern, which get a slice of the released rows; all rules share
the rows that wait, the table of runs and the times at which keys are looked at. Their keys end with
the name of the rule, but a row belongs to the key group of the step's key.

All subtasks get the same rules in the same order, so that the same rules hold in each. A rule that
comes late holds from the next rows on: subtasks would leave out different ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import KEY, NO_CLOCK_US, KeyedTable, Redistribution, RunsLayout
from headrace.core.api.state_sizes import StateSize
from headrace.core.api.user_code import format_row
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.operators.dedup import BUFFER_STATE
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.matches.match_operator import (
    DUE_STATE,
    FailureHandler,
    PatternRuns,
)
from headrace.core.operators.matches.match_results import MatchOutput, Results
from headrace.core.operators.matches.match_state import (
    MATCHED_ROWS,
    MAX_KEYS,
    PATTERN,
    list_match_columns,
    list_waiting_columns,
)
from headrace.core.operators.operator import ClocklessOperator, FailedRow, Output
from headrace.core.operators.process.row_buffer import BroadcastRowBuffer, RowBuffer
from headrace.core.operators.ttl_operator import KEYS_STATE
from headrace.core.patterns.runs import Decision
from headrace.core.plan.nodes import Join, Match
from headrace.core.plan.nodes.matching import RuleMatch
from headrace.core.plan.rule_matches import (
    DEFINITION_COLUMNS,
    MAX_RULES,
    REMOVED_COLUMN,
    RULE_COLUMN,
    InvalidRule,
    RuleCompiler,
    read_definition,
)
from headrace.core.plan.states import HELD_RIGHT_ROWS, RULES_STATE
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from headrace.core.types.frames import count_up_to, to_integers
from headrace.core.types.key_groups import encode_keys
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.out_of_range_times import format_out_of_range

if TYPE_CHECKING:
    import polars as pl


class InvalidRuleRow(ExpressionFailure):
    """A row of which no rule can be made."""

    hint = (
        "on_error: skip in the step leaves such rows out, on_error: {to: NAME} collects them; the "
        "other rules hold"
    )


class StaleRule(ExpressionFailure):
    """A rule of a checkpoint that a changed pipeline cannot have."""

    hint = "undo the change, remove the rule, then change the pipeline"


@dataclass(eq=False, slots=True)
class ActiveRule:
    """A rule that holds."""

    name: str
    row: pl.DataFrame
    """The row that brought it."""
    definition: dict[str, Any]
    since_us: int
    runs: PatternRuns


class RuleMatchOperator(ClocklessOperator):
    """The operator of `match` with rules."""

    watermark_delay_us = 0

    def __init__(
        self,
        join: Join,
        matching: RuleMatch,
        context: KeyedContext,
        step: str,
        on_failure: FailureHandler | None,
    ) -> None:
        """`on_failure` takes the rows that fail; without it they fail the job."""
        import polars as pl

        self._common = common = matching.match
        self._late_to = join.late_to[0]
        self._context, self._step, self._on_failure = context, step, on_failure
        self._state = state = context.state
        self._grouping, self._rule_grouping = GroupingKey(join.left.key), GroupingKey(common.key)
        inside = self._grouping.internal_names
        self._rule_name = self._rule_grouping.internal_names[-1]
        key_types = self._rule_grouping.types
        stored = {**key_types, PATTERN: pl.String(), **list_match_columns(common)}
        self._table = state.open_table(KEYS_STATE, stored, inside)
        waiting = {**self._grouping.types, **list_waiting_columns(common)}
        self._buffer = RowBuffer(BUFFER_STATE, waiting, inside, state)
        self._due = state.open_runs(
            DUE_STATE, RunsLayout(key_types, inside, lambda frame: frame.unique())
        )
        self._row_columns = [column.name for column in join.right.columns]
        names = (*self._row_columns, EVENT_TIME, ORDER)
        self._changes = BroadcastRowBuffer(HELD_RIGHT_ROWS, names, state)
        self._stored_rules = state.open_entries(RULES_STATE, Redistribution.GROUPS)
        self._output = MatchOutput(common, context)
        self._compiler = RuleCompiler(common)
        self._rules = dict[str, ActiveRule]()
        """The rules that hold, by name."""
        state.buffered_sizes[KEYS_STATE] = self._measure_size
        self._restore_rules()

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer the rows that are not late."""
        frame = yield from self._context.drop_late_rows(frame, self._late_to)
        if frame.height:
            self._buffer.add(self._grouping.project_rows(frame, self._common.row.names))

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer rows of rules, which are never late."""
        if frame.height:
            self._changes.add(frame)
        return iter(())

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the matches that are decided, and change the rules."""
        if watermark_us <= self._state.clock_us:
            return
        rows, due = self._buffer.release(watermark_us), self._due.take(watermark_us)
        work = ReleasedRows(
            None if rows is None else self._grouping.encode_keys(rows),
            None if due is None else self._rule_grouping.encode_keys(due),
            self._rule_name,
        )
        changes = self._changes.release(watermark_us)
        if changes is not None:
            yield from self._change_rules(changes, work)
        for name in self._rules:
            yield from self._move_rule(name, watermark_us, work)
        yield from self._output.emit(work.results)
        self._evict()
        self._state.clock_us = watermark_us

    def flush_to_state(self) -> None:
        """Write the rows that wait, the rules, and the runs that have changed, to the state."""
        import polars as pl

        self._buffer.flush_to_state()
        self._changes.flush_to_state()
        for rule in self._rules.values():
            rule.runs.write_back()
        rows = [rule.row for rule in self._rules.values()]
        self._stored_rules.rows = pl.concat(rows) if rows else None

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows, of both inputs."""
        return len(self._buffer) + len(self._changes)

    def _list_values(self, rows: pl.DataFrame | None) -> list[dict[str, Any]]:
        """Return what rows say of rules."""
        wanted = {RULE_COLUMN, REMOVED_COLUMN, *DEFINITION_COLUMNS}
        names = [name for name in self._row_columns if name in wanted]
        return [] if rows is None else rows.select(names).to_dicts()

    def _restore_rules(self) -> None:
        import polars as pl

        rows = self._stored_rules.rows
        for at, values in enumerate(self._list_values(rows)):
            assert rows is not None
            try:
                rule = self._build_rule(rows.slice(at, 1), values, self._state.clock_us)
            except InvalidRule as error:
                with attribute_errors_to(self._step):
                    message = f"a stored rule does not fit the changed pipeline: {error}"
                    raise StaleRule(message) from error
            self._rules[rule.name] = rule
        if not 0 < self._table.rows <= MAX_KEYS:
            return
        filed = self._due.read(NO_CLOCK_US, MAX_WATERMARK_US)
        for name, rule in self._rules.items():
            if filed is not None:
                rule.runs.restore(filed.filter(pl.col(self._rule_name) == name))

    def _build_rule(
        self, row: pl.DataFrame, values: Mapping[str, Any], since_us: int
    ) -> ActiveRule:
        """Return the rule of a row with these values. Raises InvalidRule."""
        match, name = self._compiler.compile(values), values[RULE_COLUMN]
        on_failure = None if self._on_failure is None else partial(self._fail_rows, name)
        table = RuleTable(self._table, match, tuple(self._rule_grouping.types))
        runs = PatternRuns(match, table, self._due, self._step, on_failure)
        definition = read_definition(values)
        return ActiveRule(name, row, definition, since_us, runs)

    def _change_rules(self, changes: pl.DataFrame, work: ReleasedRows) -> Iterator[Output]:
        """Add, replace and remove rules, in the order of their rows."""
        times = to_integers(changes[EVENT_TIME]).to_list()
        changes = changes.select(*self._row_columns, EVENT_TIME)
        for at, (time_us, values) in enumerate(zip(times, self._list_values(changes), strict=True)):
            row, at_us = changes.slice(at, 1), max(time_us, self._state.clock_us)
            try:
                yield from self._change_rule(row, values, at_us, work)
            except InvalidRule as error:
                yield from self._fail_rule(str(error), row)

    def _change_rule(
        self, row: pl.DataFrame, values: Mapping[str, Any], at_us: int, work: ReleasedRows
    ) -> Iterator[Output]:
        """Add, replace or remove a rule. Raises InvalidRule, and changes nothing then."""
        name = values[RULE_COLUMN]
        before = self._rules.get(name)
        definition = read_definition(values)
        if values.get(REMOVED_COLUMN):
            if before is not None:
                yield from self._end_rule(name, at_us, work)
            return
        if before is not None and before.definition == definition:
            return
        if before is None and len(self._rules) >= MAX_RULES:
            raise InvalidRule(f'rule "{name}": there are {MAX_RULES:,} rules already')
        rule = self._build_rule(row, values, at_us)
        rule.runs.expect_no_stored_runs()
        if before is not None:
            yield from self._end_rule(name, at_us, work)
        self._rules[name] = rule

    def _end_rule(self, name: str, at_us: int, work: ReleasedRows) -> Iterator[Output]:
        """Move the runs of a rule up to its end, then remove them."""
        import polars as pl

        yield from self._move_rule(name, at_us, work)
        rule = self._rules.pop(name)
        if self._table.rows:
            # A stored key is filed as due, or it was when its runs ended in memory.
            keys = [pl.Series(KEY, [*rule.runs.changed_keys], dtype=pl.String)]
            filed = self._due.read(NO_CLOCK_US, MAX_WATERMARK_US)
            if filed is not None:
                of_rule = filed.filter(pl.col(self._rule_name) == name)
                keys.append(self._rule_grouping.encode_keys(of_rule)[KEY])
            due = work.select_due(name)
            keys += [] if due is None else [due[KEY]]
            self._table.remove(pl.concat(keys).unique())

    def _move_rule(self, name: str, until_us: int, work: ReleasedRows) -> Iterator[Output]:
        """Move the runs of a rule by the rows before a time, and end those whose time is over."""
        rule, decisions = self._rules[name], list[Decision]()
        runs, rows = rule.runs, work.select_rows(rule.since_us, until_us)
        relevant = None if rows is None else runs.select_relevant_rows([rows])
        if relevant is not None and relevant.height:
            failed = runs.move_runs(work.complete_keys(name, relevant), decisions)
            if failed.height:
                yield from runs.fail_rows(failed)
        due = work.select_due(name)
        runs.end_runs(None if due is None else due[KEY], until_us, decisions)
        if decisions:
            work.results.append(runs.build_results(decisions))

    def _evict(self) -> None:
        """Keep no runs in memory if those of too many keys are there, for all rules."""
        all_runs = [rule.runs for rule in self._rules.values()]
        if sum(runs.key_count for runs in all_runs) > MAX_KEYS:
            for runs in all_runs:
                runs.evict(0)

    def _fail_rule(self, message: str, row: pl.DataFrame) -> Iterator[Output]:
        """Fail a row of which no rule can be made; one subtask reports it."""
        (shown,) = format_out_of_range(row.drop(EVENT_TIME)).to_dicts()
        if self._on_failure is None:
            with attribute_errors_to(self._step):
                raise InvalidRuleRow(f"{message}, in the row {format_row(shown)}")
        if self._context.is_first:
            yield from self._on_failure([FailedRow(message, shown)])

    def _fail_rows(self, name: str, rows: list[FailedRow]) -> Iterator[Output]:
        """Fail the rows that would give a key too many runs of a rule."""
        assert self._on_failure is not None, "without a target, failures are raised"
        return self._on_failure(
            [FailedRow(f'rule "{name}": {each.error}', each.row) for each in rows]
        )

    def _measure_size(self) -> StateSize:
        sizes = (rule.runs.measure_size() for rule in self._rules.values())
        return sum(sizes, StateSize())


class ReleasedRows:
    """The rows that the watermark has passed, the keys that are due, and what they result in."""

    def __init__(self, rows: pl.DataFrame | None, due: pl.DataFrame | None, rule_name: str) -> None:
        """`rule_name` is the internal name of the key's column with the rule."""
        self._rows = rows
        self._due = due
        self._rule_name = rule_name
        self._times = None if rows is None else to_integers(rows[EVENT_TIME])
        self.results = list[Results]()

    def select_rows(self, since_us: int, until_us: int) -> pl.DataFrame | None:
        """Return the rows of `[since_us, until_us)`; None: there are none."""
        if self._rows is None or self._times is None:
            return None
        first, last = (count_up_to(self._times, at - 1) for at in (since_us, until_us))
        return self._rows.slice(first, last - first) if first < last else None

    def complete_keys(self, name: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the keys that they have for a rule, and its column of them."""
        import polars as pl

        suffix = encode_keys(pl.DataFrame({"rule": [name]}))[0]
        rule = pl.lit(name, dtype=pl.String).alias(self._rule_name)
        return rows.with_columns(pl.col(KEY) + pl.lit(suffix), rule)

    def select_due(self, name: str) -> pl.DataFrame | None:
        """Return the keys of a rule that are due."""
        import polars as pl

        return None if self._due is None else self._due.filter(pl.col(self._rule_name) == name)


class RuleTable:
    """The table of the runs of all rules, as one of them uses it."""

    def __init__(self, table: KeyedTable, match: Match, key: tuple[str, ...]) -> None:
        """`key` are the internal names of the columns of the key, and of the rule."""
        self._table = table
        self._pattern = str(match.pattern)
        self._key = key
        self.find = table.find
        self.remove = table.remove

    def put(self, frame: pl.DataFrame) -> None:
        """Insert or replace the rows of keys; the columns of the key are in each matched row."""
        import polars as pl

        first = pl.col(MATCHED_ROWS).list.first().struct
        pattern = pl.lit(self._pattern, dtype=pl.String).alias(PATTERN)
        key = map(first.field, self._key)
        self._table.put(frame.select(KEY, *key, pattern, pl.exclude(KEY)))

    @property
    def rows(self) -> int:
        """The number of keys, for all rules."""
        return self._table.rows
