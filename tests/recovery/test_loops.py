"""A loop whose process is killed with SIGKILL while rows go round gives each row once."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path

from tests.support.cli.processes import ended, start

ROWS, ROUNDS, KILLS = 300, 6, 3
WAIT = """\
from datetime import timedelta

from headrace import Process, timer, value


class Wait(Process):
    n = value("bigint")
    rounds = value("bigint")
    again = timer(time="processing")

    def on_row(self, row, state, out):
        state.n, state.rounds = row.n, row.rounds
        state.again = self.now + timedelta(milliseconds=400)

    def on_timer(self, at, state, out):
        out(k=self.key, n=state.n + 1, rounds=state.rounds)
"""
PIPELINE = f"""\
name: killed
settings: {{parallelism: 2, checkpoint: {{every: 100ms}}}}
sources:
  rows: {{generate: {{rows: {ROWS}, columns: {{k: id, n: id * 100}}}}}}
steps:
  tries:
    iterate: {{from: rows, until: rounds = {ROUNDS}, rounds: true, feedback: waited}}
  waited:
    from: tries.loop
    key: k
    process:
      python: wait.py:Wait
      order: arrival
      returns: {{k: bigint, n: bigint, rounds: bigint}}
sinks:
  out: {{from: tries, files: {{path: out}}}}
"""


def kill_during_loop(folder: Path, parallelism: int, files: int) -> None:
    """Run the job until it has written so many files of checkpoints, and kill it."""
    process = start(folder, "p.yaml", "--quiet", "--set", f"settings.parallelism={parallelism}")
    written = set[str]()
    while process.poll() is None and len(written) < files:
        for _, _, names in os.walk(folder / ".headrace" / "killed" / "checkpoints"):
            written.update(names)  # `walk` passes over what is removed meanwhile
        time.sleep(0.01)
    process.kill()
    ended(process)


def test_a_killed_process_gives_each_row_of_a_loop_once(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "wait.py").write_text(WAIT)
    for life in range(KILLS):
        kill_during_loop(tmp_path, 1 + life % 2, 4 + 5 * life)
    process = start(tmp_path, "p.yaml", "--quiet", "--set", "settings.parallelism=3")
    _, errors = ended(process)
    assert process.returncode == 0, errors
    rows = Counter(
        (row["k"], row["n"], row["rounds"])
        for path in (tmp_path / "out").glob("*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    )
    assert rows == Counter((k, k * 100 + ROUNDS, ROUNDS) for k in range(ROWS))
