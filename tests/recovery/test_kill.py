"""A process that is killed at any instant, and run again, gives each row once.

Two hundred kills: `python -m tests.support.recovery.kill 200`; with up to three worker processes,
which are killed and stopped as well: `python -m tests.support.recovery.kill 200 0 3`.
"""

from pathlib import Path

import pytest

from tests.support.recovery.kill import kill_often


@pytest.mark.parametrize("seed", [0, 1])
def test_a_process_that_is_killed_at_any_instant_gives_each_row_once(
    tmp_path: Path, seed: int
) -> None:
    kill_often(tmp_path, seed, 6)


def test_a_job_whose_processes_are_killed_and_stopped_gives_each_row_once(tmp_path: Path) -> None:
    kill_often(tmp_path, 2, 2, workers=3)
