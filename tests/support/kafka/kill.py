"""A process and its broker, killed again and again, and what a reader sees of its output.

    python -m tests.support.kafka.kill 200 [SEED] [WORKERS]

runs that number of lives and reports each; CI runs a few. With workers, they are killed and stopped
as well while the job runs.
"""

from __future__ import annotations

import os
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
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import finished, limited
from tests.support.cli.worker_failures import LOSS, WorkerFailures
from tests.support.kafka.broker import Broker
from tests.support.kafka.broker_failures import Trouble
from tests.support.kafka.committed_reader import Watcher
from tests.support.kafka.failpoints import POINTS
from tests.support.kafka.feed import PARTITIONS, Feed
from tests.support.kafka.killed_job import SHAKY, SINKS, Seen, in_files, pipeline
from tests.support.kafka.proxy import LISTENERS, Proxied, at_random, between, harmless
from tests.support.kafka.topics import Topics
from tests.support.recovery.kill_times import moments
from tests.support.recovery.killed_job import within

JOB = "fired"
LONGEST_S = 4.0
"""A life that is not ended before that is ended then."""
LOOK_S = 0.005
DONE_S = 180.0
SETTLED_S = 60.0
HOWS = ("time", "time", "manifest", "note", "fault", "fault", "stop", "saved", "at once", "frozen")
ENDS = {
    "stop": (-signal.SIGTERM, -9),
    "saved": (-signal.SIGTERM, -9),
    "at once": (130, -signal.SIGINT),
}
"""How a process ends that is ended in another way; by the signal itself if it was too early."""
AWAY = re.compile(r"broker|answer")
OUGHT_NOT = re.compile(r" lost|Unclosed|never retrieved|a bug in headrace")


@dataclass(slots=True)
class Fired:
    """A job under fire, its broker, and who reads what it writes."""

    folder: Path
    chance: Random
    broker: Broker
    tell: bool = False
    name: str = JOB
    """What its topics begin with."""
    through: str = ""
    """Where the job is to look for the broker, if not where others do."""
    lives: list[str] = field(default_factory=list)
    """What ended each."""
    said: str = ""
    savepoint: str = ""
    """The one that the next life begins with."""
    asked: int = 0
    topics: Topics = field(init=False)
    feed: Feed = field(init=False)
    trouble: Trouble = field(init=False)
    watcher: Watcher = field(init=False)
    seen: Seen = field(default_factory=Seen)
    workers: int = 1
    """The highest number of worker processes."""
    failures: WorkerFailures = field(init=False)

    def __post_init__(self) -> None:
        self.failures = WorkerFailures(self.chance)
        self.topics = Topics(self.broker.address)
        self.topics.create(f"{self.name}-in", PARTITIONS)
        for sink in SINKS:
            self.topics.create(f"{self.name}-{sink}", self.chance.choice([1, 2, 3]))
        address = self.through or self.broker.address
        (self.folder / "shaky.py").write_text(SHAKY)
        (self.folder / "p.yaml").write_text(pipeline(address, self.name))
        seed = self.chance.randrange(1000)
        self.feed = Feed(self.broker.address, f"{self.name}-in", self.folder / "in", seed)
        self.trouble = Trouble(self.broker)
        written = {
            f"{self.name}-{sink}": self.topics.partitions(f"{self.name}-{sink}") for sink in SINKS
        }
        self.watcher = Watcher(self.broker.address, written)
        self.feed.start()

    def close(self) -> None:
        """Stop all writers and readers."""
        self.trouble.over()
        self.feed.close()
        self.watcher.close()

    def live(self) -> None:
        """Run it, and end it somehow, somewhere."""
        if self.chance.random() < 0.7:
            self.trouble.over()
        how = self.chance.choice(HOWS)
        fault = f"{self.chance.choice(POINTS)}:{self.chance.choice([1, 1, 2, 3, 7])}"
        process = self._begun(fault if how == "fault" else "")
        troubled = self.trouble.there
        moment, asks, troubles = self._moment(how), self._asks(), self._troubles()
        strikes = self.failures.strike(process)
        while process.poll() is None and not next(moment):
            next(asks)
            if self.workers > 1:
                next(strikes)
            troubled |= next(troubles)
            time.sleep(LOOK_S)
        if self.chance.random() < 0.1:
            self.trouble.kill(self.chance.uniform(0, 3))  # both at once
            troubled = True
        self._end(how, process)
        status = self._ended(process)
        with_it = f" ({fault})" if how == "fault" else ""
        self.lives.append(f"{how}{with_it}: {status}{', troubled' if troubled else ''}")
        struck = f", struck {len(self.failures.log)} times" if self.workers > 1 else ""
        asked = f"asked {self.asked} times{struck}"
        self._tell(f"  {self.lives[-1]}; {self.feed.records} records, {asked}")
        self._judge_end(how, status, troubled)
        self.failures.assert_all_gone()
        self.look()
        self.seen.judge(self.feed.records, self.feed.lines, whole=False)

    def die(self, point: str) -> None:
        """Run it until it dies at that point."""
        assert self._dies(point, DONE_S), (self.folder / "said").read_text()

    def die_again(self, point: str) -> None:
        """Run it until it dies at a point that a start only passes with handles to commit.

        On a busy machine the checkpoint before may have had no rows, and so no handles.
        """
        for checkpoint in range(2, 6):
            self.die(f"manifest.after:{checkpoint}")
            if self._dies(point, DONE_S / 6):
                return
        raise AssertionError((self.folder / "said").read_text())

    def _dies(self, point: str, most_s: float) -> bool:
        """Run it until it dies at that point, or is killed because it does not for so long."""
        process, is_late = self._begun(point), False
        try:
            process.wait(most_s)
        except subprocess.TimeoutExpired:
            is_late = True
            process.kill()
        assert process.wait() == -signal.SIGKILL, (self.folder / "said").read_text()
        self._ended(process)
        self.lives.append(point)
        self.look()
        self.seen.judge(self.feed.records, self.feed.lines, whole=False)
        return not is_late

    def _tell(self, line: str) -> None:
        if self.tell:
            print(line, flush=True)

    def _judge_end(self, how: str, status: int, troubled: bool) -> None:
        too_early = "KeyboardInterrupt" in self.said  # Python itself was only just beginning
        away = (troubled or self.through) and status == 1 and AWAY.search(self.said)
        # A step that fails while the job is asked to end is not begun again.
        failed = "as it happens" in self.said or LOSS.search(self.said)
        fell = how in (*ENDS, "saved") and status == 1 and failed
        assert "Traceback" not in self.said or too_early, self.said
        assert too_early or away or fell or status in (*ENDS.get(how, (-9,)), 0), self.said
        assert not OUGHT_NOT.search(LOSS.sub("", self.said)), self.said

    def _end(self, how: str, process: subprocess.Popen[str]) -> None:
        match how:
            case "stop":
                process.terminate()
            case "saved":
                self._save()
            case "at once":
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGINT)
            case "frozen":
                process.send_signal(signal.SIGSTOP)
                self._refused(process)
                process.kill()
            case _:
                process.kill()
        if how in ("stop", "saved"):
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.chance.uniform(0, 20))
            process.kill()

    def _save(self) -> None:
        """Stop it with a savepoint, which the next life begins with if it came to be."""
        self.savepoint = str(self.folder / f"saved-{len(self.lives)}")
        with suppress(NotListening, NoAnswer):
            self._client().send_request("POST", "/v1/stop", {"savepoint": self.savepoint})

    def _refused(self, process: subprocess.Popen[str]) -> None:
        """Check that a second run is refused while the job runs."""
        held, holder = self._client().home.find_holder()
        if held and holder is not None and holder.pid == process.pid:
            second = finished(self.folder, "p.yaml")
            assert second.returncode == 3, second.stderr

    def finish(self) -> None:
        """All that there is to read is read, and all is there, and nothing else."""
        self.feed.close()
        self.trouble.over()
        process = self._begun()
        deadline = time.monotonic() + DONE_S
        while self._missing():
            assert process.poll() is None, (self.folder / "said").read_text()
            assert time.monotonic() < deadline, f"missing: {self._missing()}"
        status, _ = self._client().send_request("POST", "/v1/stop", {"drain": True})
        assert status == 202
        assert self._ended(process) == 0, self.said
        began = time.monotonic()
        for sink in SINKS:
            self.topics.settled(f"{self.name}-{sink}")
        assert time.monotonic() - began < SETTLED_S, "a transaction was left open for long"
        self.look()
        self.seen.judge(self.feed.records, self.feed.lines, whole=True)
        self._judge_afresh()
        self._tell(f"  finished: {self.feed.records} records, {self.feed.lines} lines")

    def _judge_afresh(self) -> None:
        """Another reader sees the same."""
        seen = Seen()
        for sink in SINKS:
            for record in self.topics.read(f"{self.name}-{sink}"):
                seen.add(sink, record)
        seen.judge(self.feed.records, self.feed.lines, whole=True)
        found = [row["id"] for row in seen.rows["good"]]
        within(in_files(self.folder / "files"), found, True)
        assert not in_files(self.folder / "late")

    def _missing(self) -> int:
        self.look()
        return self.seen.missing(self.feed.records, self.feed.lines)

    def look(self) -> None:
        """Read what is visible by now."""
        for topic, record in self.watcher.more():
            self.seen.add(topic.removeprefix(f"{self.name}-"), record)

    def _begun(self, fault: str = "") -> subprocess.Popen[str]:
        command = ["run", "p.yaml", *self.failures.draw_options(self.workers)]
        if self.savepoint and Path(self.savepoint, "savepoint.json").exists():
            command += ["--from-savepoint", self.savepoint]
        self.savepoint = ""
        environment = os.environ | ({"HEADRACE_FAULT": fault} if fault else {})
        with (self.folder / "said").open("w") as said:
            process = start_headrace(
                *command, cwd=self.folder, stderr=said, text=True, env=environment
            )
        return limited(process, 2 * DONE_S)

    def _client(self) -> JobClient:
        return JobClient(Home(LocalDisk(), str(self.folder / ".headrace"), JOB))

    def _asks(self) -> Iterator[None]:
        """Ask the process for something now and then."""
        while True:
            until = time.monotonic() + self.chance.choice([0.1, 0.5, 1.0])
            while time.monotonic() < until:
                yield
            body = self.failures.draw_rescale(self.workers)
            path, body = self.chance.choice([("/v1/savepoints", {}), ("/v1/rescale", body)])
            with suppress(NotListening, NoAnswer):
                status, _ = self._client().send_request("POST", path, body)
                assert status in (202, 409), status
                self.asked += status == 202

    def _troubles(self) -> Iterator[bool]:
        """Have trouble with the broker, or not; whether there is some."""
        what = self.chance.choice(["", "", "", "", "", "kill", "pause"])
        until = time.monotonic() + self.chance.uniform(0, LONGEST_S)
        while not what or time.monotonic() < until:
            yield self.trouble.there
        away_s = self.chance.choice([0.0, 0.5, 2.0, 5.0])
        (self.trouble.kill if what == "kill" else self.trouble.pause)(away_s)
        while True:
            yield True

    def _moment(self, how: str) -> Iterator[bool]:
        """Whether the moment has come, again and again."""
        pattern = {"manifest": "checkpoints/manifests/*", "note": "checkpoints/*"}.get(how)
        longest_s = LONGEST_S if self.workers == 1 else 8 * LONGEST_S  # workers take time to start
        return moments(self.chance, longest_s, self.folder / ".headrace" / JOB, pattern)

    def _ended(self, process: subprocess.Popen[str]) -> int:
        status = process.wait()
        self.said = (self.folder / "said").read_text()
        with (self.folder / "all-said").open("a") as all_said:
            all_said.write(f"--- {len(self.lives)}\n{self.said}")
        return status


def fire(folder: Path, seed: int, lives: int, *, workers: int = 1, tell: bool = False) -> Fired:
    """Run that number of lives of a job, with a broker of its own, and finish it.

    Half of the jobs reach it by a network that loses or delays what is said.
    """
    chance, job = Random(seed), folder / "job"
    job.mkdir()
    decide = at_random(Random(seed)) if seed % 2 else harmless
    with Proxied(folder / "broker", LISTENERS) as broker, between(broker, decide):
        fired = Fired(job, chance, broker, tell, through=broker.through, workers=workers)
        try:
            for _ in range(lives):
                fired.live()
            fired.finish()
        finally:
            fired.close()
    return fired


def main(lives: int, seed: int = 0, workers: int = 1) -> None:
    """Run jobs in sequence until the number of lives is reached; the files of a failed one stay."""
    while lives > 0:
        folder = Path(mkdtemp(prefix=f"headrace-fired-{seed}-"))
        print(f"seed {seed}, {folder}:", flush=True)
        lived = len(fire(folder, seed, min(lives, 12), workers=workers, tell=True).lives)
        rmtree(folder)
        lives, seed = lives - lived, seed + 1


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
