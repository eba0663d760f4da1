"""State of a step as it was before the step was changed, made to fit what the step is now.

Whether it may be is settled before (`core/fitting`): here columns are only added and dropped. A
call that is new begins as the partial state of no rows: a count from 0, a sum from null. So a
window that is open, or the key of a running aggregate, counts with it only the rows that come from
now on. New columns of rows that are kept as they came are null.

It is done to frames as they are restored, so it is the same for every backend: one that would link
its files reads them instead, this once.
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
"""A change of a frame of the state of that name."""

HIDDEN = (EVENT_TIME, ORDER)
"""What rows have that wait for their time."""


def fitted(step: nodes.PlanPart, plan: nodes.Plan, frozen: Frozen) -> Frozen:
    """What is restored of a step that was changed."""
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

    def changed(name: str, frame: pl.DataFrame) -> pl.DataFrame:
        for change in changes:
            frame = change(frame)
        return frame

    return Fitted(frozen, names, changed)


class Fitted:
    """A frozen state with other columns, and without the states that nobody opens any more."""

    def __init__(self, frozen: Frozen, names: frozenset[str], change: ChangeOf) -> None:
        self._frozen = frozen
        self._change = change
        self.names = frozen.names & names

    @property
    def groups(self) -> range:
        """The key groups that it has the state of."""
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
        """What that state is."""
        return self._frozen.shape(name)

    def runs(self, name: str, groups: range) -> Sequence[pl.DataFrame]:
        """The frames of that state."""
        if name not in self.names:
            return ()
        return [self._change(name, frame) for frame in self._frozen.runs(name, groups)]

    def table(self, name: str, groups: range) -> pl.DataFrame | None:
        """The rows of that state."""
        rows = self._frozen.table(name, groups) if name in self.names else None
        return None if rows is None else self._change(name, rows)

    def entries(self, name: str) -> pl.DataFrame | None:
        """The entries of that name."""
        rows = self._frozen.entries(name) if name in self.names else None
        return None if rows is None else self._change(name, rows)

    def stored(self, store: SnapshotStore) -> Document:
        """It is read, and never stored: what was restored of it is."""
        raise AssertionError("what was fitted to a step is not stored as it was")

    def release(self) -> None:
        """Nothing waits for it."""


def _changes(step: nodes.Step, keyed: nodes.Keyed, plan: nodes.Plan) -> list[Change]:
    """What is done to each frame, of whatever state."""
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
    """Add the calls that are new, and drop those that nobody makes any more."""
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
    """Whether a column of a state is part of a call's: they are named after its text."""
    return name.startswith("__") and "(" in name


def _rows(wanted: Mapping[str, pl.DataType], *, as_evicted: bool = False) -> Change:
    """Give the rows that are kept as a list these columns, beside the hidden ones they have."""
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
    """Give rows that are kept as they came these columns, in the order of those that come.

    Before them are those of the key, behind them these hidden ones, as far as they are there.
    """
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        key = [name for name in frame.columns if name.startswith("__k")]
        new = [pl.lit(None, t).alias(n) for n, t in wanted.items() if n not in frame.columns]
        behind = [name for name in hidden if name in frame.columns]
        return frame.with_columns(new).select(*key, *wanted, *behind)

    return change


def _of_runs(change: Change) -> Change:
    """A change of rows that are kept as they came; tables and timers stay as they are."""

    def of_rows(frame: pl.DataFrame) -> pl.DataFrame:
        is_of_rows = SLOT in frame.columns and NAME not in frame.columns
        return change(frame) if is_of_rows else frame

    return of_rows


def _put_out(wanted: Mapping[str, pl.DataType]) -> Change:
    """Give the rows that were put out of groups these columns."""
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
    """The states of a class with two inputs, and what is done to their frames."""
    sides = ((HELD, join.left), (HELD_RIGHT, join.right))
    types = {name: {c.name: c.value.type for c in side.columns} for name, side in sides}
    held = {name: _in_order(_of_names(of), *HIDDEN, SLOT) for name, of in types.items()}
    names = frozenset((*(state.name for state in of_body(body)), *held))
    return names, lambda name, rows: held[name](rows) if name in held else rows


def _shown(*, has: bool) -> Change:
    """Of a running aggregate without `having` all rows have been put out."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if has and SHOWN not in frame.columns:
            return frame.with_columns(pl.lit(True).alias(SHOWN))
        return frame if has else frame.drop(SHOWN, strict=False)

    return change


def _timed(*, keep: bool) -> Change:
    """Without ttl nothing is forgotten any more."""
    return lambda frame: frame if keep else frame.drop(UNTIL, strict=False)


def _remembered(*, forgets: bool) -> Change:
    """With a ttl, a key has the greatest time of its rows, as far as it is known."""
    import polars as pl

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        if not forgets:
            return frame.drop(UNTIL, LAST, strict=False)
        if LAST in frame.columns or SLOT in frame.columns:
            return frame
        return frame.with_columns(pl.lit(None, dtype=to_polars(TIMESTAMP)).alias(LAST))

    return change
