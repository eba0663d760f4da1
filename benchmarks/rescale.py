"""Moving the state of 10 M keys from 2 subtasks to 3, relative to `cp` of the same bytes.

It goes from a checkpoint on disk to three states that find their keys. `rescale MILLIONS MEMORY_MB
TO` sets other sizes, and another number of subtasks.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, process_time

from benchmarks.keyed_states import GROUPS, backend, parts, put, rows, store, table
from benchmarks.state_full import copied_s, some
from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import KEY, Document, FrozenState
from headrace.core.api.state_backend import StateOwnership
from headrace.core.types.key_groups import compute_key_groups, compute_owned_groups
from headrace.core.worker.subtask_builder import RESTORE_THREADS
from headrace.state.storage.local_store import LocalSnapshotStore

FROM = 2


def main(millions: str = "10", memory_mb: str = "4000", to: str = "3") -> None:
    """Print the figure."""
    keys, memory = int(float(millions) * 1_000_000), int(memory_mb) << 20
    with tempfile.TemporaryDirectory() as folder:
        kept = store(folder)
        documents = _checkpoint(folder, memory, keys, kept)
        copy_s = copied_s(folder)
        start, cpu_s = perf_counter(), process_time()
        found = _restored(folder + "/again", memory, documents, kept, int(to), keys)
        took, cpu_s = perf_counter() - start, process_time() - cpu_s
    assert found == len(some(keys)), found
    print(f"rescale {took / copy_s:.1f}")
    print(
        f"{took:.2f} s ({cpu_s:.2f} s of CPU), cp {copy_s:.2f} s;"
        f" {kept.bytes_written / 1e6 / took:.0f} MB/s of {kept.bytes_written / 1e6:.0f} MB",
        file=sys.stderr,
    )


def _owner(subtask: int, parallelism: int, *restored: FrozenState) -> StateOwnership:
    return StateOwnership(
        "totals", subtask, compute_owned_groups(subtask, parallelism, GROUPS), GROUPS, restored
    )


def _checkpoint(folder: str, memory: int, keys: int, kept: LocalSnapshotStore) -> list[Document]:
    """Store the states of the first subtasks."""
    import polars as pl

    home = backend(folder, memory)
    states = [home.open_state(_owner(subtask, FROM)) for subtask in range(FROM)]
    tables = [table(state) for state in states]
    for numbers in parts(pl.int_range(keys, eager=True)):
        groups = compute_key_groups(rows(numbers, 0)[KEY], GROUPS)
        for subtask, into in enumerate(tables):
            own = compute_owned_groups(subtask, FROM, GROUPS)
            put(into, numbers.filter((groups >= own.start) & (groups < own.stop)), 0)
    documents = [state.freeze().persist(kept) for state in states]
    kept.commit(1, {"states": documents})
    for state in states:
        state.close()
    return documents


def _restored(
    folder: str,
    memory: int,
    documents: Sequence[Document],
    kept: SnapshotStore,
    to: int,
    keys: int,
) -> int:
    """Restore that many subtasks; return how many of some keys they find."""
    home = backend(folder, memory)
    thawed = [home.thaw(document, kept) for document in documents]
    probe = rows(some(keys), 0)[KEY]

    def found(subtask: int) -> int:
        state = home.open_state(_owner(subtask, to, *thawed))
        return table(state).find(probe).height

    with ThreadPoolExecutor(RESTORE_THREADS) as pool:
        return sum(pool.map(found, range(to)))


if __name__ == "__main__":
    main(*sys.argv[1:])
