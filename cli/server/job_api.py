"""API of the server: jobs, their logs and history, and requests that change them.

Below /v1/jobs/NAME are also the routes of the job's own API, to which requests are forwarded. A
request that changes a job names the generation that its client has seen, in the header If-Match.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import quote, urlencode

from headrace.cli.control.http_messages import (
    Request,
    RequestError,
    Response,
    StreamedResponse,
    check_keys,
    make_response,
)
from headrace.cli.control.http_server import HttpRoute
from headrace.cli.control.job_list import JobEntry, list_jobs
from headrace.cli.control.job_lookup import list_homes
from headrace.cli.control.shared_feeds import SharedFeeds
from headrace.cli.control.stream_request import parse_stream_request
from headrace.cli.server.job_changes import JobChanges
from headrace.cli.server.job_forwarding import forward_request
from headrace.cli.server.merged_metrics import merge_metrics
from headrace.cli.server.pipeline_files import PipelineFiles
from headrace.cli.server.run_history import summarize_history
from headrace.cli.server.run_log import read_tail
from headrace.cli.server.server_events import MAX_FEEDS, ServerEvents
from headrace.cli.server.server_folder import ServerFolder
from headrace.cli.server.server_operations import ServerOperation, ServerOperations
from headrace.cli.server.state_queries import read_state
from headrace.cli.server.stored_graphs import StoredGraphs
from headrace.cli.server.supervisor import ServedJob, Supervisor, describe_job
from headrace.cli.server.timelines import JobTimeline, Timelines
from headrace.core.errors.problems import suggest_name
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.names import get_home_folder

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LOG_TYPE = "text/plain; charset=utf-8"
MAX_LOG_BYTES = 2**20
MAX_WAIT_S = 60.0
CHANGING_ROUTES = ("stop", "rescale")
"""The routes of a job's own API that change it, and so need the generation."""


@dataclass(slots=True)
class JobApi:
    """Handlers of the API over the jobs of a home."""

    folder: ServerFolder
    supervisor: Supervisor
    files: PipelineFiles
    operations: ServerOperations = field(default_factory=ServerOperations)
    report_bug: Callable[[BaseException], None] = lambda error: None
    changes: JobChanges = field(init=False)
    timelines: Timelines = field(init=False)
    graphs: StoredGraphs = field(init=False)
    _events: ServerEvents = field(init=False)

    def __post_init__(self) -> None:
        self.changes = JobChanges(self.supervisor, self.files)
        self.timelines = Timelines(self.folder.home, self.report_bug, self._find_process)
        self.graphs = StoredGraphs(self.folder)
        feeds = SharedFeeds(self.report_bug, MAX_FEEDS)
        self._events = ServerEvents(self._describe_all, self._find_folder, feeds)

    def build_routes(self) -> list[HttpRoute]:
        """Return the routes."""
        job = "/v1/jobs/{name}"
        return [
            HttpRoute("GET", "/v1/jobs", self.list_all),
            HttpRoute("POST", "/v1/jobs", self.submit),
            HttpRoute("GET", job, self.show),
            HttpRoute("GET", f"{job}/log", self.log),
            HttpRoute("GET", f"{job}/pipeline", self.pipeline),
            HttpRoute("GET", f"{job}/timeline", self.timeline),
            HttpRoute("GET", f"{job}/graph", self.graph),
            HttpRoute("GET", f"{job}/state", self.state),
            HttpRoute("POST", f"{job}/state/query", self.query, is_reading=True),
            HttpRoute("POST", f"{job}/restart", self.restart),
            HttpRoute("POST", f"{job}/upgrade", self.upgrade),
            HttpRoute("POST", "/v1/events", self.events, is_reading=True),
            HttpRoute("POST", f"{job}/events", self.job_events, is_reading=True),
            HttpRoute("GET", f"{job}/{{route}}", self.forward),
            HttpRoute("POST", f"{job}/{{route}}", self.forward),
            HttpRoute("GET", f"{job}/{{route}}/{{id}}", self.forward),
            HttpRoute("GET", "/metrics", self.metrics),
            HttpRoute("GET", "/v1/history", self.history),
            HttpRoute("GET", "/v1/history/{number}", self.run),
            HttpRoute("GET", "/v1/operations/{id}", self.operation),
        ]

    async def list_all(self, request: Request) -> Response:
        """Answer with all jobs of the home, and the files of the folder that are none."""
        return make_response(200, await self._describe_all())

    async def events(self, request: Request) -> StreamedResponse:
        """Answer with a stream of events: the jobs, and figures and rows of one of them."""
        return self._events.open_stream(parse_stream_request(request.body))

    async def job_events(self, request: Request) -> StreamedResponse:
        """Answer with a stream of the figures and rows of a job."""
        wanted = parse_stream_request({**request.body, "job": request.path_values["name"]})
        return self._events.open_stream(wanted)

    async def _describe_all(self) -> dict[str, Any]:
        entries = await asyncio.to_thread(list_jobs, self.folder.home)
        by_name = {entry.name: entry for entry in entries}
        names = sorted(by_name.keys() | self.supervisor.jobs.keys())
        jobs = [self._merge(name, by_name.get(name)) for name in names]
        known = [job.record.file for job in self.supervisor.jobs.values()]
        return {"jobs": jobs, "files": self.files.list_new(known)}

    async def show(self, request: Request) -> Response:
        """Answer with one job."""
        name = request.path_values["name"]
        entries = await asyncio.to_thread(list_jobs, self.folder.home)
        entry = next((each for each in entries if each.name == name), None)
        if entry is None and name not in self.supervisor.jobs:
            hint = suggest_name(name, [*self.supervisor.jobs, *(each.name for each in entries)])
            raise RequestError(404, "no_such_job", f"there is no job {name}", hint)
        return make_response(200, self._merge(name, entry))

    async def log(self, request: Request) -> Response:
        """Answer with the last lines of a job's log, at most `bytes`."""
        job = self._find_job(request)
        text = request.query.get("bytes", str(2**16))
        size = int(text) if text.isdecimal() and len(text) < 10 else MAX_LOG_BYTES
        path = self.folder.get_log_path(job.record.name)
        data = await asyncio.to_thread(read_tail, path, min(size, MAX_LOG_BYTES))
        return Response(200, data, LOG_TYPE)

    async def pipeline(self, request: Request) -> Response:
        """Answer with the text of the version that runs, and of the file now."""
        record = self._find_job(request).record
        running = _read_text(self.folder.get_pipeline_path(record.name))
        return make_response(200, {"running": running, "file": _read_text(record.file)})

    async def timeline(self, request: Request) -> Response:
        """Answer with the samples of a job's figures in the last hour."""
        found = self.timelines.by_job.get(request.path_values["name"], JobTimeline())
        return make_response(200, found.build_document())

    async def graph(self, request: Request) -> Response:
        """Answer with the plan of a job: of the version that runs, or that ran last."""
        job = self.supervisor.jobs.get(request.path_values["name"])
        if job is None or job.process is not None:
            return await self.forward(request)
        return make_response(200, await self.graphs.build(job.record))

    async def state(self, request: Request) -> Response:
        """Answer with what the state of a job holds, by its newest checkpoint."""
        return Response(200, await self._read_state(request))

    async def query(self, request: Request) -> Response:
        """Answer with the rows of a query over the state of a job: `sql`."""
        sql = check_texts(request.body, "sql").get("sql", "")
        return Response(200, await self._read_state(request, sql))

    async def submit(self, request: Request) -> Response:
        """Submit a pipeline: `file`, its `text` if it is not in the folder, and values to `set`."""
        rest, overrides = take_list(request.body, "set")
        body = check_texts(rest, "file", "text")
        job = await self.changes.submit(body["file"], body.get("text"), overrides)
        return make_response(200, describe_job(job))

    async def restart(self, request: Request) -> Response:
        """Request a restart: `savepoint`, its path, or the flags `fresh` and `resume_drained`."""
        job = self._find_job(request)
        self._check_generation(job, request)
        rest, fresh = take_flag(request.body, "fresh")
        rest, resume_drained = take_flag(rest, "resume_drained")
        savepoint = check_texts(rest, "savepoint").get("savepoint")
        self.changes.check_restart(job, savepoint, fresh=fresh)
        operation = self.operations.create("restart", job.record.name)
        restart = self.changes.restart(
            job, operation, savepoint, fresh=fresh, resume_drained=resume_drained
        )
        self.operations.start(operation, restart)
        return make_response(202, operation.build_document())

    async def upgrade(self, request: Request) -> Response:
        """Request an upgrade: `file`, `text` and `set` as of a submit, and state to drop."""
        job = self._find_job(request)
        self._check_generation(job, request)
        rest, overrides = take_list(request.body, "set")
        rest, reset_state = take_list(rest, "reset_state")
        rest, allow_lost_state = take_flag(rest, "allow_lost_state")
        body = check_texts(rest, "file", "text")
        operation = self.operations.create("upgrade", job.record.name)
        source = body["file"], body.get("text")
        upgrade = self.changes.upgrade(
            job, operation, source, overrides, reset_state, allow_lost_state=allow_lost_state
        )
        self.operations.start(operation, upgrade)
        return make_response(202, operation.build_document())

    async def forward(self, request: Request) -> Response:
        """Forward a request to the job; a stop of a job that waits for its restart ends here."""
        name, route = request.path.split("/")[3:5]
        job = self.supervisor.jobs.get(name)
        if request.method == "POST" and route in CHANGING_ROUTES:
            self._check_generation(job, request)
            if job is not None and route == "stop" and job.restart_timer is not None:
                self.supervisor.mark_stopped(job)
                return make_response(200, describe_job(job))
            if job is not None:
                job.record.generation += 1
                self.folder.save_record(job.record)
        target = "/".join(("/v1", *(quote(each) for each in request.path.split("/")[4:])))
        if request.query:
            target += f"?{urlencode(request.query)}"
        method, body = "GET", None
        if request.method == "POST":
            method, body = "POST", dict(request.body)
        return await forward_request(self._find_folder(name), method, target, body)

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of all jobs that run, in Prometheus's text format."""
        homes = await asyncio.to_thread(list_homes, self.folder.home)
        asked = (forward_request(home.folder, "GET", "/v1/metrics") for home in homes)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        texts = {
            home.name: answer.body.decode()
            for home, answer in zip(homes, answers, strict=True)
            if isinstance(answer, Response) and answer.status == 200
        }
        jobs = self.supervisor.jobs.items()
        running = {name: job.process is not None for name, job in jobs}
        return Response(200, merge_metrics(texts, running).encode(), METRICS_TYPE)

    async def history(self, request: Request) -> Response:
        """Answer with the runs that have ended, the newest first."""

        def read() -> list[dict[str, object]]:
            found = map(self.folder.read_history, reversed(self.folder.list_history()))
            return [summarize_history(each) for each in found if each is not None]

        return make_response(200, {"runs": await asyncio.to_thread(read)})

    async def run(self, request: Request) -> Response:
        """Answer with one run that has ended."""
        number = request.path_values["number"]
        found = self.folder.read_history(int(number)) if number.isdecimal() else None
        if found is None:
            raise RequestError(404, "no_such_run", f"there is no run {number} in the history")
        return make_response(200, found)

    async def operation(self, request: Request) -> Response:
        """Answer with an operation of the server, when it is over or after `wait_s` seconds."""
        operation = self.operations.by_id.get(request.path_values["id"])
        if operation is None:
            raise RequestError(404, "no_such_operation", "there is no such operation")
        await self._wait(operation, request.query.get("wait_s", "0"))
        return make_response(200, operation.build_document())

    def resume_upgrades(self) -> None:
        """Go on with the upgrades that a server before has left undecided."""
        for name, job in self.supervisor.jobs.items():
            if job.record.upgrade is not None:
                operation = self.operations.create("upgrade", name)
                self.operations.start(operation, self.changes.finish_upgrade(job, operation))

    async def close(self) -> None:
        """End the streams and the operations."""
        self._events.feeds.close()
        await self.operations.close()

    async def _read_state(self, request: Request, sql: str | None = None) -> bytes:
        name = request.path_values["name"]
        if not await asyncio.to_thread(os.path.isdir, self._find_folder(name)):
            raise RequestError(404, "no_such_job", f"there is no job {name}")
        return await read_state(name, self.folder.home, sql)

    async def _wait(self, operation: ServerOperation, text: str) -> None:
        try:
            wait_s = min(max(float(text), 0.0), MAX_WAIT_S)
        except ValueError:
            wait_s = 0.0
        await self.operations.wait(operation, wait_s)

    def _merge(self, name: str, entry: JobEntry | None) -> dict[str, Any]:
        """Return a job as the server and its own process describe it."""
        job = self.supervisor.jobs.get(name)
        found: dict[str, Any] = entry.build_document() if entry else {"name": name}
        if job is None:
            return {**found, "generation": 0, "served": False}
        served = describe_job(job)
        if job.process is not None and entry is not None:
            served = {key: served[key] for key in served if key not in ("status", "why")}
            # A job that does not answer in time has not said its process.
            found["pid"] = found.get("pid") or job.process.pid
        return {**found, **served, "served": True, "changed": self.files.is_changed(job.record)}

    def _find_folder(self, name: str) -> str:
        """Return the folder of a job's home, which need not exist. Raises RequestError."""
        return get_home_folder(self.folder.home, _check_name(name))

    def _find_process(self, name: str) -> int | None:
        """Return the process of a job of the server; None if it does not run."""
        job = self.supervisor.jobs.get(name)
        return None if job is None or job.process is None else job.process.pid

    def _find_job(self, request: Request) -> ServedJob:
        name = request.path_values["name"]
        job = self.supervisor.jobs.get(name)
        if job is None:
            hint = "submit its pipeline: headrace submit FILE"
            raise RequestError(404, "no_such_job", f"the server has no job {name}", hint)
        return job

    def _check_generation(self, job: ServedJob | None, request: Request) -> None:
        """Check that the client has seen the job as it is. Raises RequestError."""
        generation = str(job.record.generation if job else 0)
        seen = request.headers.get("if-match", "").strip('"')
        if not seen:
            hint = f'as in If-Match: "{generation}", which GET /v1/jobs/NAME gives'
            message = "wanted the generation of the job in If-Match"
            raise RequestError(428, "no_generation", message, hint)
        if seen != generation:
            message = f"the job has changed: it is of generation {generation} now, not {seen}"
            raise RequestError(412, "changed", message, "look at it again, then repeat the request")


def take_list(body: Mapping[str, object], key: str) -> tuple[Mapping[str, object], Sequence[str]]:
    """Return the body without a member that is a list of texts, and the list. Raises RequestError.

    >>> take_list({"file": "a.yaml", "set": ["settings.parallelism=2"]}, "set")
    ({'file': 'a.yaml'}, ['settings.parallelism=2'])
    """
    found = body.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise RequestError(400, "malformed", f"{key}: wanted a list of texts")
    if any("\0" in each for each in found):
        raise RequestError(400, "malformed", f"{key}: wanted text")
    return {name: value for name, value in body.items() if name != key}, found


def take_flag(body: Mapping[str, object], key: str) -> tuple[Mapping[str, object], bool]:
    """Return the body without a member that is true or false, and its value. Raises RequestError.

    >>> take_flag({"savepoint": "s", "fresh": True}, "fresh"), take_flag({}, "fresh")
    (({'savepoint': 's'}, True), ({}, False))
    """
    found = body.get(key, False)
    if not isinstance(found, bool):
        raise RequestError(400, "malformed", f"{key}: wanted true or false")
    return {name: value for name, value in body.items() if name != key}, found


def check_texts(body: Mapping[str, object], *keys: str) -> dict[str, str]:
    """Return the members of a body, after checking that they are texts of these names.

    The first key is needed if it is `file`. Raises RequestError.
    """
    for key, value in check_keys(body, *keys).items():
        if not isinstance(value, str) or "\0" in value:
            raise RequestError(400, "malformed", f"{key}: wanted text")
    if keys[0] == "file" and not body.get("file"):
        raise RequestError(400, "malformed", "wanted the file of a pipeline as file")
    return {key: str(value) for key, value in body.items()}


def _check_name(name: str) -> str:
    """Check that a name is that of a folder in the home. Raises RequestError."""
    if os.sep in name or name in ("", ".", "..") or name.startswith("@") or "\0" in name:
        raise RequestError(404, "no_such_job", f"there is no job {name}")
    return name


def _read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
