"""Writing and importing a savepoint of 12 M keys, relative to `cp` of the checkpoint's bytes.

The checkpoint exists beforehand; the reference copies its bytes to new files and syncs them. The
figure is the slower of two operations: making the savepoint, and importing it as a checkpoint of
another home. On stderr: both, with CPU, the longest time that a concurrent thread waited for the
interpreter, and their memory; and the size of the savepoint's files.
`python -m benchmarks.savepoint [MILLIONS] [MEMORY_MB]`
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, sleep

from benchmarks.keyed_states import backend, fill, owner, table
from benchmarks.state_full import Beside, copied_s
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.savepoints.savepoint import commit_as_checkpoint, open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

NOW = "2026-01-31T08:00:00Z"


class Memory:
    """The peak memory of this process above its initial memory."""

    def __init__(self) -> None:
        self.peak_mb = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure the memory every ten milliseconds."""
        before, over = _resident_mb(), threading.Event()

        def look() -> None:
            while not over.is_set():
                self.peak_mb = max(self.peak_mb, _resident_mb() - before)
                sleep(0.01)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def main(millions: str = "12", memory_mb: str = "4000") -> None:
    """Print the figure."""
    with tempfile.TemporaryDirectory() as folder:
        home = _checkpointed(folder, int(float(millions) * 1_000_000), int(memory_mb) << 20)
        copy_s = copied_s(home.folder)
        figures = {}
        to = os.path.join(folder, "savepoint")
        figures["export"] = _measured(lambda: take_savepoint(home, "", 1, to))
        size_mb = _size_mb(to)
        other = Home(LocalDisk(), folder, "other")

        def restore() -> None:
            with other.hold(NOW), other.replace_job(NOW) as store:
                commit_as_checkpoint(open_savepoint(to), store, 1)

        figures["import"] = _measured(restore)
        written_mb = _size_mb(os.path.join(home.checkpoint_folder, "blobs"))
    print(f"savepoint {max(took for took, _, _ in figures.values()) / copy_s:.1f}")
    for name, (took, beside, memory) in figures.items():
        print(
            f"{name} {took:.2f} s ({beside.cpu_s:.2f} s of CPU), {took / copy_s:.1f} times cp"
            f" ({copy_s:.2f} s) of {written_mb:.0f} MB; a concurrent thread waited"
            f" {beside.worst_s * 1e3:.0f} ms at most; {memory.peak_mb:.0f} MB more",
            file=sys.stderr,
        )
    print(f"its files have {size_mb:.0f} MB", file=sys.stderr)


def _checkpointed(folder: str, keys: int, memory: int) -> Home:
    """Return a home with a checkpoint of that many keys, made by a process that has ended."""
    script = f"from benchmarks.savepoint import fill_home; fill_home({folder!r}, {keys}, {memory})"
    subprocess.run([sys.executable, "-c", script], check=True)
    return Home(LocalDisk(), folder, "job")


def fill_home(folder: str, keys: int, memory: int) -> None:
    """Write the checkpoint."""
    home = Home(LocalDisk(), folder, "job")
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW))
        state = backend(os.path.join(folder, "live"), memory).open_state(owner())
        fill(table(state), keys)
        document = state.freeze().persist(store)
        said = {"time": NOW, "sinks": {}, "states": {"step": [[document]]}}
        store.commit(1, said)
        state.close()


def _measured(work: Callable[[], object]) -> tuple[float, Beside, Memory]:
    beside, memory = Beside(), Memory()
    start = perf_counter()
    with memory.watched():
        beside.watched(work)
    return perf_counter() - start, beside, memory


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _size_mb(folder: str) -> float:
    paths = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    return sum(map(os.path.getsize, paths)) / 1e6


if __name__ == "__main__":
    main(*sys.argv[1:])
