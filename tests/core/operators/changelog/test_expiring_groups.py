"""Steps over rows that may be removed forget a group, with its pages, by `ttl`.

Restarts at another parallelism: tests/core/job/test_expiring_tables.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal, TypeAlias

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.api.state import StepState
from headrace.core.expressions import type_expression
from headrace.core.operators.changelog.counting_aggregate import CountingAggregateOperator
from headrace.core.operators.changelog.expiring_groups import ExpiringGroupsOperator
from headrace.core.operators.changelog.retraction_top import RetractionTopOperator
from headrace.core.operators.changelog.tied_top import TiedTopOperator
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.operators.operator import OFFLOAD, Operator, Output
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, HIDDEN_COLUMNS, MAX_WATERMARK_US, ORDER, WEIGHT
from headrace.core.types.row_order import ORDER_TYPE
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import ALL, aggregate, computed, place, schema_of, timed

SCHEMA = schema_of(g="string", v="int")
TTL_S = 40
SECOND_US = 1_000_000
Kind = Literal["subtracting", "counting", "top", "tied"]
Row: TypeAlias = "tuple[str | None, int, int]"
"""A group, a value, and the event time in seconds."""
Shown: TypeAlias = Counter[object]
"""The rows of the output, each as often as it is there."""

COLUMNS = {
    "n": "count(*)",
    "low": "min(v)",
    "kinds": "count(distinct v)",
    "mid": "median(v)",
    "all": "collect_set(v)",
}


def build(kind: Kind, state: StepState, key: str | None = "g") -> Operator:
    """Build the operator of a step with a `ttl`; its pages are small."""
    keys = computed(SCHEMA, key) if key else ()
    context, ttl = place(state, ordered=True), Ttl(TTL_S * SECOND_US)
    if kind in ("subtracting", "counting"):
        columns = COLUMNS if kind == "counting" else {"n": "count(*)", "total": "sum(v)"}
        made = replace(aggregate(SCHEMA, keys, columns, ttl=ttl), reads_retractions=True)
        if kind == "subtracting":
            return build_keyed_operator(made, context)
        counting = CountingAggregateOperator(made, context, page_values=2)
        return ExpiringGroupsOperator(counting, keys, ttl.after_us, context)
    by = nodes.Ranking(type_expression("v", SCHEMA), True, True, "v desc")
    ties: Literal["rank", "row_number"] = "rank" if kind == "tied" else "row_number"
    top = nodes.Top(keys, None, 2, (by,), ttl, reads_retractions=True, ties=ties)
    built = TiedTopOperator if kind == "tied" else RetractionTopOperator
    return ExpiringGroupsOperator(built(top, context, 2), keys, ttl.after_us, context)


def changes(rows: Sequence[tuple[Row, int]]) -> pl.DataFrame:
    """Return rows with their weights, event times and positions."""
    values = [(g, v, {"time": at, "at": at, "part": 0}, weight) for (g, v, at), weight in rows]
    types = {"g": pl.String(), "v": pl.Int32(), ORDER: to_polars(ORDER_TYPE), WEIGHT: pl.Int64()}
    return timed(pl.DataFrame(values, types, orient="row"), [at for (_, _, at), _ in rows])


def list_result(kind: Kind, key: tuple[str | None, ...], rows: Iterable[Row]) -> list[object]:
    """Return the output rows of a group with these rows."""
    values = sorted((v for _, v, _ in rows), reverse=True)
    if not values:
        return []
    match kind:
        case "subtracting":
            return [(*key, len(values), sum(values))]
        case "counting":
            kinds = sorted(set(values))
            return [(*key, len(values), kinds[0], len(kinds), median(values), tuple(kinds))]
        case "top":
            ordered = sorted(rows, key=lambda row: (-row[1], row[2]))
            return [(row[0], row[1], rank) for rank, row in enumerate(ordered[:2], 1)]
        case "tied":
            ranks = [(row[0], row[1], 1 + values.index(row[1])) for row in rows]
            return [row for row in ranks if row[2] <= 2]


@dataclass
class Group:
    """A group as it is stored: its rows, the time of its newest one, and what it has emitted."""

    rows: Counter[Row] = field(default_factory=Counter)
    newest: int = -(1 << 40)
    emitted: list[object] = field(default_factory=list)


@dataclass
class Model:
    """What a step comes to, by the words of its documentation."""

    kind: Kind
    key: str | None
    clock: int | None = None
    late: int = 0
    groups: dict[tuple[str | None, ...], Group] = field(default_factory=dict)
    table: dict[object, object] = field(default_factory=dict)
    shown: Shown = field(default_factory=Counter)

    def process(self, rows: Sequence[tuple[Row, int]]) -> None:
        """Apply a batch, and emit the groups that it changes."""
        touched = dict[tuple[str | None, ...], Group]()
        for row, weight in rows:
            if self.clock is not None and row[2] + TTL_S < self.clock:
                self.late += 1
                continue
            key: tuple[str | None, ...] = (row[0],) if self.key else ()
            group = touched[key] = self.groups.setdefault(key, Group())
            group.rows[row] += weight
            group.newest = max(group.newest, row[2])
        for key, group in touched.items():
            assert all(count >= 0 for count in group.rows.values()), "late changes take nothing"
            self._emit(key, group)

    def _emit(self, key: tuple[str | None, ...], group: Group) -> None:
        before, group.emitted = group.emitted, list_result(self.kind, key, [*group.rows.elements()])
        self.shown.update(group.emitted)
        self.shown.subtract(before)
        if self.kind != "tied":
            for row in before:
                self.table.pop(self._identify(row))
            self.table.update((self._identify(row), row) for row in group.emitted)

    def _identify(self, row: object) -> object:
        assert isinstance(row, tuple)
        if self.kind == "top":
            return (row[0], row[-1]) if self.key else row[-1]
        return row[0] if self.key else ()

    def advance(self, watermark: int) -> None:
        """Forget the groups whose newest row has expired."""
        self.clock = watermark
        self.groups = {
            key: group for key, group in self.groups.items() if group.newest + TTL_S >= watermark
        }

    def apply(self, outputs: Iterable[Output], table: dict[object, object], shown: Shown) -> None:
        """Apply the output of an operator to a table, or to a multiset."""
        for stream, frame in outputs:
            if stream == OFFLOAD:
                continue
            rows = (
                tuple(tuple(each) if isinstance(each, list) else each for each in row)
                for row in frame.drop(HIDDEN_COLUMNS, strict=False).rows()
            )
            if self.kind == "tied":
                for row, weight in zip(rows, frame[WEIGHT], strict=True):
                    shown[row] += weight
                continue
            for row, deleted in zip(rows, frame[DELETE], strict=True):
                if deleted:
                    del table[self._identify(row)]
                else:
                    table[self._identify(row)] = row


ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from(["a", "a", "a", "b", None]), st.integers(0, 9), st.integers(0, 60)
)
Command: TypeAlias = "tuple[Literal['add'], Row] | tuple[Literal['remove', 'advance'], int] | str"
COMMANDS: st.SearchStrategy[list[Command]] = st.lists(
    st.one_of(
        *[ROWS.map(lambda row: ("add", row))] * 4,
        st.integers(0, 99).map(lambda at: ("remove", at)),
        st.integers(0, 30).map(lambda more: ("advance", more)),
        st.sampled_from(["cut", "restart"]),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=25)
@given(
    commands=COMMANDS,
    kind=st.sampled_from(["subtracting", "counting", "top", "tied"]),
    key=st.sampled_from(["g", "g", None]),
)
def test_groups_are_forgotten_whatever_the_batches_and_restarts(
    commands: list[Command], kind: Kind, key: str | None
) -> None:
    """Times of rows go on with the watermark; a row is removed after it was added, or too late."""
    state: StepState = MemoryBackend().open_state(ALL)
    operator, model = build(kind, state, key), Model(kind, key)
    table, shown = dict[object, object](), Shown()
    there, batch, now = list[Row](), list[tuple[Row, int]](), 0
    for command in (*commands, "cut"):
        match command:
            case "add", (str() | None as group, int(value), int(after)):
                there.append((group, value, now + after - 30))
                batch.append((there[-1], 1))
                continue
            case "remove", int(at):
                if there:
                    batch.append((there.pop(at % len(there)), -1))
                continue
        if batch:
            model.process(batch)
            model.apply(operator.process(changes(batch)), table, shown)
            batch = []
        if command == "restart":
            state = MemoryBackend().open_state(replace(ALL, restored_states=(state.freeze(),)))
            operator = build(kind, state, key)
        elif isinstance(command, tuple):
            now += int(command[1])
            model.advance(now)
            assert not [*operator.advance(now * SECOND_US)]
        assert table == model.table
        assert kind != "tied" or +shown == +model.shown
        assert state.counters.late == model.late
    assert not [*operator.advance(MAX_WATERMARK_US)]
    if kind != "subtracting":  # the backend drops expired rows when there are many
        assert not any(size.rows for size in state.measure_sizes().values())


@pytest.mark.parametrize("kind", ["subtracting", "counting", "top", "tied"])
def test_the_newest_row_of_a_group_counts_though_it_was_removed(kind: Kind) -> None:
    """Otherwise it would depend on the batches whether there was a group without rows."""
    removed, older, later = ("a", 1, 100), ("a", 2, 90), ("a", 3, 140)
    whole = [(removed, 1), (removed, -1), (older, 1)]
    for cuts in ([3], [2, 1], [1, 1, 1]):
        operator = build(kind, MemoryBackend().open_state(ALL))
        model, table, shown = Model(kind, "g"), dict[object, object](), Shown()
        batches = iter(whole)
        for size in cuts:
            batch = [next(batches) for _ in range(size)]
            model.apply(operator.process(changes(batch)), table, shown)
        list(operator.advance(135 * SECOND_US))  # 90 s has expired, 100 s has not
        model.apply(operator.process(changes([(later, 1)])), table, shown)
        rows = list_result(kind, ("a",), [older, later])
        assert (+shown if kind == "tied" else Shown(table.values())) == Shown(rows)
