"""Operator state without a key, and its redistribution at a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.state import Document, Redistribution, StateDescriptor
from headrace.core.api.state_backend import StateBackend, StateOwnership
from headrace.core.types.key_groups import compute_owned_groups
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.local_store import LocalSnapshotStore
from tests.state.memory.test_backend import store

GROUPS = 8
Backend = Callable[[], StateBackend]


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Makes a backend."""
    if request.param == "memory":
        return MemoryBackend
    return lambda: RocksBackend(str(tmp_path), 1)


def kept_of(
    backend: Backend, spread: Redistribution, rows: list[list[int]]
) -> tuple[list[Document], LocalSnapshotStore]:
    """Return the stored states of subtasks with these rows."""
    checkpoints, documents = store(), []
    for subtask, numbers in enumerate(rows):
        state = backend().open_state(
            StateOwnership("s", subtask, compute_owned_groups(subtask, len(rows), GROUPS), GROUPS)
        )
        entries = state.open_entries("read", spread)
        assert entries.rows is None
        entries.rows = pl.DataFrame({"n": numbers}, schema={"n": pl.Int64})
        documents.append(state.freeze().persist(checkpoints))
    checkpoints.commit(1, {"states": documents})
    return documents, checkpoints


def found(
    backend: Backend, documents: list[Document], checkpoints: LocalSnapshotStore, parallelism: int
) -> list[list[int]]:
    """Return the rows that subtasks start with."""
    begun = []
    for subtask in range(parallelism):
        one = backend()
        restored = tuple(one.thaw(document, checkpoints) for document in documents)
        groups = compute_owned_groups(subtask, parallelism, GROUPS)
        state = one.open_state(StateOwnership("s", subtask, groups, GROUPS, restored))
        # As one that was never opened would hand it on.
        again = state.freeze().read_entries("read")
        state.freeze().release()
        rows = state.open_entries("read", Redistribution.LIST).rows
        assert (rows is None) == (again is None)
        assert rows is None or again is None or rows.equals(again)
        begun.append([] if rows is None else rows["n"].to_list())
        state.close()
    return begun


@pytest.mark.parametrize(
    ("spread", "rows", "wanted"),
    [
        (Redistribution.LIST, [[1, 2, 3], [4, 5]], [[1, 2], [3, 4], [5]]),
        (Redistribution.LIST, [[], [1]], [[1], [], []]),
        (Redistribution.UNION, [[1, 2, 3], [4, 5]], [[1, 2, 3, 4, 5]] * 3),
        (Redistribution.BROADCAST, [[7, 8], [7, 8]], [[7, 8]] * 3),
        (Redistribution.GROUPS, [[1], [2, 3]], [[1], [1], [2, 3]]),
        (Redistribution.GROUPS, [[1], []], [[1], [1], []]),
    ],
)
def test_entries_are_dealt_out(
    backend: Backend, spread: Redistribution, rows: list[list[int]], wanted: list[list[int]]
) -> None:
    documents, checkpoints = kept_of(backend, spread, rows)
    assert found(backend, documents, checkpoints, 3) == wanted


@pytest.mark.parametrize("spread", Redistribution)
def test_the_same_parallelism_finds_its_own_entries(
    backend: Backend, spread: Redistribution
) -> None:
    documents, checkpoints = kept_of(backend, spread, [[1, 2], [1, 2]])
    wanted = [1, 2, 1, 2] if spread is Redistribution.UNION else [1, 2]
    assert found(backend, documents, checkpoints, 2) == [wanted] * 2


def test_entries_have_a_shape(backend: Backend) -> None:
    documents, checkpoints = kept_of(backend, Redistribution.UNION, [[1]])
    thawed = backend().thaw(documents[0], checkpoints)
    assert thawed.describe_state("read") == StateDescriptor(
        is_table=False, key=None, redistribution=Redistribution.UNION
    )
    assert thawed.read_table("read", range(GROUPS)) is None
    assert not thawed.read_runs("read", range(GROUPS))
