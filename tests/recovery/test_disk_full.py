"""A disk that is full while a checkpoint is taken: the failure is reported, nothing else fails."""

import json
import random
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.registry import REGISTRY
from headrace.core.coordination.events import JobEvent
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.dataflow.channel import ChannelBounds
from headrace.state.memory.backend import MemoryBackend
from tests.support.cli.processes import ended, start
from tests.support.recovery.killed_pipelines import Lives
from tests.support.runtime.recut_sources import recut

ROWS = 200
PIPELINE = f"""\
name: full
sources:
  numbers: {{generate: {{rows: {ROWS}, columns: {{x: id}}}}}}
steps:
  totals: {{from: numbers, key: {{k: x % 11}}, aggregate: {{n: count(*)}}}}
sinks:
  kept: {{from: numbers, files: {{path: ../build/kept}}}}
  totals_out: {{from: totals, files: {{path: ../build/totals}}}}
"""
WINDOW = "key: x, window: {count: 1000}, aggregate: {n: count(*)}"

A_NOTE = 200
"""Room for saying which checkpoint's output is visible, and for nothing else."""


def parts(folder: Path, pattern: str) -> set[str]:
    """The names of parts, as they are in the end."""
    found = (path.name for path in folder.glob(pattern))
    return {name.removeprefix(".inprogress-").removesuffix(".tmp") for name in found}


def counted(folder: Path) -> Counter[int]:
    """How often each number was written."""
    lines = (line for path in folder.glob("part-*") for line in path.read_text().splitlines())
    return Counter(json.loads(line)["x"] for line in lines)


def test_the_checkpoint_fails_and_what_was_ready_for_it_is_committed_by_the_next(
    tmp_path: Path,
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "p.yaml").write_text(PIPELINE)
    kept, ready = tmp_path / "build" / "kept", set[str]()
    connectors = recut(REGISTRY, "one", 0)
    lives = Lives(
        tmp_path / "site" / "p.yaml",
        (),
        connectors,
        lambda folder: MemoryBackend(),
        random.Random(0),
        ChannelBounds(rows=3),
    )

    def heard(news: JobEvent) -> None:
        match news:
            case CheckpointCompleted(2):
                lives.disk.capacity = lives.disk.measure_used_bytes() + A_NOTE
            case CheckpointFailed():
                lives.disk.capacity = None
                ready.update(parts(kept, ".inprogress-*") - parts(kept, "part-*"))

    lives.heard = heard
    outcome = lives.run()
    assert outcome is not None
    assert outcome.failure is None
    (why,) = lives.failed
    assert "no space left on device" in why
    assert lives.taken[:3] == [1, 2, 4]
    assert ready
    assert ready <= parts(kept, "part-*")
    assert counted(kept) == Counter(range(ROWS))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte, where a disk can be had."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_real_disk_that_is_full_for_a_while_stops_nothing(
    small_disk: Path, tmp_path: Path
) -> None:
    settings = "{checkpoint: {every: 50ms, tolerable_failures: 1000}}"
    pipeline = PIPELINE.replace("../build/", "").replace(f"rows: {ROWS}", "rate: 5000/s")
    (tmp_path / "p.yaml").write_text(f"{pipeline}settings: {settings}\n")
    process = start(tmp_path, "p.yaml", "--log", "json", "--home", str(small_disk))
    assert process.stderr is not None
    events: Iterator[dict[str, Any]] = map(json.loads, process.stderr)
    next(event for event in events if event.get("number") == 3)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 100)
    # The next one fails, or waits for its commit record: the disk may be full at any step.
    event = next(event for event in events if event["event"] in ("checkpoint_failed", "notice"))
    assert "no space left on device" in event["message"]
    filler.unlink()
    next(event for event in events if event["event"] == "checkpoint")
    process.send_signal(signal.SIGTERM)
    ended(process)
    assert process.returncode == 0
    kept = counted(tmp_path / "kept")
    assert kept == Counter(range(len(kept)))


@pytest.mark.parametrize("step", ["dedup: {key: [x], keep: first}", WINDOW])
def test_state_on_a_full_disk_is_reported_as_such(
    small_disk: Path, tmp_path: Path, step: str
) -> None:
    pipeline = PIPELINE.replace("../build/", "").replace(f"rows: {ROWS}", "rows: 300000")
    pipeline = pipeline.replace("key: {k: x % 11}, aggregate: {n: count(*)}", step)
    settings = "{state: {memory: 1KB}, restart: {strategy: none}, checkpoint: {every: never}}"
    (tmp_path / "p.yaml").write_text(f"{pipeline}settings: {settings}\n")
    process = start(tmp_path, "p.yaml", "--home", str(small_disk))
    _, err = ended(process)
    assert process.returncode == 1
    assert re.search(f"totals.*: cannot write .*{small_disk}/.* no space left", err, re.IGNORECASE)
    assert "defect" not in err


def test_output_that_finds_no_room_restarts_as_the_pipeline_says_and_names_the_disk(
    small_disk: Path, tmp_path: Path
) -> None:
    pipeline = PIPELINE.replace("../build/kept", str(small_disk / "kept"))
    pipeline = pipeline.replace("../build/", "").replace(f"rows: {ROWS}", "rows: 300000")
    settings = "{restart: {strategy: fixed, attempts: 2, delay: 10ms}}"
    (tmp_path / "p.yaml").write_text(f"{pipeline}settings: {settings}\n")
    process = start(tmp_path, "p.yaml")
    _, err = ended(process)
    assert process.returncode == 1
    assert err.count("restarting in 0.0 s") == 2
    assert f"the file system at {small_disk} has no free space: all 0.5 MiB are used" in err
