"""Jobs with workers whose processes die, stop and lose their streams: each row is there once.

Thousands more: `python -m tests.core.processes.test_simulation 5000`; a seed that fails prints
what came over its job.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.runtime.simulated_workers import Fate, Simulation, Strike, check_seed

SEEDS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_whatever_happens_to_processes_each_row_is_there_once(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 10):
        check_seed(seed, tmp_path)


@pytest.mark.parametrize(("seed", "break_s"), [(6, 12.0), (7, 18.0), (10, 14.0)])
def test_a_stream_that_breaks_when_all_is_sent_fails_the_attempt(
    tmp_path: Path, seed: int, break_s: float
) -> None:
    """Nobody writes to it any more, and its reader waits for what is lost."""
    simulation = Simulation(seed, tmp_path)
    simulation.streams.delays_s = (4.0,)
    simulation.run([Fate(strikes=[Strike("break", 1, None, break_s, 0.0)])])
    assert simulation.life == 1
    # Not that of a writer, which would name its step.
    assert [failure.step for failure in simulation.failures] == ["workers"]


def main(count: int, first: int = 0) -> None:
    """Check this number of seeds."""
    with TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            check_seed(seed, Path(folder))
            if (seed + 1) % 100 == 0:
                print(f"seed {seed}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
