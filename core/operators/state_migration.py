"""Migration of the state of a step that was changed to its new definition.

Compatibility is checked before (`core/checkpoint/compatibility`): here columns are only added and
dropped. A new aggregate call begins as the partial state of no rows: a count from 0, a sum from
null. So in an open window, or for a key of a running aggregate, the new call covers only the rows
after the restart. New columns of stored rows are null.

Frames are migrated as they are restored, which works the same for every backend: a backend that
would link its files reads them instead, this once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import (
    SLOT,
    Document,
    FrozenState,
    StateDescriptor,
    StepCounters,
)
from headrace.core.operators.changelog.aggregate import (
    EMITTED_ROW,
    get_fold_columns,
    get_output_columns,
)
from headrace.core.operators.changelog.conversion import get_row_types as get_converted_row_types
from headrace.core.operators.changelog.counting_aggregate import (
    build_subtracting_fold,
    get_group_columns,
)
from headrace.core.operators.changelog.ordered_pages import PAGE, SIZE
from headrace.core.operators.changelog.retraction_top import (
    COUNT,
    PAGES_PREFIX,
    get_ranked_columns,
)
from headrace.core.operators.changelog.rows import IS_DELETE, ROW_ID, ROWS_STATE
from headrace.core.operators.changelog.subtracting_aggregate import SubtractingFold
from headrace.core.operators.folds import (
    ROW_COUNT,
    AggregateFold,
    get_row_types,
)
from headrace.core.operators.frame_migration import (
    FrameMigration,
    migrate_dedup_keys,
    migrate_emitted_flag,
    migrate_emitted_rows,
    migrate_input_rows,
    migrate_listed_columns,
    migrate_row_lists,
    migrate_ttl,
    migrate_weighted_lists,
    restrict_to_runs,
)
from headrace.core.operators.joins.state_layout import build_join_migrations
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.matches.match_state import MATCHED_ROWS, list_matched_columns
from headrace.core.operators.over_state import LAST_ROWS, list_row_columns, list_table_columns
from headrace.core.operators.running_results import BEST_ROWS
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_keyed_operation, get_two_input_operation
from headrace.core.plan.nodes.matching import ConnectedMatch, RuleMatch
from headrace.core.plan.nodes.windows import Global
from headrace.core.plan.states import (
    HELD_RIGHT_ROWS,
    HELD_ROWS,
    NEWEST_STATE,
    RULES_STATE,
    get_read_columns,
    get_step_state,
    get_stored_columns,
    list_process_states,
)
from headrace.core.types.data_types import Schema, Type, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER, WEIGHT
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl

StateMigration: TypeAlias = "Callable[[str, pl.DataFrame], pl.DataFrame]"
"""A migration of a frame of the state of that name."""

BUFFERED_HIDDEN_COLUMNS = (EVENT_TIME, ORDER)
"""The hidden columns of rows that are buffered for the watermark."""


def migrate_state(step: nodes.PlanPart, plan: nodes.Plan, frozen: FrozenState) -> FrozenState:
    """Migrate the restored state of a changed step."""
    assert isinstance(step, nodes.Step)
    if (join := get_two_input_operation(step)) is not None:
        if isinstance(join.matching, ConnectedMatch):
            return MigratedState(frozen, *_build_connected_migration(join, join.matching.body))
        if isinstance(join.matching, RuleMatch):
            return MigratedState(frozen, *_build_rule_migration(join, join.matching.match))
        changes_of = build_join_migrations(
            join, ordered=any(s.has_row_order for s in step.main_outputs)
        )
        return MigratedState(
            frozen, frozenset(changes_of), lambda name, rows: changes_of[name](rows)
        )
    keyed, summary = get_keyed_operation(step), get_step_state(step, plan.key_groups)
    assert keyed is not None and summary is not None
    changes = list(_build_migrations(step, keyed, plan))
    names = frozenset(state.name for state in summary.states)
    if isinstance(keyed, nodes.Aggregate | nodes.Top) and keyed.reads_retractions:
        names |= {ROWS_STATE}  # of an older version, which the operator counts or ranks

    def migrate(name: str, frame: pl.DataFrame) -> pl.DataFrame:
        if name == NEWEST_STATE:
            return frame
        for change in changes:
            frame = change(frame)
        return frame

    return MigratedState(frozen, names, migrate)


class MigratedState:
    """A frozen state with migrated columns, without the states that the step no longer opens."""

    def __init__(self, frozen: FrozenState, names: frozenset[str], change: StateMigration) -> None:
        self._frozen = frozen
        self._change = change
        self.names = frozen.names & names

    @property
    def groups(self) -> range:
        """The key groups that the state covers."""
        return self._frozen.groups

    @property
    def clock_us(self) -> int:
        """The step's clock."""
        return self._frozen.clock_us

    @property
    def counters(self) -> StepCounters:
        """The step's counts."""
        return self._frozen.counters

    def describe_state(self, name: str) -> StateDescriptor:
        """Return the shape of a state."""
        return self._frozen.describe_state(name)

    def read_runs(self, name: str, groups: range) -> Sequence[pl.DataFrame]:
        """Return the migrated frames of a state of runs."""
        if name not in self.names:
            return ()
        return [self._change(name, frame) for frame in self._frozen.read_runs(name, groups)]

    def read_table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the migrated rows of a table."""
        rows = self._frozen.read_table(name, groups) if name in self.names else None
        return None if rows is None else self._change(name, rows)

    def read_entries(self, name: str) -> pl.DataFrame | None:
        """Return the migrated entries."""
        rows = self._frozen.read_entries(name) if name in self.names else None
        return None if rows is None else self._change(name, rows)

    def persist(self, store: SnapshotStore) -> Document:
        """Fail: a migrated state is only read; the state restored from it is stored."""
        raise AssertionError("a migrated state is read, not stored")

    def release(self) -> None:
        """Do nothing: no snapshot waits for this one."""


def _build_migrations(
    step: nodes.Step, keyed: nodes.KeyedOperation, plan: nodes.Plan
) -> list[FrameMigration]:
    """Return the migrations applied to each frame of any state."""
    match keyed:
        case nodes.Aggregate(counts_values=True):
            return _build_counted_migrations(keyed)
        case nodes.Aggregate(window=None, reads_retractions=True):
            return [_migrate_subtracted_groups(keyed), migrate_ttl(keep=keyed.ttl is not None)]
        case nodes.Aggregate(reads_retractions=True):
            return [migrate_weighted_lists(_map_polars_types(get_read_columns(keyed)))]
        case nodes.Top() if keyed.stores_pages or keyed.reads_retractions:
            return _build_retraction_top_migrations(keyed, _get_stored_types(step, keyed, plan))
        case nodes.Dedup() if keyed.changes is not None:
            return [migrate_ttl(keep=keyed.ttl is not None)]
        case nodes.Dedup():
            remembered = migrate_dedup_keys(forgets=keyed.ttl is not None)
            if not keyed.uses_event_time:
                return [remembered]
            return [
                remembered,
                restrict_to_runs(
                    migrate_input_rows(
                        _get_stored_types(step, keyed, plan), *BUFFERED_HIDDEN_COLUMNS, SLOT
                    )
                ),
            ]
        case nodes.Over():
            return [_migrate_ordered_rows(keyed), migrate_ttl(keep=keyed.ttl is not None)]
        case nodes.Match():
            return [_migrate_matched_rows(keyed)]
        case nodes.Process():
            return [
                restrict_to_runs(
                    migrate_input_rows(
                        _get_polars_types(keyed.columns), *BUFFERED_HIDDEN_COLUMNS, SLOT
                    )
                )
            ]
        case nodes.Top():
            return _build_top_migrations(keyed, _get_stored_types(step, keyed, plan))
        case nodes.ChangelogConversion():
            ordered = any(stream.has_row_order for stream in step.main_outputs)
            types = get_converted_row_types(keyed, ordered=ordered)
            return [migrate_emitted_rows(types), migrate_listed_columns(types)]
        case nodes.Aggregate():
            return _build_aggregate_migrations(keyed)
        case nodes.Apply():
            return [migrate_row_lists(_map_polars_types(get_read_columns(keyed)), as_evicted=True)]


def _build_top_migrations(
    top: nodes.Top, stored_types: dict[str, pl.DataType]
) -> list[FrameMigration]:
    if top.changelog_key is not None:
        return [
            migrate_row_lists(stored_types),
            restrict_to_runs(migrate_input_rows(stored_types, ORDER, ROW_ID, IS_DELETE, SLOT)),
        ]
    is_evicted = top.window is not None and top.window.evict is not None
    return [
        migrate_row_lists(stored_types, as_evicted=is_evicted),
        migrate_ttl(keep=top.ttl is not None),
    ]


def _build_retraction_top_migrations(
    top: nodes.Top, types: dict[str, pl.DataType]
) -> list[FrameMigration]:
    """Return the migrations of the rows of a `top` over removed rows."""
    if top.window is not None:
        return [migrate_weighted_lists(types)]
    rows = migrate_input_rows(types, ORDER, WEIGHT, SLOT)  # of an older version
    pages = migrate_listed_columns({**types, ORDER: to_polars(ORDER_TYPE)})
    return [migrate_row_lists(types), restrict_to_runs(rows), pages, _migrate_ranked_groups]


def _build_aggregate_migrations(aggregate: nodes.Aggregate) -> list[FrameMigration]:
    window = aggregate.window
    if window is None and aggregate.changelog_key is not None:
        reads = get_fold_columns(AggregateFold(aggregate, GroupingKey(aggregate.key)))
        return [
            restrict_to_runs(migrate_input_rows(reads, ROW_ID, SLOT)),
            migrate_emitted_rows(get_output_columns(aggregate)),
        ]
    if window is None:
        return [
            _migrate_calls(aggregate, newest=True),
            migrate_emitted_flag(has=aggregate.having is not None),
            migrate_ttl(keep=aggregate.ttl is not None),
        ]
    if window.evict:
        types = _map_polars_types(get_read_columns(aggregate))
        return [migrate_row_lists(types, as_evicted=True)]
    return [_migrate_calls(aggregate, newest=isinstance(window.shape, Global))]


def _build_counted_migrations(aggregate: nodes.Aggregate) -> list[FrameMigration]:
    """Return the migrations of groups with counted values.

    Groups of an older version, which has stored their rows, have neither states nor pages.
    """
    import polars as pl

    columns = get_group_columns(aggregate)
    grouping = GroupingKey(aggregate.key)
    fold = build_subtracting_fold(AggregateFold(aggregate, grouping), grouping)

    def add_pages(frame: pl.DataFrame) -> pl.DataFrame:
        if EMITTED_ROW not in frame.columns:
            return frame
        return frame.with_columns(
            pl.lit(None, type).alias(name)
            for name, type in columns.items()
            if name not in frame.columns
        )

    emitted = migrate_emitted_rows(get_output_columns(aggregate))
    return [emitted, _add_nothing(fold, EMITTED_ROW), add_pages]


def _migrate_subtracted_groups(aggregate: nodes.Aggregate) -> FrameMigration:
    """Add the states of new calls to the groups of an aggregate that subtracts removed rows."""
    grouping = GroupingKey(aggregate.key)
    fold = SubtractingFold(AggregateFold(aggregate, grouping, newest=True), grouping)
    return _add_nothing(fold, ROW_COUNT)


def _add_nothing(fold: SubtractingFold, mark: str) -> FrameMigration:
    """Add the states of no rows to frames of groups, which have the column `mark`."""
    nothing = fold.fold_nothing()

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if mark not in frame.columns:
            return frame
        states = (nothing[name].new_from_index(0, frame.height) for name in nothing.columns)
        return frame.with_columns(each for each in states if each.name not in frame.columns)

    return change


def _migrate_ranked_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """Give the pages of groups the columns of their rows; an older version has no pages."""
    import polars as pl

    if BEST_ROWS not in frame.columns:
        return frame
    row = get_row_types(frame.schema, BEST_ROWS)
    pages = get_ranked_columns(row)
    first = next(iter(pages))
    if first in frame.columns and frame[first].null_count() < frame.height:
        entry = {PAGE: pl.Int64(), SIZE: pl.Int64(), COUNT: pl.Int64(), **row}
        return migrate_listed_columns(entry, PAGES_PREFIX, PAGE)(frame)
    nothing = [pl.lit(None, type).alias(name) for name, type in pages.items()]
    return frame.drop(pages, strict=False).with_columns(nothing)


def _get_stored_types(
    step: nodes.Step, keyed: nodes.Top | nodes.Dedup, plan: nodes.Plan
) -> dict[str, pl.DataType]:
    return _get_polars_types(get_stored_columns(step, keyed, plan))


def _get_polars_types(columns: Schema) -> dict[str, pl.DataType]:
    return {field.name: to_polars(field.type) for field in columns}


def _map_polars_types(types: Mapping[str, Type]) -> dict[str, pl.DataType]:
    return {name: to_polars(type) for name, type in types.items()}


def _migrate_calls(operation: nodes.Aggregate, *, newest: bool) -> FrameMigration:
    """Add the new aggregate calls, and drop those that the step no longer has."""
    import polars as pl

    fold = AggregateFold(operation, GroupingKey(operation.key), newest=newest)
    order = {ORDER: to_polars(ORDER_TYPE)}
    nothing = fold.begin(pl.DataFrame(schema={**order, **fold.input_types}), ())

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        call_columns = [name for name in frame.columns if _is_call_column(name)]
        if not call_columns:
            return frame
        at = frame.columns.index(call_columns[0])
        before, after = (
            frame.columns[:at],
            [n for n in frame.columns[at:] if not _is_call_column(n)],
        )
        new = [nothing[name].new_from_index(0, frame.height) for name in nothing.columns]
        whole = frame.with_columns(c for c in new if c.name not in frame.columns)
        return whole.select(*before, *fold.state_columns, *after)

    return change


def _is_call_column(name: str) -> bool:
    """Whether a state column belongs to an aggregate call: such columns contain the call's text."""
    return name.startswith("__") and "(" in name


def _migrate_ordered_rows(over: nodes.Over) -> FrameMigration:
    """Give the rows that wait, and those that are stored with their keys, the columns of now."""
    row_columns, table_columns = list_row_columns(over), list_table_columns(over)
    waiting = migrate_input_rows(
        {name: type for name, type in row_columns.items() if name not in BUFFERED_HIDDEN_COLUMNS},
        *BUFFERED_HIDDEN_COLUMNS,
        SLOT,
    )

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if LAST_ROWS in frame.columns:
            there = get_row_types(frame.schema, LAST_ROWS)
            row = [
                (pl.element().struct.field(n) if n in there else pl.lit(None, t)).alias(n)
                for n, t in get_row_types(table_columns, LAST_ROWS).items()
            ]
            return frame.with_columns(pl.col(LAST_ROWS).list.eval(pl.struct(row)))
        is_waiting = SLOT in frame.columns and EVENT_TIME in frame.columns
        return waiting(frame) if is_waiting else frame

    return change


def _migrate_matched_rows(match: nodes.Match) -> FrameMigration:
    """Give the rows that wait, and the matched rows of keys, the columns of now."""
    waiting = migrate_input_rows(
        {
            field.name: to_polars(field.type)
            for field in match.row
            if match.stores_column(field.name)
        },
        *BUFFERED_HIDDEN_COLUMNS,
        SLOT,
    )
    row_types = list_matched_columns(match)

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if MATCHED_ROWS in frame.columns:
            there = get_row_types(frame.schema, MATCHED_ROWS)
            row = [
                (pl.element().struct.field(n) if n in there else pl.lit(None, t)).alias(n)
                for n, t in row_types.items()
            ]
            return frame.with_columns(pl.col(MATCHED_ROWS).list.eval(pl.struct(row)))
        is_waiting = SLOT in frame.columns and EVENT_TIME in frame.columns
        return waiting(frame) if is_waiting else frame

    return change


def _build_rule_migration(
    join: nodes.Join, match: nodes.Match
) -> tuple[frozenset[str], StateMigration]:
    """Return the states of a match with rules, and the migration of their frames."""
    types = _map_polars_types({each.name: each.value.type for each in join.right.columns})
    change_rules = migrate_input_rows(types, *BUFFERED_HIDDEN_COLUMNS)
    change_runs = _migrate_matched_rows(match)
    of_rules = {HELD_RIGHT_ROWS, RULES_STATE}
    names = frozenset((*of_rules, "waiting", "keys", "due"))
    return names, lambda name, rows: (change_rules if name in of_rules else change_runs)(rows)


def _build_connected_migration(
    join: nodes.Join, body: nodes.ProcessBody
) -> tuple[frozenset[str], StateMigration]:
    """Return the states of a class with two inputs, and the migration of their frames."""
    sides = ((HELD_ROWS, join.left), (HELD_RIGHT_ROWS, join.right))
    types = {name: {c.name: c.value.type for c in side.columns} for name, side in sides}
    migrations = {
        name: migrate_input_rows(_map_polars_types(of), *BUFFERED_HIDDEN_COLUMNS, SLOT)
        for name, of in types.items()
    }
    names = frozenset((*(state.name for state in list_process_states(body)), *migrations))
    return names, lambda name, rows: migrations[name](rows) if name in migrations else rows
