"""Changes of jobs that clients request of the server: submit, restart, upgrade.

An upgrade stops the job with a savepoint and starts the new version from its last checkpoint. Until
the new version has completed a checkpoint of its own, its failure rolls the upgrade back: the
version before starts again, from the same checkpoint. This is decided by the job's record, so that
a server which ends meanwhile leaves the decision to the next one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Sequence
from typing import Any

import orjson

from headrace.cli.control.http_messages import RequestError
from headrace.cli.control.job_lookup import find_newest_checkpoint
from headrace.cli.server.job_forwarding import forward_request
from headrace.cli.server.pipeline_check import CheckFailed, check_pipelines
from headrace.cli.server.pipeline_files import SUFFIXES, PipelineFiles
from headrace.cli.server.run_log import read_last_run
from headrace.cli.server.server_folder import BEFORE, PendingUpgrade
from headrace.cli.server.server_operations import (
    OperationRejected,
    ServerOperation,
    wait_for_event,
)
from headrace.cli.server.supervisor import ServedJob, Supervisor
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

POLL_INTERVAL_S = 0.2
OPERATION_WAIT_S = 10
UPGRADE_TIMEOUT_S = 600.0
"""The time in which a new version must complete a checkpoint."""

SAVEPOINT_AFTER_S = 20.0
"""The time after which a new version is asked for a checkpoint, by a savepoint; it may take few."""

ANSWER_TIMEOUT_S = 60.0
"""The time in which a process that was started must answer requests."""

RUNNING_STATUSES = ("running", "restarting", "rescaling", "stopping", "draining", "over")
"""The statuses of a job that has found the checkpoint to resume from."""

ENDING_STATUSES = ("stopping", "draining", "over", "")
"""The statuses of a job that ends, or does not answer because it has ended or just starts."""


@dataclass(slots=True)
class JobChanges:
    """Changes of the jobs of a server."""

    supervisor: Supervisor
    files: PipelineFiles

    async def submit(self, file: str, text: str | None, overrides: Sequence[str] = ()) -> ServedJob:
        """Start a pipeline of the folder, or put its text there first. Raises RequestError."""
        path = self._resolve_file(file)
        text = _read_file(path) if text is None else text
        if _differs(path, text):
            hint = "submit it under another name, or change the file there"
            raise RequestError(409, "exists", f"{path} exists and differs", hint)
        found = await self._check(path, text, file, overrides=overrides)
        name = found["name"]
        await asyncio.to_thread(self._check_not_running, name)
        self._check_not_served(name, file)
        _write_file(path, text)
        job = self.supervisor.add(name, path, text, overrides)
        self.supervisor.request_start(job)
        return job

    def check_restart(self, job: ServedJob, savepoint: str | None, *, fresh: bool) -> None:
        """Check that a job can be restarted so. Raises RequestError."""
        if fresh and savepoint is not None:
            message = "wanted one starting point, got a savepoint and fresh"
            raise RequestError(400, "malformed", message)
        if job.record.status == "done" and not fresh and savepoint is None:
            message = f"{job.record.name} has ended: there is nothing to resume from"
            raise RequestError(409, "ended", message, "--fresh starts it from scratch")

    async def restart(
        self,
        job: ServedJob,
        operation: ServerOperation,
        savepoint: str | None,
        *,
        fresh: bool,
        resume_drained: bool,
    ) -> dict[str, object]:
        """Stop a job if it runs, and start it from a savepoint, from scratch or where it was."""
        options = ["--fresh"] * fresh + ["--resume-drained"] * resume_drained
        if savepoint is not None:
            options += ["--from-savepoint", savepoint]
            text = _read_file(self._get_text_path(job))
            own, overrides = job.record.file, job.record.overrides
            wanted = {"savepoint": savepoint, "resume_drained": resume_drained}
            await self._check(own, text, own, overrides=overrides, **wanted)
        if job.process is not None:
            operation.progress_text = "stopping the job with a checkpoint"
            job.is_restarting = True
            job.process.send_signal(signal.SIGTERM)
            await job.ended.wait()
        self.supervisor.request_start(job, *options)
        operation.progress_text = "starting the job"
        while await self._fetch_status(job) not in RUNNING_STATUSES and job.process is not None:
            await self._pause(job)
        log = self.supervisor.folder.get_log_path(job.record.name)
        run = await asyncio.to_thread(read_last_run, log)
        if job.process is None and job.record.status not in ("done", "stopped"):
            message = f"{job.record.name} has failed: {job.record.reason}"
            raise OperationRejected("failed", message, run.hint)
        resumed = run.resumed or {}
        return {"checkpoint": resumed.get("checkpoint"), "again": resumed.get("again", {})}

    async def upgrade(
        self,
        job: ServedJob,
        operation: ServerOperation,
        source: tuple[str, str | None],
        overrides: Sequence[str] = (),
        reset_state: Sequence[str] = (),
        *,
        allow_lost_state: bool = False,
    ) -> dict[str, object]:
        """Upgrade a job to the version of a file, or of its text.

        Returns when the new version has completed a checkpoint. `reset_state` has its steps and
        sources that start without the state of the version before; with `allow_lost_state` the
        state of steps that it does not have is dropped.
        """
        file, text = source
        record, folder = job.record, self.supervisor.folder
        before = _read_file(self._get_text_path(job))
        text = _read_file(self._resolve_file(file)) if text is None else text
        if _differs(record.file, before) and _differs(record.file, text):
            message = f"{record.file} has other changes, which the upgrade would overwrite"
            raise OperationRejected("refused", message, f"upgrade to it, or restore it: {file}")
        operation.progress_text = "checking the new version"
        found = await self._check(
            *(record.file, text, file),
            home=folder.home,
            overrides=overrides,
            reset_state=reset_state,
            allow_lost_state=allow_lost_state,
        )
        if found["name"] != record.name:
            message = f"wanted a version of {record.name}, got the pipeline {found['name']}"
            raise OperationRejected("refused", message, "headrace submit starts another job")
        repeated = found["at_least_once"]
        record.upgrade = PendingUpgrade(0, "", is_begun=False)
        folder.save_record(record)
        try:
            checkpoint, savepoint = await self._stop_with_savepoint(job, operation, repeated)
        except RequestError:
            self._forget_upgrade(job)
            raise
        # In this order: a server that is killed here leaves a record that returns to `before`.
        folder.write_text(folder.get_pipeline_path(record.name, BEFORE), before)
        folder.write_text(folder.get_pipeline_path(record.name), text)
        record.upgrade = PendingUpgrade(checkpoint, savepoint, record.overrides)
        record.overrides = list(overrides)
        folder.save_record(record)
        options = [f"--reset-state={each}" for each in reset_state]
        self.supervisor.request_start(job, *options, *["--allow-lost-state"] * allow_lost_state)
        return await self.finish_upgrade(job, operation) | {"at_least_once": repeated}

    async def finish_upgrade(self, job: ServedJob, operation: ServerOperation) -> dict[str, object]:
        """Wait until the new version has completed a checkpoint, or is rolled back."""
        record, folder = job.record, self.supervisor.folder
        pending = record.upgrade
        assert pending is not None, record.name
        if not pending.is_begun:
            await self._abandon_upgrade(job)
            message = "the upgrade is abandoned: the server ended before the new version started"
            raise OperationRejected("failed", message, f"{record.name} runs in the version before")
        operation.progress_text = "waiting for the first checkpoint of the new version"
        since_s, is_asked = asyncio.get_running_loop().time(), False
        while record.upgrade is not None:
            waited_s = asyncio.get_running_loop().time() - since_s
            if await self._fetch_checkpoint(job) > pending.checkpoint:
                self.supervisor.settle_upgrade(job)
                break
            if waited_s > SAVEPOINT_AFTER_S and not is_asked:
                is_asked = await self._request_savepoint(job)
            if waited_s > UPGRADE_TIMEOUT_S and job.process is not None:
                job.process.send_signal(signal.SIGKILL)
            await self._pause(job)
        if record.upgrade_result:
            message = f"the upgrade is rolled back: {record.upgrade_result}"
            raise OperationRejected("failed", message, f"{record.name} runs in the version before")
        _write_file(record.file, _read_file(folder.get_pipeline_path(record.name)))
        return {"savepoint": pending.savepoint, "checkpoint": pending.checkpoint}

    async def _stop_with_savepoint(
        self, job: ServedJob, operation: ServerOperation, repeated: Sequence[str]
    ) -> tuple[int, str]:
        """Stop a job that runs; return its last checkpoint, and the savepoint made of that."""
        self.supervisor.cancel_restart(job)
        await self._wait_until_answering(job)
        if job.process is None:
            return await self._fetch_checkpoint(job), ""
        warning = f"; rows of {', '.join(repeated)} may be written twice" if repeated else ""
        operation.progress_text = f"stopping the job with a savepoint{warning}"
        home = self.supervisor.open_home(job).folder
        answer = await forward_request(home, "POST", "/v1/stop", {"savepoint": True})
        stopping = orjson.loads(answer.body)
        while answer.status < 300 and stopping["state"] in ("waiting", "running"):
            target = f"/v1/operations/{stopping['id']}?wait_s={OPERATION_WAIT_S}"
            answer = await forward_request(home, "GET", target)
            stopping = orjson.loads(answer.body)
        error = stopping["error"]
        if error is None:
            await job.ended.wait()
            return stopping["result"]["checkpoint"], stopping["result"]["path"]
        await self._undo_stop(job, has_stopped=answer.status < 300)
        raise OperationRejected("failed", f"no savepoint: {error['message']}", error["hint"])

    async def _request_savepoint(self, job: ServedJob) -> bool:
        """Request a savepoint, and so a checkpoint; return whether the job has accepted."""
        home = self.supervisor.open_home(job).folder
        try:
            return (await forward_request(home, "POST", "/v1/savepoints", {})).status == 202
        except RequestError:
            return False

    async def _wait_until_answering(self, job: ServedJob) -> None:
        """Wait until a job that is being started answers, or has ended; not for ever."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + ANSWER_TIMEOUT_S
        while job.process is not None and loop.time() < deadline_s:
            if await self._fetch_job(job):
                return
            await self._pause(job)

    async def _abandon_upgrade(self, job: ServedJob) -> None:
        """Let the version before go on, which may have been stopped for the upgrade."""
        while job.process is not None and await self._fetch_status(job) in ENDING_STATUSES:
            await self._pause(job)
        self._forget_upgrade(job)
        if job.process is None and job.restart_timer is None:
            self.supervisor.request_start(job)

    def _forget_upgrade(self, job: ServedJob) -> None:
        """Record that no upgrade of the job is pending."""
        job.record.upgrade = None
        self.supervisor.folder.save_record(job.record)

    async def _undo_stop(self, job: ServedJob, *, has_stopped: bool) -> None:
        """Let the job go on whose stop has failed."""
        self._forget_upgrade(job)
        if has_stopped:
            await job.ended.wait()
            self.supervisor.request_start(job)

    async def _check(self, file: str, text: str, sent: str, **more: object) -> dict[str, Any]:
        """Check a text as that of a file. Raises RequestError if a job cannot start with it.

        `sent` is the file that has the text, whose lines the errors name.
        """
        folder = self.supervisor.folder
        path = folder.get_pipeline_path(f"@{uuid.uuid4().hex}")
        folder.write_text(path, text)
        try:
            (found,) = await check_pipelines([{"file": file, "text": path, **more}])
        except CheckFailed as error:
            raise RequestError(500, "failed", str(error)) from None
        finally:
            os.unlink(path)
        if not found["is_valid"]:
            errors = [one["text"] for one in found["problems"] if one["severity"] == "error"]
            named = "\n".join(errors).replace(f"{file}:", f"{sent}:")
            raise RequestError(422, "invalid", named)
        if refusal := found.get("refusal"):
            raise RequestError(409, "incompatible", refusal["message"], refusal["hint"])
        return found

    def _resolve_file(self, file: str) -> str:
        """Return the path in the server's folder for a submitted file. Raises RequestError."""
        name = os.path.basename(file)
        if not name.endswith(SUFFIXES) or name.startswith("."):
            message = f'wanted a file such as orders.yaml, got "{name}"'
            raise RequestError(400, "malformed", message)
        return os.path.join(self.files.path, name)

    def _check_not_running(self, name: str) -> None:
        """Check that no run outside of this server has the job. Raises RequestError."""
        if name not in self.supervisor.jobs:
            is_held, holder = Home(LocalDisk(), self.supervisor.folder.home, name).find_holder()
            if is_held:
                message = f"{name} runs already, outside of this server ({holder})"
                raise RequestError(409, "running", message, f"headrace stop {name} ends it")

    def _check_not_served(self, name: str, file: str) -> None:
        """Check that the job does not run. Raises RequestError."""
        job = self.supervisor.jobs.get(name)
        if job is not None and (job.process is not None or job.restart_timer is not None):
            hint = f"another version: headrace upgrade {name} {os.path.basename(file)}"
            raise RequestError(409, "running", f"{name} runs already", hint)

    def _get_text_path(self, job: ServedJob) -> str:
        return self.supervisor.folder.get_pipeline_path(job.record.name)

    async def _pause(self, job: ServedJob) -> None:
        """Wait a moment, or until the job ends."""
        if job.process is None:
            await asyncio.sleep(POLL_INTERVAL_S)
        else:
            await wait_for_event(job.ended, POLL_INTERVAL_S)

    async def _fetch_status(self, job: ServedJob) -> str:
        return str((await self._fetch_job(job)).get("status", ""))

    async def _fetch_checkpoint(self, job: ServedJob) -> int:
        """Return the newest checkpoint of a job; 0 if there is none, or it does not answer."""
        if job.process is None:
            home = self.supervisor.open_home(job)
            return await asyncio.to_thread(find_newest_checkpoint, home) or 0
        return int(((await self._fetch_job(job)).get("checkpoint") or {}).get("number", 0))

    async def _fetch_job(self, job: ServedJob) -> dict[str, Any]:
        """Return what a job says of itself; nothing if it does not answer."""
        try:
            answer = await forward_request(self.supervisor.open_home(job).folder, "GET", "/v1/job")
        except RequestError:
            return {}
        document: dict[str, Any] = orjson.loads(answer.body)
        return document


def _read_file(path: str) -> str:
    """Read a text. Raises RequestError."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RequestError(400, "no_file", f"{path}: {why.lower()}") from None


def _differs(path: str, text: str) -> bool:
    """Whether a file exists and has another text. Raises RequestError."""
    return os.path.exists(path) and _read_file(path) != text


def _write_file(path: str, text: str) -> None:
    """Write a pipeline into the folder of the server, atomically. Raises RequestError."""
    if os.path.exists(path) and not _differs(path, text):
        return
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise RequestError(409, "not_written", f"{path}: {error.strerror or error}") from None
