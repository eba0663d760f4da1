"""A job is stopped, its pipeline changed, and it resumes: the rows are those of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest

from headrace.connectors.memory import MemoryEvent
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.aggregates import (
    AGGREGATES,
    EXAMPLE_ROWS,
    AggregateCall,
    compute_partial_states,
    merge_states,
    type_aggregate_text,
)
from headrace.core.api.state_backend import StateBackend
from headrace.core.checkpoint.compatibility import RestoreOptions, check_compatibility
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.types.data_types import Field, Schema, to_polars
from headrace.core.types.elements import DELETE
from headrace.core.types.row_order import add_row_order
from headrace.core.types.type_parser import parse_type
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.home import Home
from tests.support.runtime.changed_pipelines import HEAD, pipeline, plan
from tests.support.runtime.crashing_jobs import PATIENT, Crashed, Fate, FlakyMemory, Life
from tests.support.runtime.faulty_disk import FaultyDisk

BEGIN = datetime(2026, 1, 31, 8, tzinfo=UTC)
COLUMNS = {
    "k": pl.Int64(),
    "s": pl.String(),
    "v": pl.Int64(),
    "x": pl.Float64(),
    "at": pl.Datetime("us", "UTC"),
}

BEFORE = [(1, "a", 1, 0.5, 0), (2, "b", 2, 1.0, 1), (1, "c", 3, 1.5, 2)]
"""Rows that come before the change: k, s, v, x, and the seconds since the beginning."""
AFTER = [(1, "d", 10, 2.0, 4), (3, "e", 20, 3.0, 5), (2, "f", 30, 4.0, 60)]


def rows(values: list[tuple[Any, ...]]) -> pl.DataFrame:
    """Rows as they come."""
    timed = [(*rest, BEGIN + timedelta(seconds=second)) for *rest, second in values]
    return pl.DataFrame(timed, COLUMNS, orient="row")


Backend: TypeAlias = Callable[[], StateBackend]


class Job:
    """A job whose pipeline is changed once, between these rows."""

    def __init__(self, folder: Path, backend: Backend = MemoryBackend) -> None:
        self.folder = folder
        splits: dict[str, list[MemoryEvent]] = {"0": [rows(BEFORE), 5.0, rows(AFTER)]}
        self.memory = FlakyMemory({"in": splits, "more": {"0": [rows(AFTER)]}})
        self.disk = FaultyDisk()  # where files of state can be linked to
        self.root = str(folder / "home")
        self.life = Life(folder, "", self.memory, backend=backend, disk=self.disk, root=self.root)
        self.told: tuple[str, ...] = ()

    def before(self, text: str) -> None:
        """Run a pipeline until the rows of before have been read."""
        self.life.text = text
        assert self.life.run(1, Fate(stopped_at=2.0)).failure is None

    def after(
        self, text: str, names: str, *fresh: str, lose: bool = False, fate: Fate | None = None
    ) -> list[tuple[Any, ...]]:
        """Resume with another pipeline to the end; return these columns of its final output."""
        self._check(text, RestoreOptions(frozenset(fresh), lose))
        self.life.text, self.life.fresh = text, frozenset(fresh)
        outcome = self.life.run(2, fate)
        assert outcome.failure is None, outcome.failure
        table: dict[object, tuple[Any, ...]] = {}
        changes = (row for f in self.memory.outputs.get("out", ()) for row in f.rows(named=True))
        for number, row in enumerate(changes):
            is_change = DELETE in row
            key = tuple(row.get(n) for n in ("k", "rank", "window_start")) if is_change else number
            table[key] = tuple(row.get(name) for name in names.split())
            if row.get(DELETE):
                del table[key]
        return sorted(table.values(), key=repr)

    def _check(self, text: str, wishes: RestoreOptions) -> None:
        home = Home(self.disk, self.root, "test")
        with home.hold(""):
            store = home.open_store(home.ensure_job_id(""))
            number = max(store.list_checkpoints())
            self.told = check_compatibility(
                number, store.read_manifest(number), plan(self.folder, text), wishes
            )


@pytest.fixture(params=["memory", "a little memory", "much memory"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """State that is in memory, on disk, and that could be on disk."""
    if request.param == "memory":
        return MemoryBackend
    room = 1 if request.param == "a little memory" else 1 << 28
    numbers = count()
    return lambda: RocksBackend(str(tmp_path / f"state-{next(numbers)}"), room)


WINDOW = "from: rows, key: k, window: {tumble: 10s}"
SUMS = f"{WINDOW}, aggregate: {{n: count(*), total: sum(v)}}"
EVER = "from: rows, key: k, aggregate: {n: count(*), total: sum(v)}"
TOP = "from: rows, key: k, top: {n: 2, by: v desc}"


def test_a_new_aggregate_counts_the_rows_that_come_since(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(SUMS))
    more = "n: count(*), total: sum(v), since: count(x), top: max(x), first: first(s)"
    now = pipeline(f"{WINDOW}, aggregate: {{{more}}}")
    assert job.after(now, "k n total since top first") == [
        (1, 3, 14, 1, 2.0, "d"),
        (2, 1, 2, 0, None, None),
        (2, 1, 30, 1, 4.0, "f"),
        (3, 1, 20, 1, 3.0, "e"),
    ]
    assert job.told == (
        "step has count(x) of double only for new rows",
        "step has max(x) of double only for new rows",
        "step has first(s) of string only for new rows",
    )


@pytest.mark.parametrize("is_apart_first", [False, True])
def test_slots_and_chains_may_change(
    tmp_path: Path, backend: Backend, is_apart_first: bool
) -> None:
    job, plain = Job(tmp_path, backend), pipeline(SUMS)
    apart = pipeline(f"{SUMS}, slot: heavy").replace("{o: {", "{o: {slot: default, chain: false, ")
    assert len(plan(tmp_path, apart).tasks) > len(plan(tmp_path, plain).tasks)
    first, second = (apart, plain) if is_apart_first else (plain, apart)
    job.before(first)
    assert job.after(second, "k n total") == [(1, 3, 14), (2, 1, 2), (2, 1, 30), (3, 1, 20)]
    assert job.told == ()


def test_an_aggregate_may_go_and_the_others_be_called_otherwise(
    tmp_path: Path, backend: Backend
) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(f"{WINDOW}, aggregate: {{n: count(*), total: sum(v), m: min(x)}}"))
    now = pipeline(f"{WINDOW}, aggregate: {{all: sum(v), rows: count(*)}}")
    wanted = [(1, 14, 3), (2, 2, 1), (2, 30, 1), (3, 20, 1)]
    assert job.after(now, "k all rows", lose=True) == wanted
    assert job.told == ("resumes without min(x) of double in the state of step",)


def test_a_step_can_be_reset(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(SUMS))
    now = pipeline(SUMS.replace("key: k", "key: {k: k * 10}"))
    assert job.after(now, "k n total", "step") == [(10, 1, 10), (20, 1, 30), (30, 1, 20)]


ONE_BY_ONE = [(1, 3, 2.0), (2, 1, 4.0), (2, 1, None), (3, 1, 3.0)]


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        ("{slide: 10s, every: 5s, offset: 1s}", None),
        ("{session: 10s}", ONE_BY_ONE),
        ("{session: 10s, lateness: 1s, trigger: {count: 2}}", ONE_BY_ONE),
        ("{tumble: 10s, trigger: {count: 3}}", ONE_BY_ONE),
        ("{tumble: 10s, lateness: 1s, trigger: {every: 1s}}", ONE_BY_ONE),
        ("{count: 2}", [(1, 2, None), (2, 2, 4.0)]),
        ("{count: 3}", [(1, 3, 2.0)]),
        ("global", [(1, 3, 2.0), (2, 2, 4.0), (3, 1, 3.0)]),
    ],
)
def test_windows_of_every_shape(
    tmp_path: Path, backend: Backend, window: str, wanted: list[object] | None
) -> None:
    job = Job(tmp_path, backend)
    head = f"from: rows, key: k, window: {window}, aggregate:"
    job.before(pipeline(f"{head} {{n: count(*)}}"))
    came = job.after(pipeline(f"{head} {{n: count(*), top: max(x)}}"), "k n top")
    if wanted is not None:
        assert came == wanted
    else:
        assert {(1, 3, 2.0), (2, 1, None), (2, 1, 4.0), (3, 1, 3.0)} <= {*came}


@pytest.mark.parametrize(
    "clause", ["", "window: {slide: 10s, every: 5s}, ", "window: {count: 2}, "]
)
def test_aggregates_in_another_order(tmp_path: Path, backend: Backend, clause: str) -> None:
    head = f"from: rows, key: k, {clause}aggregate:"
    now = pipeline(f"{head} {{a: max(x), t: sum(v), n: count(*)}}")
    (tmp_path / "same").mkdir()
    (tmp_path / "changed").mkdir()
    same, changed = Job(tmp_path / "same", backend), Job(tmp_path / "changed", backend)
    same.before(now)
    changed.before(pipeline(f"{head} {{n: count(*), all: sum(v), b: max(x)}}"))
    names = "k n window_start" if "slide" in clause else "k n"
    assert changed.after(now, names) == same.after(now, names)
    assert changed.told == ()


def test_a_running_aggregate(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(EVER))
    now = pipeline(
        "from: rows, key: k, aggregate: {since: count(*) filter (where v > 0), n: count(*)}"
    )
    wanted = [(1, 1, 3), (2, 1, 2), (3, 1, 1)]
    assert job.after(now, "k since n", lose=True) == wanted


def test_rows_that_do_not_pass_a_new_having_are_deleted(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(EVER))
    assert job.after(pipeline(f"{EVER}, having: n < 3"), "k n") == [(2, 2), (3, 1)]


def test_a_having_may_go(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(f"{EVER}, having: n > 1"))
    assert job.after(pipeline(EVER), "k n") == [(1, 3), (2, 2), (3, 1)]


@pytest.mark.parametrize("window", ["", "window: {tumble: 100s}, "])
def test_new_columns_of_a_top_are_null_in_rows_of_before(
    tmp_path: Path, backend: Backend, window: str
) -> None:
    job = Job(tmp_path, backend)
    top = TOP.replace("top:", f"{window}top:")
    job.before(pipeline(f"{top}, select: [k, rank, v]"))
    assert job.after(pipeline(f"{top}, select: [k, rank, v, s]"), "k rank v s") == [
        (1, 1, 10, "d"),
        (1, 2, 3, None),
        (2, 1, 30, "f"),
        (2, 2, 2, None),
        (3, 1, 20, "e"),
    ]


def test_columns_of_a_top_may_go(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(TOP))
    wanted = [(1, 1, 10), (1, 2, 3), (2, 1, 30), (2, 2, 2), (3, 1, 20)]
    assert job.after(pipeline(f"{TOP}, select: [k, rank, v]"), "k rank v", lose=True) == wanted


def test_an_evictor_keeps_rows_whose_new_columns_are_null(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    head = "from: rows, key: k, window: {tumble: 10s, evict: {last: 2}}, aggregate:"
    job.before(pipeline(f"{head} {{total: sum(v)}}"))
    now = pipeline(f"{head} {{a: max(x), m: sum(v), t: count(s), u: count(*)}}")
    assert job.after(now, "k a m t u") == [
        (1, 2.0, 13, 1, 2),
        (2, 4.0, 30, 1, 1),
        (2, None, 2, 0, 1),
        (3, 3.0, 20, 1, 1),
    ]


@pytest.mark.parametrize(
    ("before", "now"), [("", ", ttl: 1h"), (", ttl: 1h", ""), (", ttl: 1h", ", ttl: 2h")]
)
def test_keys_are_remembered_under_another_ttl(
    tmp_path: Path, backend: Backend, before: str, now: str
) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(f"from: rows, dedup: {{key: k{before}}}"))
    assert job.after(pipeline(f"from: rows, dedup: {{key: k{now}}}"), "k v") == [
        (1, 1),
        (2, 2),
        (3, 20),
    ]


@pytest.mark.parametrize("last_turn", [1, 5, 10, 15, 20])
def test_a_change_survives_a_crash(tmp_path: Path, last_turn: int) -> None:
    job = Job(tmp_path)
    job.before(pipeline(SUMS))
    now = pipeline(SUMS.replace("n:", "since: count(x), n:"))
    job.life.text = now
    with pytest.raises(Crashed):
        job.life.run(3, Fate(last_turn=last_turn))
    assert job.after(now, "k n since") == [(1, 3, 1), (2, 1, 0), (2, 1, 1), (3, 1, 1)]


@pytest.mark.parametrize("every_s", [1.0, 100.0])
@pytest.mark.parametrize("unread", [0, 1])
def test_a_reset_happens_once(tmp_path: Path, unread: int, every_s: float) -> None:
    """The job restarts by itself, after a checkpoint of the changed pipeline, and before."""
    job = Job(tmp_path)
    job.before(pipeline(SUMS))
    job.life.rhythm = CheckpointSchedule(every_s)
    fate = Fate(unread=unread, restart=PATIENT)
    wanted = [(1, 1), (2, 1), (3, 1)]
    assert job.after(pipeline(SUMS), "k n", "step", fate=fate) == wanted


def test_a_new_source_is_read_with_the_other(tmp_path: Path) -> None:
    more = HEAD.replace("rows:", "others:").replace("data: in", "data: more")
    job = Job(tmp_path)
    job.before(pipeline(EVER))
    head = HEAD + more.removeprefix("\nsources:\n")
    now = pipeline(EVER.replace("from: rows", "from: [rows, others]"), head=head)
    assert job.after(now, "k n") == [(1, 4), (2, 3), (3, 2)]


def test_a_source_that_reads_elsewhere_is_read_from_its_start(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.before(pipeline(EVER))
    now = pipeline(EVER, head=HEAD.replace("data: in", "data: more"))
    assert job.after(now, "k n", "rows") == [(1, 3), (2, 2), (3, 1)]


def test_steps_may_be_added_before_and_after(tmp_path: Path, backend: Backend) -> None:
    job = Job(tmp_path, backend)
    job.before(pipeline(EVER))
    clean = "  clean: {from: rows, where: v > 10}\n"
    text = EVER.replace("from: rows", "from: clean") + ", select: {k: k, n: n, more: n + 1}"
    wanted = [(1, 2, None), (2, 2, 3), (3, 1, 2)]
    assert job.after(pipeline(text, clean), "k n more") == wanted


CALLS = [example for name in AGGREGATES for example, _ in AGGREGATES[name].examples]


@pytest.mark.parametrize("call", dict.fromkeys(CALLS))
def test_an_aggregate_that_begins_now_is_what_it_is_of_the_rows_that_come(call: str) -> None:
    """The state of no rows changes nothing when others are merged with it, in either order."""
    columns = {name: (parse_type(type)[0], values) for name, (type, values) in EXAMPLE_ROWS.items()}
    schema = Schema(tuple(Field(name, type) for name, (type, _) in columns.items()))
    calls = type_aggregate_text(call, schema, Schema(())).calls
    types = {name: to_polars(type) for name, (type, _) in columns.items()}
    frame = add_row_order(
        pl.DataFrame({n: v for n, (_, v) in columns.items()}, types), pl.int_range(4)
    )
    came, none = (
        compute_partial_states(frame, (), calls),
        compute_partial_states(frame.clear(), (), calls),
    )
    for states in ([came, none], [none, came], [none, came, none]):
        merged = merge_states(pl.concat(states), (), calls)
        assert _results(merged, calls) == _results(came, calls)
    assert _results(merge_states(pl.concat([none, none]), (), calls), calls) == _results(
        none, calls
    )


def _results(states: pl.DataFrame, calls: Sequence[AggregateCall]) -> str:
    return repr(states.select(call.finish() for call in calls).rows())


def test_query_keeps_its_state_when_its_parts_move_and_columns_are_added(
    tmp_path: Path, backend: Backend
) -> None:
    sums = "a as (select k, sum(v) as total from rows group by k)"
    counts = "b as (select k as j, count(*) as n from rows where v > 0 group by k)"
    job = Job(tmp_path, backend)
    join = "from a join b on a.k = b.j"
    job.before(pipeline(f'sql: "with {sums}, {counts} select k, total, n {join}"'))
    more = "select k, n, total, total * 2 as twice"
    now = pipeline(f'sql: "with {counts}, {sums} {more} {join}"')
    assert job.after(now, "k total n twice") == [(1, 14, 3, 28), (2, 32, 2, 64), (3, 20, 1, 40)]
    assert job.told == ()


GROUPS = "select k, sum(v) as n from rows group by k"
OTHERS = "select k + 100 as k, count(*) as n from rows group by k + 100"
FEW = "select k, s, v from rows where v <= (select min(v) from rows)"
QUERIES = {
    "branches of a union change places and get a column": (
        f"{GROUPS} union all {OTHERS}",
        f"{OTHERS.replace(' as n', ' as n, 1 as one')} union all "
        f"{GROUPS.replace(' as n', ' as n, 0')}",
        "k n one",
        [(1, 14, 0), (101, 3, 1), (102, 2, 1), (103, 1, 1), (2, 32, 0), (3, 20, 0)],
    ),
    "a query as a value is added, and columns": (
        f"with few as ({FEW}) select k, s, v from few",
        f"with more as ({FEW.replace('<= (select min', '>= (select max')}), few as ({FEW}) "
        "select k + 100 as k, s, v + 1 as more from more union all select k, s, v * 2 from few",
        "k s more",
        [(1, "a", None), (102, "f", 31)],
    ),
}


@pytest.mark.parametrize("case", QUERIES)
def test_query_keeps_its_state_when_it_is_extended(tmp_path: Path, case: str) -> None:
    before, now, names, wanted = QUERIES[case]
    job = Job(tmp_path)
    job.before(pipeline(f'sql: "{before}"'))
    assert job.after(pipeline(f'sql: "{now}"'), names) == wanted


LOOKUP = "lookups: {names: {memory: {data: names}, on: [k], add: {name: string, size: bigint}}}"
NAMED = (
    "named as (select r.k, r.v, n.name{} from rows r"
    " join names for system_time as of current_timestamp() n on n.k = r.k)"
)
SUMS_OF_NAMES = "a as (select name as k, sum(v) as total from named group by name)"
COUNTS = "b as (select name as j, count(*) as n from named where v > 0 group by name)"


def test_query_with_a_lookup_keeps_its_state_when_its_parts_move_and_columns_are_added(
    tmp_path: Path, backend: Backend
) -> None:
    job = Job(tmp_path, backend)
    names = pl.DataFrame({"k": [1, 2], "name": ["a", "b"], "size": [7, 8]})
    job.memory.tables = {"names": LookupTableData(names)}
    before = f"with {NAMED.format('')}, {SUMS_OF_NAMES}, {COUNTS} select k, total, n"
    named = NAMED.format(", n.size, n.size * 2 as twice")
    now = f"with {named}, {COUNTS}, {SUMS_OF_NAMES} select k, n, total, total * 2 as twice"
    join = "from a join b on a.k = b.j"
    job.before(pipeline(f'sql: "{before} {join}", {LOOKUP}'))
    resumed = pipeline(f'sql: "{now} {join}", {LOOKUP}')
    assert job.after(resumed, "k total n twice") == [("a", 14, 3, 28), ("b", 32, 2, 64)]
    assert job.told == ()
