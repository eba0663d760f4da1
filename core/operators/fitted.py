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

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.operators.changes.latest import GONE, ID
from headrace.core.operators.changes.running import ROW, read_columns, row_columns
from headrace.core.operators.dedup import LAST
from headrace.core.operators.folds import AT, Aggregates
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.joins.fitted import changes_of_join
from headrace.core.operators.kept import KEPT, row_types
from headrace.core.operators.process.due import NAME
from headrace.core.operators.running import SHOWN
from headrace.core.operators.top import BEST
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import kept_of_rows
from headrace.core.plan.layout import keyed_operation, two_sided
from headrace.core.plan.matching import Connected
from headrace.core.plan.states import HELD, HELD_RIGHT, kept_by, of_body, read_of_rows
from headrace.core.plan.windows import Global, Window
from headrace.core.snapshots import SnapshotStore
from headrace.core.state import SLOT, UNTIL, Counts, Document, Frozen, Shape
from headrace.core.types import TIMESTAMP, Schema, Type, to_polars

if TYPE_CHECKING:
    import polars as pl

Change: TypeAlias = "Callable[[pl.DataFrame], pl.DataFrame]"
ChangeOf: TypeAlias = "Callable[[str, pl.DataFrame], pl.DataFrame]"
"""A migration of a frame of the state of that name."""

HIDDEN = (EVENT_TIME, ORDER)
"""The hidden columns of rows that are buffered for the watermark."""


def fitted(step: nodes.PlanPart, plan: nodes.Plan, frozen: Frozen) -> Frozen:
    """Migrate the restored state of a changed step."""
    assert isinstance(step, nodes.Step)
    if (join := two_sided(step)) is not None:
        if isinstance(join.matching, Connected):
            return Fitted(frozen, *_of_connected(join, join.matching.body))
        changes_of = changes_of_join(join, ordered=any(s.ordered for s in step.rows))
        return Fitted(frozen, frozenset(changes_of), lambda name, rows: changes_of[name](rows))
    keyed, kept = keyed_operation(step), kept_by(step, plan.key_groups)
    assert keyed is not None and kept is not None
    changes = list(_changes(step, keyed, plan))
    names = frozenset(state.name for state in kept.states)

    def migrate(name: str, frame: pl.DataFrame) -> pl.DataFrame:
        for change in changes:
            frame = change(frame)
        return frame

    return Fitted(frozen, names, migrate)


class Fitted:
    """A frozen state with migrated columns, without the states that the step no longer opens."""

    def __init__(self, frozen: Frozen, names: frozenset[str], change: ChangeOf) -> None:
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
    def counts(self) -> Counts:
        """The step's counts."""
        return self._frozen.counts

    def shape(self, name: str) -> Shape:
        """Return the shape of a state."""
        return self._frozen.shape(name)

    def runs(self, name: str, groups: range) -> Sequence[pl.DataFrame]:
        """Return the migrated frames of a state of runs."""
        if name not in self.names:
            return ()
        return [self._change(name, frame) for frame in self._frozen.runs(name, groups)]

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """Return the migrated rows of a table."""
        rows = self._frozen.table(name, groups) if name in self.names else None
        return None if rows is None else self._change(name, rows)

    def entries(self, name: str) -> pl.DataFrame | None:
        """Return the migrated entries."""
        rows = self._frozen.entries(name) if name in self.names else None
        return None if rows is None else self._change(name, rows)

    def stored(self, store: SnapshotStore) -> Document:
        """Fail: a migrated state is only read; the state restored from it is stored."""
        raise AssertionError("a migrated state is read, not stored")

    def release(self) -> None:
        """Do nothing: no snapshot waits for this one."""


def _changes(step: nodes.Step, keyed: nodes.Keyed, plan: nodes.Plan) -> list[Change]:
    """Return the migrations applied to each frame of any state."""
    match keyed:
        case nodes.Dedup():
            remembered = _remembered(forgets=keyed.ttl is not None)
            if not keyed.in_time:
                return [remembered]
            return [remembered, _of_runs(_in_order(_kept(step, keyed, plan), *HIDDEN, SLOT))]
        case nodes.Process():
            return [_of_runs(_in_order(_polars(keyed.columns), *HIDDEN, SLOT))]
        case nodes.Top():
            wanted = _kept(step, keyed, plan)
            if keyed.changes is not None:
                return [_rows(wanted), _of_runs(_in_order(wanted, ORDER, ID, GONE, SLOT))]
            is_evicted = keyed.window is not None and keyed.window.evict is not None
            return [_rows(wanted, as_evicted=is_evicted), _timed(keep=keyed.ttl is not None)]
        case nodes.Apply():
            return [_rows(_of_names(read_of_rows(keyed)), as_evicted=True)]
        case nodes.Aggregate(window=None) if keyed.changes is not None:
            reads = read_columns(Aggregates(keyed, Grouping(keyed.key)))
            return [_of_runs(_in_order(reads, ID, SLOT)), _put_out(row_columns(keyed))]
        case nodes.Aggregate(window=None):
            shown = _shown(has=keyed.having is not None)
            return [_calls(keyed, newest=True), shown, _timed(keep=keyed.ttl is not None)]
        case nodes.Aggregate(window=window) if window and window.evict:
            return [_rows(_of_names(read_of_rows(keyed)), as_evicted=True)]
    assert isinstance(keyed.window, Window)
    return [_calls(keyed, newest=isinstance(keyed.window.shape, Global))]


def _kept(
    step: nodes.Step, keyed: nodes.Top | nodes.Dedup, plan: nodes.Plan
) -> dict[str, pl.DataType]:
    return _polars(kept_of_rows(step, keyed, plan))


def _polars(columns: Schema) -> dict[str, pl.DataType]:
    return {field.name: to_polars(field.type) for field in columns}


def _of_names(types: Mapping[str, Type]) -> dict[str, pl.DataType]:
    return {name: to_polars(type) for name, type in types.items()}


def _calls(operation: nodes.Aggregate, *, newest: bool) -> Change:
    """Add the new aggregate calls, and drop those that the step no longer has."""
    import polars as pl

    fold = Aggregates(operation, Grouping(operation.key), newest=newest)
    order = {ORDER: to_polars(ORDER_TYPE)}
    nothing = fold.begin(pl.DataFrame(schema={**order, **fold.types}), ())

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        kept = [name for name in frame.columns if _is_call(name)]
        if not kept:
            return frame
        at = frame.columns.index(kept[0])
        before, after = frame.columns[:at], [n for n in frame.columns[at:] if not _is_call(n)]
        new = [nothing[name].new_from_index(0, frame.height) for name in nothing.columns]
        whole = frame.with_columns(c for c in new if c.name not in frame.columns)
        return whole.select(*before, *fold.columns, *after)

    return change


def _is_call(name: str) -> bool:
    """Whether a state column belongs to an aggregate call: such columns contain the call's text."""
    return name.startswith("__") and "(" in name


def _rows(wanted: Mapping[str, pl.DataType], *, as_evicted: bool = False) -> Change:
    """Give the rows stored as lists these columns, in addition to their hidden ones."""
    import polars as pl

    def column(name: str, there: Sequence[str]) -> pl.Expr:
        if name in there:
            return pl.element().struct.field(name)
        return pl.lit(None, dtype=wanted[name]).alias(name)

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        for name in {KEPT, BEST}.intersection(frame.columns):
            there = list(row_types(frame.schema, name))
            hidden = [n for n in there if n.startswith("__")]
            names = [n for n in (*wanted, *hidden) if n not in (ORDER, AT, ID)]
            last = [n for n in (ORDER, AT, ID) if n in there]
            columns = [*(sorted(names) if as_evicted else names), *last]
            row = pl.struct(column(n, there) for n in columns)
            frame = frame.with_columns(pl.col(name).list.eval(row))
        return frame

    return change


def _in_order(wanted: Mapping[str, pl.DataType], *hidden: str) -> Change:
    """Give stored input rows these columns, in the order of the input.

    The columns of the key come before them, and those of these hidden columns that exist after
    them.
    """
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        key = [name for name in frame.columns if name.startswith("__k")]
        new = [pl.lit(None, t).alias(n) for n, t in wanted.items() if n not in frame.columns]
        trailing = [name for name in hidden if name in frame.columns]
        return frame.with_columns(new).select(*key, *wanted, *trailing)

    return change


def _of_runs(change: Change) -> Change:
    """Restrict a migration to stored input rows; tables and timers are left unchanged."""

    def of_rows(frame: pl.DataFrame) -> pl.DataFrame:
        is_of_rows = SLOT in frame.columns and NAME not in frame.columns
        return change(frame) if is_of_rows else frame

    return of_rows


def _put_out(wanted: Mapping[str, pl.DataType]) -> Change:
    """Give the emitted rows of groups these columns."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if ROW not in frame.columns:
            return frame
        there = pl.Schema(frame.schema[ROW])  # type: ignore[arg-type]
        row = [
            (pl.col(ROW).struct.field(n) if n in there else pl.lit(None, t)).alias(n)
            for n, t in wanted.items()
        ]
        return frame.with_columns(pl.struct(row).alias(ROW))

    return change


def _of_connected(join: nodes.Join, body: nodes.Body) -> tuple[frozenset[str], ChangeOf]:
    """Return the states of a class with two inputs, and the migration of their frames."""
    sides = ((HELD, join.left), (HELD_RIGHT, join.right))
    types = {name: {c.name: c.value.type for c in side.columns} for name, side in sides}
    held = {name: _in_order(_of_names(of), *HIDDEN, SLOT) for name, of in types.items()}
    names = frozenset((*(state.name for state in of_body(body)), *held))
    return names, lambda name, rows: held[name](rows) if name in held else rows


def _shown(*, has: bool) -> Change:
    """Migrate the flag of emitted rows: without `having`, a running aggregate emitted all rows."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if has and SHOWN not in frame.columns:
            return frame.with_columns(pl.lit(True).alias(SHOWN))
        return frame if has else frame.drop(SHOWN, strict=False)

    return change


def _timed(*, keep: bool) -> Change:
    """Drop the expiry times if the step has no TTL."""
    return lambda frame: frame if keep else frame.drop(UNTIL, strict=False)


def _remembered(*, forgets: bool) -> Change:
    """Migrate dedup keys: with a TTL, a key has the greatest time of its rows, null if unknown."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if not forgets:
            return frame.drop(UNTIL, LAST, strict=False)
        if LAST in frame.columns or SLOT in frame.columns:
            return frame
        return frame.with_columns(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(LAST))

    return change
