"""A checkpoint to make savepoints of: some of everything that a step may keep, at parallelism 2."""

from __future__ import annotations

import polars as pl

from headrace.core.api.snapshots import Manifest
from headrace.core.api.state import EXPIRY, KEY, Document, Redistribution, RunsLayout
from headrace.core.api.state_backend import StateBackend, StateOwnership
from headrace.core.types.key_groups import compute_owned_groups, compute_row_groups, encode_keys
from headrace.state.storage.disk import Disk
from headrace.state.storage.home import Home
from headrace.state.storage.local_store import LocalSnapshotStore
from tests.support.state.manifests import build_blob_manifest

GROUPS = 8
ROWS = 100
ROOT, NAME, NOW = "/jobs/home", "bids", "2026-01-31T08:00:00Z"
LAYOUT = RunsLayout({"k": pl.Int64(), "n": pl.Int64()}, ("k",), lambda frame: frame)
ALL = range(GROUPS)


def keyed(count: int = ROWS) -> pl.DataFrame:
    """Return rows of a table; every other one expires."""
    frame = pl.DataFrame({"k": range(count)})
    until = pl.when(pl.col("k") % 2 == 0).then(pl.col("k"))
    return frame.select(
        encode_keys(frame).alias(KEY), pl.format("text {}", "k").alias("s"), until.alias(EXPIRY)
    )


def filed(slot: int, count: int = ROWS) -> pl.DataFrame:
    """Rows of runs, of several times."""
    k = pl.int_range(count, eager=True).alias("k")
    return k.to_frame().select("k", n=pl.col("k") * slot, __slot=slot + pl.col("k") // 25)


def documents(store: LocalSnapshotStore, backend: StateBackend) -> list[list[Document]]:
    """Return the stored states of the subtasks of a step."""
    return [[_document(index, store, backend)] for index in range(2)]


def _document(index: int, store: LocalSnapshotStore, backend: StateBackend) -> Document:
    groups = compute_owned_groups(index, 2, GROUPS)
    state = backend.open_state(StateOwnership("step", index, groups, GROUPS))
    table, grouped = state.open_table("keys", {"s": pl.String()}), None
    runs, entries = (
        state.open_runs("windows", LAYOUT),
        state.open_entries("where", Redistribution.LIST),
    )
    rows = keyed().filter(_within(keyed().select(pl.col(KEY)), (KEY,), groups, is_table=True))
    table.put(rows.drop(EXPIRY))
    table.put(rows.filter(pl.col(EXPIRY).is_not_null()))
    table.remove(rows[KEY][:3])
    panes = pl.DataFrame({"k": range(ROWS)}).filter(
        _within(pl.DataFrame({"k": range(ROWS)}), ("k",), groups)
    )
    grouped = state.open_table("panes", {"k": pl.Int64()}, ("k",))
    grouped.put(panes.select(pl.format("{}/1", "k").alias(KEY), "k"))
    for slot in (1, 5):
        runs.add(filed(slot).filter(_within(filed(slot), ("k",), groups)))
    runs.take_keys(pl.DataFrame({"k": [7, 60]}))
    runs.drop(1)
    entries.rows = pl.DataFrame({"split": [f"file {index}", "another"]})
    state.clock_us, state.counters.late, state.counters.unfilled = index, 3, 4
    document = state.freeze().persist(store)
    state.close()
    return document


def _within(
    rows: pl.DataFrame, key: tuple[str, ...], groups: range, *, is_table: bool = False
) -> pl.Series:
    from headrace.core.types.key_groups import compute_key_groups

    of = (
        compute_key_groups(rows[KEY], GROUPS) if is_table else compute_row_groups(rows, key, GROUPS)
    )
    return of.is_between(groups.start, groups.stop, closed="left")


def taken(disk: Disk, backend: StateBackend, root: str = ROOT) -> Home:
    """Return a home with checkpoint 7, whose output is all committed."""
    home = Home(disk, root, NAME)
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW, lambda: "1f3c09a2" * 4))
        store.commit(7, said(documents(store, backend)))
    return home


def said(states: list[list[Document]]) -> Manifest:
    """A manifest, as far as savepoints read it."""
    sinks = {"out": {"handles": [], "writers": [None]}}
    return build_blob_manifest(time=NOW, sinks=sinks, states={"step": states})
