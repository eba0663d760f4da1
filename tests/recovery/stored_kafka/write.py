"""Writes the stored job with topics again: its homes and a savepoint, with the code of a commit.

    python -m tests.recovery.stored_kafka.write FOLDER CODE

CODE is the root of a checkout of that commit, in which `make` has made build/typed: only the
commands run there. The fixtures of a commit are not to be written again by a later one: they are
what an older version left. Those here are of e75e423.

The broker is started for it. There are three archives: the home after a stop that let everything
be committed (`stopped`), a savepoint that was made then (`savepoint`), and a home that was killed
behind a manifest, before its transactions were committed (`pending`). `output.json` has, by
archive, the rows that readers saw then (`committed`) and those of the transactions that were left
open (`open`), and the rows of a run that nothing has stopped (`undisturbed`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.recovery.stored.write import archive
from tests.recovery.stored_kafka.stored_job import (
    BROKERS,
    HERE,
    JOB,
    ROWS,
    Rows,
    create_topics,
    delete_topics,
    feed,
    read_output,
)
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics

HEADRACE = (sys.executable, "-m", "headrace.cli")
LONGEST_S = 60.0
TO_THE_END = ("--set", "sources.orders.kafka.stop=latest")


class Writer:
    """A run of the job in its folder, with the code that writes the fixtures."""

    def __init__(self, folder: Path, code: Path, broker: Broker) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "PYTHONPATH": f"{code / 'build/typed'}:{code}",
            BROKERS: broker.address,
        }
        shutil.copy(HERE / f"{JOB}.yaml", folder)

    def start(self, *arguments: str, fault: str = "") -> subprocess.Popen[bytes]:
        """Start a run, which dies at a failpoint if one is named."""
        environment = self.environment | ({"HEADRACE_FAULT": fault} if fault else {})
        command = [*HEADRACE, "run", f"{JOB}.yaml", *arguments]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stderr=log, stdout=log
            )

    def run_command(self, *arguments: str) -> None:
        """Run another command to its end."""
        subprocess.run([*HEADRACE, *arguments], cwd=self.folder, env=self.environment, check=True)

    def stop_after(self, rows: int) -> None:
        """Run the job until a checkpoint has read that many rows, and stop it."""
        with self.start() as process:
            self._wait(lambda: count_read(self.read_newest()) >= rows)
            process.terminate()
            assert process.wait(LONGEST_S) == 0, self.log

    def read_newest(self) -> Any:
        """Return the newest manifest, if there is one."""
        place = self.folder / ".headrace" / JOB / "checkpoints" / "manifests"
        for path in sorted(place.glob("*.json"), key=lambda path: -int(path.stem)):
            try:
                return json.loads(path.read_bytes())
            except FileNotFoundError:
                continue
        return None

    @property
    def log(self) -> str:
        """Everything that the runs have printed."""
        return (self.folder / "log").read_text()

    def _wait(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LONGEST_S
        while not is_so():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)


def count_read(manifest: Any) -> int:
    """Return the number of rows that a checkpoint has read."""
    counts = manifest["counts"]["parts"] if manifest else {}
    return int(counts.get("orders", [0])[0])


def write_stopped(writer: Writer, topics: Topics, to: Path) -> Mapping[str, Rows]:
    """Write the home of a job that was stopped, and its savepoint."""
    feed(topics, 0)
    feed(topics, 1)
    writer.stop_after(2 * ROWS)
    archive(writer.folder, to / "stopped.tar.xz")
    writer.run_command("state", "export", JOB, "--to", "saved")
    shutil.rmtree(writer.folder / ".headrace")
    archive(writer.folder, to / "savepoint.tar.xz")
    return describe_output(topics)


def write_pending(writer: Writer, topics: Topics, to: Path) -> Mapping[str, Rows]:
    """Write the home of a job that was killed between a manifest and the commits."""
    feed(topics, 0)
    writer.stop_after(ROWS)
    feed(topics, 1)
    slow = ("--set", "settings.checkpoint.every=3s")
    with writer.start(*slow, fault="manifest.after:1") as process:
        assert process.wait(LONGEST_S) == -signal.SIGKILL, writer.log
    newest = writer.read_newest()
    assert count_read(newest) == 2 * ROWS
    assert all(sink["handles"] for sink in newest["sinks"].values())
    archive(writer.folder, to / "pending.tar.xz")
    return describe_output(topics)


def write_undisturbed(writer: Writer, topics: Topics, _: Path) -> Mapping[str, Rows]:
    """Run the job from the first record to the last."""
    for phase in range(3):
        feed(topics, phase)
    with writer.start(*TO_THE_END) as process:
        assert process.wait(LONGEST_S) == 0, writer.log
    return describe_output(topics)


def describe_output(topics: Topics) -> Mapping[str, Rows]:
    """Return the rows that are committed and those that are not."""
    seen, written = read_output(topics), read_output(topics, committed=False)
    rest = {
        sink: [*(Counter(map(json.dumps, rows)) - Counter(map(json.dumps, seen[sink]))).elements()]
        for sink, rows in written.items()
    }
    return {"committed": seen, "open": {n: [*map(json.loads, rows)] for n, rows in rest.items()}}


def main(to: Path, code: Path) -> None:
    """Write all of it."""
    to.mkdir(parents=True, exist_ok=True)
    output = {}
    with TemporaryDirectory() as made, Broker(Path(made) / "broker") as broker:
        topics = Topics(broker.address)
        for write in (write_stopped, write_pending, write_undisturbed):
            name = write.__name__.removeprefix("write_")
            folder = Path(made, name)
            folder.mkdir()
            create_topics(topics)
            output[name] = write(Writer(folder, code.resolve(), broker), topics, to)
            delete_topics(topics)
    (to / "output.json").write_text(format_output(output))
    print({path.name: path.stat().st_size for path in sorted(to.iterdir())})


def format_output(output: Mapping[str, Mapping[str, Rows]]) -> str:
    """Return the output as JSON with a line for each row.

    >>> print(format_output({"a": {"committed": {"b": [{"c": 1}, {"c": 2}]}}}), end="")
    {"a": {"committed": {"b": [
    {"c": 1},
    {"c": 2}]}}}
    """
    return json.dumps(output).replace("[{", "[\n{").replace("}, {", "},\n{") + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
