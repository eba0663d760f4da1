"""Loops whose processes are killed, stopped, drained or saved while rows go round.

Each row leaves once.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

from tests.support.cli.command_process import HEADRACE
from tests.support.cli.processes import ended, finished, start

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
    """Run the job until it has written a number of files of checkpoints, and kill it."""
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
    assert read_rows(tmp_path) == ALL


ALL = Counter((k, k * 100 + ROUNDS, ROUNDS) for k in range(ROWS))


def read_rows(folder: Path, output: str = "out") -> Counter[tuple[int, int, int]]:
    """Return the rows that have left the loop."""
    return Counter(
        (row["k"], row["n"], row["rounds"])
        for path in (folder / output).glob("*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    )


def start_slowly(folder: Path) -> subprocess.Popen[str]:
    """Run the job over rows that come for a minute, until the first ones go round."""
    (folder / "p.yaml").write_text(PIPELINE.replace(f"rows: {ROWS}", f"rows: {ROWS}, rate: 5/s"))
    (folder / "wait.py").write_text(WAIT)
    return start_to_checkpoint(folder, 10)


def start_to_checkpoint(folder: Path, number: int) -> subprocess.Popen[str]:
    """Run the job until it has taken that checkpoint."""
    process = start(folder, "p.yaml", "--log", "json")
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line).get("number", 0) >= number:
            break
    return process


def command(folder: Path, *words: str) -> str:
    """Run a command on the job; return what it prints."""
    ran = subprocess.run([*HEADRACE, *words], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def finish(folder: Path, *words: str) -> None:
    """Run the job to its end."""
    rest = "settings.parallelism=3", "sources.rows.generate.rate=100000/s"
    values = [word for value in rest for word in ("--set", value)]
    ran = finished(folder, "p.yaml", "--quiet", *values, *words)
    assert ran.returncode == 0, ran.stderr


def test_a_stopped_loop_and_its_savepoint_resume_with_the_rows_inside(tmp_path: Path) -> None:
    process = start_slowly(tmp_path)
    command(tmp_path, "savepoint", "killed", "--to", "saved")
    left_before = read_rows(tmp_path)
    command(tmp_path, "stop", "killed")
    ended(process)
    assert read_rows(tmp_path).total() < ROWS
    finish(tmp_path)
    assert read_rows(tmp_path) == ALL
    finish(
        tmp_path, "--home", "other", "--from-savepoint", "saved", "--set", "sinks.out.files.path=to"
    )
    again = read_rows(tmp_path, "to")
    assert again <= ALL
    assert ALL - again <= left_before


def test_a_drained_loop_is_empty_and_may_resume_with_new_rows(tmp_path: Path) -> None:
    process = start_slowly(tmp_path)
    command(tmp_path, "stop", "killed", "--drain")
    ended(process)
    left = read_rows(tmp_path)
    read = {k for k, *_ in left}
    assert 0 < len(read) < ROWS
    assert left <= ALL
    finish(tmp_path, "--resume-drained")
    assert read_rows(tmp_path) == ALL


ENDLESS = """\
name: killed
settings: {checkpoint: {every: 100ms}}
sources:
  numbers: {generate: {rows: 5, columns: {n: id + 1}}}
steps:
  tries: {iterate: {from: numbers, until: n < 0, feedback: once}}
  once: {from: tries.loop, select: {n: n + 1}}
sinks:
  out: {from: tries, files: {path: out}}
"""


def test_a_loop_that_never_ends_is_stopped_and_named_in_the_summary(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(ENDLESS)
    process = start_to_checkpoint(tmp_path, 3)
    assert process.stderr is not None
    command(tmp_path, "stop", "killed")
    *_, summary = map(json.loads, process.stderr)
    ended(process)
    assert summary["status"] == "stopped"
    (finding,) = summary["findings"]
    assert (finding["cause"], finding["part"]) == ("rows_go_round", "tries")
    assert finding["message"].endswith("rows came back, and none has left the loop")


RANKING = """\
name: killed
settings: {parallelism: 2, checkpoint: {every: 100ms}}
sources:
  pages: {generate: {rows: 5, columns: {page: id}}}
  rows: {generate: {rows: 400, rate: 20/s, columns: {page: id % 5, target: (id * id + 1) % 5}}}
steps:
  start: {from: pages, select: {page: page, rank: 1000000L}}
  ranks: {iterate: {bulk: start, body: next, rounds: 30}}
  given:
    join: {left: {from: ranks.loop, as: one}, right: rows, on: one.page = rows.page}
    select: {page: rows.target, share: one.rank div 100}
  next: {from: given, key: page, aggregate: {rank: sum(share)}}
sinks:
  out: {from: ranks, files: {path: out}}
"""


def compute_ranks() -> dict[int, int]:
    """Compute what 30 rounds of RANKING give."""
    ranks = dict.fromkeys(range(5), 1_000_000)
    for _ in range(30):
        shares = Counter[int]()
        for link in range(400):
            shares[(link * link + 1) % 5] += ranks.get(link % 5, 0) // 100
        ranks = dict(shares)
    return ranks


def test_a_killed_table_in_rounds_is_shown_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(RANKING)
    process = start_to_checkpoint(tmp_path, 10)
    process.kill()
    ended(process)
    shown = command(tmp_path, "state", "show", "killed", "ranks")
    assert "ranks table: 5 rows" in shown
    assert "ranks round: 1 row" in shown
    finish(tmp_path)
    lines = [
        line
        for path in (tmp_path / "out").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert {row["page"]: row["rank"] for row in map(json.loads, lines)} == compute_ranks()
    assert len(lines) == len(compute_ranks())


BESIDE_A_STREAM = """\
name: killed
settings: {checkpoint: {every: 100ms}}
sources:
  numbers: {generate: {rows: 5, columns: {n: id}}}
  others: {generate: {rate: 100/s, columns: {n: id}}}
steps:
  table: {iterate: {bulk: numbers, body: next, rounds: 3}}
  next: {from: table.loop, select: {n: n + 1}}
sinks:
  out: {from: table, files: {path: out}}
  rest: {from: others, files: {path: rest}}
"""


def test_a_loop_that_has_ended_counts_no_round_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(BESIDE_A_STREAM)
    for listed in ([1, 2, 3], []):
        process = start(tmp_path, "p.yaml", "--log", "json")
        assert process.stderr is not None
        numbers = (json.loads(line).get("number") for line in process.stderr)
        first = next(number for number in numbers if number)
        next(number for number in numbers if number and number >= first + 5)
        command(tmp_path, "stop", "killed")
        *_, summary = map(json.loads, process.stderr)
        ended(process)
        metrics = summary["parts"]["table"]["metrics"]
        assert (metrics["rounds"], metrics["rows_changed"]) == (3, 6)
        rounds = summary.get("rounds", {}).get("table", [])
        assert [each["round"] for each in rounds] == listed
        assert sum(each["rows_changed"] for each in rounds) == (6 if listed else 0)
    assert sorted(read_numbers(tmp_path)) == [3, 4, 5, 6, 7]


def read_numbers(folder: Path) -> list[int]:
    """Return the numbers in the files of the sink."""
    lines = [line for part in (folder / "out").iterdir() for line in part.read_text().splitlines()]
    return [json.loads(line)["n"] for line in lines]
