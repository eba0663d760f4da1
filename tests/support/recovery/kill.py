"""A real process, killed again and again, and what is seen of its output in between.

    python -m tests.support.recovery.kill 200 [SEED] [WORKERS]

kills as often as that and reports each; CI does so a few times. With workers, they are killed and
stopped as well while the job runs.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp

from headrace.cli.control.client import JobClient, NoAnswer, NotListening
from headrace.cli.run_text import ALREADY_FINISHED_TEXT
from headrace.state.savepoints.names import is_unfinished
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import limited
from tests.support.cli.worker_failures import LOSS, WorkerFailures
from tests.support.cli.worker_jobs import AT_ONCE
from tests.support.recovery.kill_times import moments
from tests.support.recovery.killed_job import RATE, Output, write_job

LONGEST_S = 3.0
"""A life that is not ended before that is ended then."""
LOOK_S = 0.002
FILES = {
    "manifest": ".headrace/killed/checkpoints/manifests/*",
    "part": "*/part-*",
    "hidden": "*/.inprogress-*",
}
"""What is to have come new when it is killed."""
ENDS = {"stop": (-signal.SIGTERM,), "at once": (130, -signal.SIGINT)}
"""How a process ends that is killed in another way; by the signal itself if it was too early."""


@dataclass(slots=True)
class Killed:
    """A job that is killed and run again."""

    folder: Path
    chance: Random
    output: Output = field(init=False)
    lives: list[str] = field(default_factory=list)
    """What ended each."""
    said: str = ""
    asked: int = 0
    """How often it was asked for something, and took it on."""
    savepoints: set[str] = field(default_factory=set)
    """Those that were seen."""
    verbose: bool = False
    workers: int = 1
    """The highest number of worker processes."""
    failures: WorkerFailures = field(init=False)

    def __post_init__(self) -> None:
        self.output = Output(self.folder)
        self.failures = WorkerFailures(self.chance)

    def kill(self) -> bool:
        """Run it, and end it somehow, somewhere; whether it had said its last word before."""
        how = self.chance.choice(["time", "time", "manifest", "part", "hidden", "stop", "at once"])
        process = self._begun()
        asks, strikes = self._asks(), self.failures.strike(process)
        moment = moments(self.chance, self._longest_s, self.folder, FILES.get(how))
        while process.poll() is None and not next(moment):
            next(asks)
            if self.workers > 1:
                next(strikes)
            time.sleep(LOOK_S)
        match how:
            case "stop":
                process.terminate()
            case "at once":
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGINT)
            case _:
                process.kill()
        status = self._ended(process)
        self.lives.append(f"{how}: {status}")
        if self.verbose:
            struck = f", struck {len(self.failures.log)} times" if self.workers > 1 else ""
            print(f"  {self.lives[-1]}; asked {self.asked} times in all{struck}", flush=True)
        too_early = "KeyboardInterrupt" in self.said  # Python itself was only just beginning
        # A job that is asked to end does not restart.
        fell = how in ENDS and status == 1 and LOSS.search(self.said)
        assert too_early or fell or status in (*ENDS.get(how, (-9,)), 0), self.said
        self.failures.assert_all_gone()
        self.output.look()
        self.output.judge(whole=False)
        self._judge_savepoints()
        is_done = "done in" in self.said or ALREADY_FINISHED_TEXT in self.said
        return is_done and not (self.folder / ".headrace/killed/finished").exists()

    def finish(self) -> None:
        """Run it to its end, without waiting for the rate: all is there, and nothing else."""
        status = self._ended(self._begun(*AT_ONCE))
        assert status == 0, self.said
        self.end()

    def end(self) -> None:
        """It has come to its end."""
        self.output.look()
        self.output.judge(whole=True)
        self.output.assert_nothing_is_left()

    @property
    def _longest_s(self) -> float:
        """The time after which a life is ended: workers take time to start, and to start again."""
        return LONGEST_S if self.workers == 1 else 10 * LONGEST_S

    def _begun(self, *options: str) -> subprocess.Popen[str]:
        command = ("run", "p.yaml", *self.failures.draw_options(self.workers), *options)
        with (self.folder / "said").open("w") as said:
            process = start_headrace(*command, cwd=self.folder, stderr=said, text=True)
        return limited(process, 100 * LONGEST_S)

    def _asks(self) -> Iterator[None]:
        """Ask the process for something now and then."""
        client = JobClient(Home(LocalDisk(), str(self.folder / ".headrace"), "killed"))
        while True:
            until = time.monotonic() + self.chance.choice([0.02, 0.1, 0.5])
            while time.monotonic() < until:
                yield
            path, body = self.chance.choice(
                [
                    ("/v1/savepoints", {}),
                    ("/v1/rescale", self.failures.draw_rescale(self.workers)),
                ]
            )
            with suppress(NotListening, NoAnswer):
                status, _ = client.send_request("POST", path, body)
                assert status in (202, 409), status
                self.asked += status == 202

    def _judge_savepoints(self) -> None:
        """All that can be seen of them is whole."""
        for path in (self.folder / ".headrace/@savepoints/killed").glob("*"):
            if is_unfinished(path.name):
                continue
            open_savepoint(str(path)).verify()
            self.savepoints.add(path.name)

    def _ended(self, process: subprocess.Popen[str]) -> int:
        status = process.wait()
        self.said = (self.folder / "said").read_text()
        return status


def kill_often(
    folder: Path, seed: int, times: int, *, workers: int = 1, verbose: bool = False
) -> Killed:
    """Kill a job as often as that, or to its end, and finish it."""
    chance = Random(seed)
    write_job(folder, chance.choice([1, 2]), RATE if workers == 1 else RATE // 12)
    killed = Killed(folder, chance, verbose=verbose, workers=workers)
    for _ in range(times):
        if killed.kill():
            killed.end()
            return killed
    killed.finish()
    return killed


def resumed(said: str) -> int | None:
    """Return the number of the checkpoint that a run reports to resume from."""
    found = re.search(r"^resumed from checkpoint (\d+) of", said, re.MULTILINE)
    return int(found[1]) if found else None


def main(times: int, seed: int = 0, workers: int = 1) -> None:
    """Kill jobs one after the other, until there were that many lives; a failed one stays."""
    while times > 0:
        folder = Path(mkdtemp(prefix=f"headrace-killed-{seed}-"))
        print(f"seed {seed}, {folder}:", flush=True)
        lives = kill_often(folder, seed, min(times, 12), workers=workers, verbose=True).lives
        rmtree(folder)
        times, seed = times - max(1, len(lives)), seed + 1


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
