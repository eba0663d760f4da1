"""A full checkpoint of 10 M keys and its restore, relative to `cp` of the same bytes.

The reference copies the bytes that the checkpoint wrote to new files and syncs them; the state
takes about twice as many bytes in memory. The figure is the slower of the two. On stderr: both, in
seconds and in MB/s of written bytes, the longest time that a concurrent thread waited for the
interpreter, and the time of `freeze` itself.
`python -m benchmarks.state_full [MILLIONS] [MEMORY_MB]`
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from time import perf_counter, process_time, sleep

import polars as pl

from benchmarks.keyed_states import backend, fill, owner, rows, store, table
from headrace.core.api.state import KEY

TICK_S = 0.001


class Beside:
    """A concurrent thread that runs every millisecond, and its longest delay."""

    def __init__(self) -> None:
        self.worst_s = self.cpu_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        last = perf_counter()
        while not self._over.is_set():
            sleep(TICK_S)
            now = perf_counter()
            self.worst_s, last = max(self.worst_s, now - last - TICK_S), now

    def watched(self, work: Callable[[], object]) -> float:
        """Return the seconds that the work takes."""
        self._thread.start()
        start, cpu_s = perf_counter(), process_time()
        work()
        took, self.cpu_s = perf_counter() - start, process_time() - cpu_s
        self._over.set()
        self._thread.join()
        return took


def main(millions: str = "10", memory_mb: str = "4000") -> None:
    """Print the figure."""
    keys = int(float(millions) * 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        home = backend(folder, int(memory_mb) << 20)
        state, kept = home.open_state(owner()), store(folder)
        fill(table(state), keys)
        start = perf_counter()
        frozen = state.freeze()
        froze_s = perf_counter() - start
        document: dict[str, object] = {}

        def save() -> None:
            document["state"] = frozen.persist(kept)
            kept.commit(1, document)

        def restore() -> None:
            read = backend(folder + "/again", int(memory_mb) << 20)
            told = document["state"]
            assert isinstance(told, dict)
            again = read.open_state(owner(read.thaw(told, kept)))
            found = table(again).find(probe)
            assert found.height == len(probe)
            again.close()

        probe = rows(some(keys), 0)[KEY]
        saving, restoring = Beside(), Beside()
        save_s = saving.watched(save)
        state.close()
        copy_s = copied_s(folder)
        restore_s = restoring.watched(restore)
    written = kept.bytes_written / 1e6
    print(f"state_full {max(save_s, restore_s) / copy_s:.1f}")
    for name, took, beside in (("save", save_s, saving), ("restore", restore_s, restoring)):
        print(
            f"{name} {took:.2f} s ({beside.cpu_s:.2f} s of CPU), {took / copy_s:.1f} times cp"
            f" ({copy_s:.2f} s),"
            f" {written / took:.0f} MB/s of {written:.0f} MB;"
            f" a concurrent thread waited {beside.worst_s * 1e3:.0f} ms at most",
            file=sys.stderr,
        )
    print(f"freeze {froze_s * 1e3:.1f} ms", file=sys.stderr)


def some(keys: int) -> pl.Series:
    return pl.int_range(0, keys, max(1, keys // 1000), eager=True)


def copied_s(folder: str) -> float:
    """Return the seconds to copy the blobs and sync them."""
    blobs = os.path.join(folder, "checkpoints", "blobs")
    start = perf_counter()
    subprocess.run(["cp", "-r", blobs, os.path.join(folder, "copy")], check=True)
    subprocess.run(["sync", "-f", folder], check=True)
    return perf_counter() - start


if __name__ == "__main__":
    main(*sys.argv[1:])
