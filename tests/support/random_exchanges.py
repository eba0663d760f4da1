"""Random graphs of exchanges over worker processes with channels of one batch: none stands still.

Diamonds, self-joins, broadcasts, skewed keys, slow sinks, through checkpoints: an exchange that
waits in a circle would never end. The rows are those of one process with one subtask of each step.

    python -m tests.support.random_exchanges 200        # seeds 0 to 199
    python -m tests.support.random_exchanges 200 57     # 200 seeds from 57
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from pathlib import Path

from tests.support.cli.command_process import run_headrace
from tests.support.cli.worker_jobs import read_rows

LIMIT_S = 600
"""Far longer than a run takes on a busy machine."""

HEAD = """\
name: exchanges
sources:
  numbers:
    generate:
      rows: 2000
      columns: {id: id, k: id % 11, h: "if(id % 9 = 0, id % 5, 0)", at: timestamp_millis(id * 10)}
    event_time: at
steps:
"""

SLOW = """\
import time

def wait(rows):
    time.sleep(0.002)
    return rows
"""

STEPS = {
    "where": "{{from: {a}, where: id % {n} != 0}}",
    "union": "{{from: [{a}, {b}]}}",
    "semi": (
        "{{join: {{left: {a}, right: {b}, on: {a}.k = {b}.k and {a}.id = {b}.id, within: 1s, "
        "type: semi}}}}"
    ),
    "anti": (
        "{{join: {{left: {a}, right: {b}, on: {a}.h = {b}.h and {a}.id = {b}.id, within: 100ms, "
        "type: anti}}}}"
    ),
    "window_k": (
        "{{from: {a}, key: k, window: {{tumble: {n}s}}, aggregate: {{m: max(id), l: min(h)}}, "
        "select: {{id: m, k: k, h: l, at: window_start}}}}"
    ),
    "window_h": (
        "{{from: {a}, key: h, window: {{slide: {n}s, every: 1s}}, "
        "aggregate: {{m: max(id), l: min(k)}}, select: {{id: m, k: l, h: h, at: window_start}}}}"
    ),
    "slow": (
        "{{from: {a}, map: {{python: slow.py:wait, "
        "returns: {{id: bigint, k: bigint, h: bigint, at: timestamp}}}}}}"
    ),
    "dedup": "{{from: {a}, dedup: {{key: [id, k], ttl: 10m, order: event_time}}}}",
    "broadcast": (
        "{{from: {a}, broadcast: {{rules: few, on: {a}.k = few.k, keep: {{key: k}}, type: semi}}}}"
    ),
}
"""The clauses of each kind of step; all streams have the same columns."""


def draw_pipeline(seed: int) -> str:
    """Return a pipeline in which rows take several ways to the same step."""
    draw = random.Random(seed)
    streams = ["numbers"]
    lines = ["  few: {from: numbers, where: id < 40}"]
    for number in range(draw.randint(3, 7)):
        kind = draw.choice(list(STEPS))
        a = draw.choice(streams[-3:])
        b = draw.choice([each for each in (*streams, "few") if each != a])
        clauses = STEPS[kind].format(a=a, b=b, n=draw.randint(2, 7))
        lines.append(f"  s{number}: {clauses}")
        streams.append(f"s{number}")
    text = "\n".join(lines)
    unread = [name for name in ("few", *streams[1:]) if len(re.findall(rf"\b{name}\b", text)) == 1]
    sinks = [f"  {name}_out: {{from: {name}, files: {{path: {name}}}}}" for name in unread]
    settings = [
        "settings:",
        f"  buffer: {{rows: {draw.choice([1, 16, 64])}}}",
        "  checkpoint: {every: 100ms}",
    ]
    return HEAD + "\n".join([*lines, "sinks:", *sinks, *settings]) + "\n"


def run(folder: Path, text: str, *options: str) -> list[str]:
    """Run a pipeline in a folder of its own; return the rows of all sinks."""
    folder.mkdir()
    (folder / "exchanges.yaml").write_text(text)
    (folder / "slow.py").write_text(SLOW)
    done = run_headrace("run", "exchanges.yaml", *options, cwd=folder, timeout=LIMIT_S)
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    return sorted(
        f"{sink.name}: {json.dumps(row, sort_keys=True)}"
        for sink in sorted(folder.iterdir())
        if sink.is_dir() and not sink.name.startswith(".")
        for row in read_rows(sink)
    )


def check_seed(folder: Path, seed: int) -> int:
    """Check that both runs have the same rows; return how many."""
    text = draw_pipeline(seed)
    alone = run(folder / "alone", text, "--parallelism", "1")
    shared = run(folder / "shared", text, "--workers", "2", "--parallelism", "4")
    assert shared == alone, text
    return len(alone)


def main(count: int, first: int = 0) -> None:
    """Check a number of seeds."""
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            print(f"seed {seed}: {check_seed(Path(folder), seed)} rows", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
