"""Servers and jobs that are killed, restarted and ended at random: no row is lost or written twice.

`python -m tests.cli.server.test_random_kills 100 SEED` does a hundred things to them.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest

from tests.support.cli.servers import ServedFolder, served_folder

NAMES = ("a", "b")
ACTIONS = ("kill job", "kill server", "kill both", "end server", "restart job")


def disturb(home: ServedFolder, count: int, seed: int) -> None:
    """Do a number of things to the jobs and the servers of a folder, then end them and check."""
    random = Random(seed)
    for name in NAMES:
        home.write(name)
    server = home.start()
    for name in NAMES:
        home.until_checkpoint(name)
    for _ in range(count):
        action = random.choice(ACTIONS)
        running = sorted(home.list_processes().values())
        if action in ("kill job", "kill both") and running:
            os.kill(random.choice(running), signal.SIGKILL)
        if action in ("kill server", "kill both"):
            server.kill()
            server.wait()
            server = home.start()
        if action == "end server":
            home.end(server)  # perhaps before it has begun to listen to signals
            server = home.start()
        if action == "restart job":
            home.run("restart", random.choice(NAMES))
        if random.random() < 0.5:
            home.until_checkpoint(random.choice(NAMES))
    for name in NAMES:
        home.until_checkpoint(name)
    home.until_leading()
    assert home.end(server) == 0
    assert home.list_processes() == {}
    for name in NAMES:
        numbers = home.read_numbers(name)
        assert numbers == list(range(len(numbers)))


@pytest.mark.slow
def test_rows_are_complete_whatever_is_killed(tmp_path: Path) -> None:
    with served_folder(tmp_path) as home:
        disturb(home, 12, seed=2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, served_folder(Path(folder)) as found:
        disturb(found, int(sys.argv[1]), int(sys.argv[2]))
