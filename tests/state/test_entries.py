"""Operator state without a key, and its redistribution at a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from headrace.core.keygroups import owned
from headrace.core.owner import Owner
from headrace.core.state import Document, Shape, Spread, StateBackend
from headrace.state.memory import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.local import LocalStore
from tests.state.test_memory import store

GROUPS = 8
Backend = Callable[[], StateBackend]


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Makes a backend."""
    if request.param == "memory":
        return MemoryBackend
    return lambda: RocksBackend(str(tmp_path), 1)


def kept_of(
    backend: Backend, spread: Spread, rows: list[list[int]]
) -> tuple[list[Document], LocalStore]:
    """Return the stored states of subtasks with these rows."""
    checkpoints, documents = store(), []
    for subtask, numbers in enumerate(rows):
        state = backend().open(Owner("s", subtask, owned(subtask, len(rows), GROUPS), GROUPS))
        entries = state.entries("read", spread)
        assert entries.rows is None
        entries.rows = pl.DataFrame({"n": numbers}, schema={"n": pl.Int64})
        documents.append(state.freeze().stored(checkpoints))
    checkpoints.commit(1, {"states": documents})
    return documents, checkpoints


def found(
    backend: Backend, documents: list[Document], checkpoints: LocalStore, parallelism: int
) -> list[list[int]]:
    """Return the rows that subtasks start with."""
    begun = []
    for subtask in range(parallelism):
        one = backend()
        restored = tuple(one.thawed(document, checkpoints) for document in documents)
        groups = owned(subtask, parallelism, GROUPS)
        state = one.open(Owner("s", subtask, groups, GROUPS, restored))
        # As one that was never opened would hand it on.
        again = state.freeze().entries("read")
        state.freeze().release()
        rows = state.entries("read", Spread.LIST).rows
        assert (rows is None) == (again is None)
        assert rows is None or again is None or rows.equals(again)
        begun.append([] if rows is None else rows["n"].to_list())
        state.close()
    return begun


@pytest.mark.parametrize(
    ("spread", "rows", "wanted"),
    [
        (Spread.LIST, [[1, 2, 3], [4, 5]], [[1, 2], [3, 4], [5]]),
        (Spread.LIST, [[], [1]], [[1], [], []]),
        (Spread.UNION, [[1, 2, 3], [4, 5]], [[1, 2, 3, 4, 5]] * 3),
        (Spread.BROADCAST, [[7, 8], [7, 8]], [[7, 8]] * 3),
        (Spread.GROUPS, [[1], [2, 3]], [[1], [1], [2, 3]]),
        (Spread.GROUPS, [[1], []], [[1], [1], []]),
    ],
)
def test_entries_are_dealt_out(
    backend: Backend, spread: Spread, rows: list[list[int]], wanted: list[list[int]]
) -> None:
    documents, checkpoints = kept_of(backend, spread, rows)
    assert found(backend, documents, checkpoints, 3) == wanted


@pytest.mark.parametrize("spread", Spread)
def test_the_same_parallelism_finds_its_own_entries(backend: Backend, spread: Spread) -> None:
    documents, checkpoints = kept_of(backend, spread, [[1, 2], [1, 2]])
    wanted = [1, 2, 1, 2] if spread is Spread.UNION else [1, 2]
    assert found(backend, documents, checkpoints, 2) == [wanted] * 2


def test_entries_have_a_shape(backend: Backend) -> None:
    documents, checkpoints = kept_of(backend, Spread.UNION, [[1]])
    thawed = backend().thawed(documents[0], checkpoints)
    assert thawed.shape("read") == Shape(is_table=False, key=None, spread=Spread.UNION)
    assert thawed.table("read", range(GROUPS)) is None
    assert not thawed.runs("read", range(GROUPS))
