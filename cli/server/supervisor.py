"""Supervision of the jobs of one home: starts, watches and restarts their processes.

Everything runs on one event loop. A record is written before what it says is done, so a server that
is killed at any instant leaves what the next one needs: which jobs are wanted, and which run's end
nobody has recorded yet.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import orjson

from headrace.cli.server.job_process import JobProcess, adopt_processes, start_job
from headrace.cli.server.restart_decision import (
    HEALTHY_AFTER_S,
    RunEnd,
    compute_delay_s,
    decide_run_end,
)
from headrace.cli.server.run_history import build_history
from headrace.cli.server.run_log import LAUNCHED, RunLog, read_last_run
from headrace.cli.server.server_folder import BEFORE, JobRecord, ServerFolder
from headrace.core.api.snapshots import format_now
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

STABLE_OPTIONS = ("--log", "json")


@dataclass(slots=True)
class ServedJob:
    """A job of the server: its record, and its process if it runs."""

    record: JobRecord
    process: JobProcess | None = None
    started_s: float = 0.0
    restart_timer: asyncio.TimerHandle | None = None
    restarts_at_s: float = 0.0
    is_restarting: bool = False
    """Whether it is stopped only to be started again."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no process runs."""

    def __post_init__(self) -> None:
        self.ended.set()


@dataclass(slots=True)
class Supervisor:
    """The jobs of a home that the server runs."""

    folder: ServerFolder
    report: Callable[[str], None]
    """Prints a line about a job."""
    kept_history: int
    otlp: str | None = None
    """The receiver of metrics and traces of the jobs that are started."""
    jobs: dict[str, ServedJob] = field(default_factory=dict)
    is_ending: bool = False
    _watchers: set[asyncio.Task[None]] = field(default_factory=set)

    async def resume(self) -> None:
        """Adopt the jobs that run, and start those that are wanted and do not."""
        for record in self.folder.load_records():
            self._return_to_version_before(record)
            self.jobs[record.name] = ServedJob(record)
        logs = {name: self.folder.get_log_path(name) for name in self.jobs}
        for name, process in adopt_processes(logs).items():
            job = self.jobs[name]
            job.record.is_wanted, job.record.status = True, "running"
            self._watch(job, process)
            self.report(f"{name}: runs already, process {process.pid}")
        for job in self.jobs.values():
            if job.process is None and job.record.run is not None:
                self._record_end(
                    job, None, read_last_run(self.folder.get_log_path(job.record.name))
                )
            if not (job.process or job.restart_timer) and job.record.is_wanted:
                self.start(job)

    def add(self, name: str, file: str, text: str, overrides: Sequence[str] = ()) -> ServedJob:
        """Add a job, or replace the pipeline of one that does not run."""
        job = self.jobs.get(name)
        if job is None:
            job = self.jobs[name] = ServedJob(JobRecord(name, file))
        assert job.process is None, name
        self.folder.write_text(self.folder.get_pipeline_path(name), text)
        job.record.file, job.record.overrides = file, list(overrides)
        return job

    def request_start(self, job: ServedJob, *options: str) -> None:
        """Start a job on a request, with options for this start only."""
        job.record.generation += 1
        job.record.options = list(options)
        job.record.failures = 0
        self.start(job)

    def start(self, job: ServedJob) -> None:
        """Start the process of a job that does not run; a failure to do so is one of the run.

        While the server ends, the start is left to the next one.
        """
        record = job.record
        self.cancel_restart(job)
        job.is_restarting = False
        if self.is_ending:
            record.is_wanted = True
            self.folder.save_record(record)
            return
        record.is_wanted, record.status, record.reason = True, "running", ""
        record.run, record.started_at = uuid.uuid4().hex, format_now()
        log = self.folder.get_log_path(record.name)
        try:
            self.folder.save_record(record)
            self.open_home(job).clear_immediate_stop()
            self._write_launched(record, log)
            arguments = self._build_arguments(record, log)
            process = start_job(arguments, log, os.path.dirname(record.file), self._variables)
        except OSError as error:
            why = f"cannot start: {error.strerror or error}"
            failure = {"message": why, "exit_status": 1}
            self._record_end(job, 1, RunLog({}, [], [failure]))
            return
        self.report(f"{record.name}: started, process {process.pid}")
        self._watch(job, process)

    def open_home(self, job: ServedJob) -> Home:
        """Return the home of a job."""
        return Home(LocalDisk(), self.folder.home, job.record.name)

    def mark_stopped(self, job: ServedJob) -> None:
        """Keep a job that waits for its restart from starting."""
        self.cancel_restart(job)
        job.record.generation += 1
        job.record.is_wanted, job.record.status = False, "stopped"
        self.folder.save_record(job.record)

    def cancel_restart(self, job: ServedJob) -> None:
        """Cancel a restart that is due later."""
        if job.restart_timer is not None:
            job.restart_timer.cancel()
            job.restart_timer = None

    def signal_jobs(self) -> None:
        """Request a stop with a checkpoint of all jobs; a second request ends them at once."""
        for job in self.jobs.values():
            self.cancel_restart(job)
            if job.process is not None:
                job.process.send_signal(signal.SIGTERM)

    async def wait_until_ended(self) -> None:
        """Wait until no process runs."""
        await asyncio.gather(*(job.ended.wait() for job in self.jobs.values()))

    def close(self) -> None:
        """Stop watching; the processes go on."""
        for job in self.jobs.values():
            self.cancel_restart(job)
        for task in self._watchers:
            task.cancel()

    @property
    def _variables(self) -> dict[str, str]:
        """The variables of the environment of jobs, beside those of the server."""
        return {} if self.otlp is None else {"HEADRACE_OTLP": self.otlp}

    def _build_arguments(self, record: JobRecord, log: str) -> list[str]:
        text = self.folder.get_pipeline_path(record.name)
        places = ("--home", self.folder.home, "--text", text, "--log-file", log)
        values = (f"--set={each}" for each in record.overrides)
        return ["run", record.file, *places, *values, *STABLE_OPTIONS, *record.options]

    def _write_launched(self, record: JobRecord, log: str) -> None:
        event = {"event": LAUNCHED, "time": record.started_at, "pipeline": record.file}
        line = orjson.dumps({**event, "run": record.run, "options": record.options})
        with open(log, "ab") as file:
            file.write(line + b"\n")

    def _watch(self, job: ServedJob, process: JobProcess) -> None:
        job.process, job.started_s = process, asyncio.get_running_loop().time()
        job.ended.clear()
        task = asyncio.create_task(self._wait_for_end(job, process))
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    async def _wait_for_end(self, job: ServedJob, process: JobProcess) -> None:
        status = await process.wait()
        path = self.folder.get_log_path(job.record.name)
        run = await asyncio.to_thread(read_last_run, path)
        job.process = None
        try:
            self._record_end(job, status, run)
        except OSError as error:
            # Such as a full disk: the job goes on as decided, and the next record is complete.
            self.report(f"{job.record.name}: the end is not recorded: {error.strerror or error}")
        finally:
            job.ended.set()

    def _record_end(self, job: ServedJob, status: int | None, run: RunLog) -> None:
        """Record the end of a run, and restart the job if it is to go on."""
        record, home = job.record, self.open_home(job)
        end = decide_run_end(
            status,
            run,
            is_server_ending=self.is_ending or job.is_restarting,
            is_stopped_at_once=home.was_stopped_at_once(),
        )
        record.run = None
        if record.upgrade is not None:
            end = self._settle_upgrade_at_end(job, end, run)
        record.status, record.reason, record.is_wanted = end.status, end.reason, end.stays_wanted
        if run.has_state:
            record.options = []
        if end.restarts and not self.is_ending:
            self._schedule_restart(job)
        self.report(f"{record.name}: {describe_end(end)}{self._describe_restart(job)}")
        self.folder.save_record(record)
        self.folder.add_history(build_history(record, status, end, run), self.kept_history)

    def _settle_upgrade_at_end(self, job: ServedJob, end: RunEnd, run: RunLog) -> RunEnd:
        """Settle the upgrade of a job whose process has ended; return what follows."""
        record = job.record
        assert record.upgrade is not None, record.name
        before = self.folder.get_pipeline_path(record.name, BEFORE)
        if not os.path.exists(before):  # its version before has ended
            return replace(end, stays_wanted=True)
        if run.newest_checkpoint > record.upgrade.checkpoint or end.status == "done":
            self.settle_upgrade(job)
            return end
        os.replace(before, self.folder.get_pipeline_path(record.name))
        record.options, record.overrides = [], record.upgrade.overrides
        record.upgrade, record.upgrade_result = None, end.reason or end.status
        restarts = end.status == "failed"
        reason = f"the upgrade is rolled back: {end.reason}"
        return replace(end, reason=reason, restarts=restarts, stays_wanted=restarts)

    def settle_upgrade(self, job: ServedJob) -> None:
        """Complete the upgrade of a job whose new version has completed a checkpoint."""
        job.record.upgrade, job.record.upgrade_result = None, ""
        self.folder.save_record(job.record)
        LocalDisk().remove(self.folder.get_pipeline_path(job.record.name, BEFORE))

    def _return_to_version_before(self, record: JobRecord) -> None:
        """Undo what a server has written for an upgrade that it has not begun when it ended."""
        before = self.folder.get_pipeline_path(record.name, BEFORE)
        is_begun = record.upgrade is None or record.upgrade.is_begun
        if not is_begun and os.path.exists(before):
            os.replace(before, self.folder.get_pipeline_path(record.name))

    def _schedule_restart(self, job: ServedJob) -> None:
        loop = asyncio.get_running_loop()
        is_healthy = loop.time() - job.started_s >= HEALTHY_AFTER_S
        job.record.failures = 1 if is_healthy else job.record.failures + 1
        delay_s = compute_delay_s(job.record.failures)
        job.record.status, job.restarts_at_s = "waiting", loop.time() + delay_s
        job.restart_timer = loop.call_later(delay_s, self.start, job)

    def _describe_restart(self, job: ServedJob) -> str:
        if job.restart_timer is None:
            return ""
        return f"; restarts in {compute_delay_s(job.record.failures):.0f} s"


def describe_end(end: RunEnd) -> str:
    """Describe the end of a run.

    >>> describe_end(RunEnd("failed", "ended by SIGKILL"))
    'failed: ended by SIGKILL'
    """
    return f"{end.status}: {end.reason}" if end.reason else end.status


def describe_job(job: ServedJob) -> dict[str, Any]:
    """Return a job as plain data, as far as its own process does not know better."""
    record = job.record
    waits_s = None
    if job.restart_timer is not None:
        waits_s = round(max(0.0, job.restarts_at_s - asyncio.get_running_loop().time()), 1)
    return {
        "name": record.name,
        "status": record.status,
        "why": record.reason,
        "generation": record.generation,
        "file": record.file,
        "wanted": record.is_wanted,
        "started_at": record.started_at or None,
        "restarts_in_s": waits_s,
        "failures": record.failures,
        "upgrading": record.upgrade is not None,
    }
