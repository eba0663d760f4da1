"""Bytes that a checkpoint writes after 1 % of the keys have changed, relative to a full one.

A table of many keys is filled and stored. Then 1 % of the keys, chosen at random each time, change
between one checkpoint and the next, twenty times. The figure is the mean of their bytes; the
largest follows. The goals are 0.08 and 0.25.
`python -m benchmarks.state_incremental [MILLIONS] [MEMORY_MB]`
"""

from __future__ import annotations

import sys
import tempfile
from statistics import mean

import polars as pl

from benchmarks.keyed_states import backend, checkpoint, fill, owner, parts, put, store, table

CHECKPOINTS = 20


def main(millions: str = "10", memory_mb: str = "256") -> None:
    """Print the figure."""
    keys = int(float(millions) * 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        state, kept = backend(folder, int(memory_mb) << 20).open_state(owner()), store(folder)
        rows = table(state)
        fill(rows, keys)
        full = checkpoint(state, kept)
        written = []
        for round in range(CHECKPOINTS):
            changed = pl.int_range(keys, eager=True).sample(keys // 100, seed=round)
            for part in parts(changed):
                put(rows, part, round + 1)
            written.append(checkpoint(state, kept) / full)
        state.close()
    print(f"state_incremental {mean(written):.3f}")
    print(
        f"largest {max(written):.3f}; a full one is {full / 1e6:.0f} MB, {full / keys:.0f} bytes a"
        f" key: {' '.join(f'{part:.3f}' for part in written)}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
