"""Version 1 of the API: the parameters and answers of each path, as in docs/openapi.json.

A request with an effect is answered by 202 with an operation, which continues even if no client
asks for it again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.cli.control.http_messages import (
    Request,
    RequestError,
    Response,
    check_keys,
    describe_error,
    make_response,
)
from headrace.cli.control.http_server import HttpRoute
from headrace.cli.control.job_events import JobEvents
from headrace.cli.control.operations import Operation
from headrace.cli.job_diagnosis import build_findings_document
from headrace.core.api.storage_url import is_url
from headrace.core.job.statistics import (
    collect_checkpoint_history,
    collect_job_statistics,
    collect_rejected_rows,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.cli.control.job_control import JobControl

MAX_WAIT_S = 60.0


def build_routes(control: JobControl) -> list[HttpRoute]:
    """Return the routes of the API over one job."""
    api = ApiHandlers(control)
    return [
        HttpRoute("GET", "/v1/job", api.job),
        HttpRoute("GET", "/v1/statistics", api.statistics),
        HttpRoute("GET", "/v1/findings", api.findings),
        HttpRoute("GET", "/v1/graph", api.graph),
        HttpRoute("GET", "/v1/settings", api.settings),
        HttpRoute("GET", "/v1/checkpoints", api.checkpoints),
        HttpRoute("GET", "/v1/rejected-rows", api.rejected_rows),
        HttpRoute("GET", "/v1/metrics", api.metrics),
        HttpRoute("POST", "/v1/savepoints", api.savepoint),
        HttpRoute("POST", "/v1/stop", api.stop),
        HttpRoute("POST", "/v1/rescale", api.rescale),
        HttpRoute("POST", "/v1/events", JobEvents(control).open_stream, is_reading=True),
        HttpRoute("GET", "/v1/operations", api.operations),
        HttpRoute("GET", "/v1/operations/{id}", api.operation),
    ]


@dataclass(frozen=True, slots=True)
class ApiHandlers:
    """Handlers of the API."""

    control: JobControl

    async def job(self, request: Request) -> Response:
        """Answer with the job's status and counts."""
        return make_response(200, self.control.summary.build_document(self.control.job))

    async def statistics(self, request: Request) -> Response:
        """Answer with all statistics of the job, by part and by subtask."""
        return make_response(200, collect_job_statistics(self.control.job))

    async def findings(self, request: Request) -> Response:
        """Answer with what holds the output of the job back."""
        diagnosis = self.control.summary.diagnosis
        return make_response(200, build_findings_document(self.control.job, diagnosis))

    async def graph(self, request: Request) -> Response:
        """Answer with the plan, and where its parts are in a drawing."""
        from headrace.core.plan.explain import build_graph_document

        return make_response(200, build_graph_document(self.control.job.plan))

    async def settings(self, request: Request) -> Response:
        """Answer with the settings of the pipeline."""
        from headrace.cli.control.settings_document import build_settings_document

        pipeline = self.control.rescale_plans.loaded_pipeline.pipeline
        return make_response(200, build_settings_document(pipeline.settings))

    async def checkpoints(self, request: Request) -> Response:
        """Answer with the last checkpoints of this run, the newest first."""
        return make_response(200, collect_checkpoint_history(self.control.job))

    async def rejected_rows(self, request: Request) -> Response:
        """Answer with the newest bad and late rows of each part, with secrets masked."""
        from headrace.cli.control.secret_masking import mask_secrets

        document = collect_rejected_rows(self.control.job)
        secrets = self.control.rescale_plans.loaded_pipeline.inputs.secrets
        for row in (row for rows in document["parts"].values() for row in rows):
            is_cut = row["length"] > len(row["text"])
            row["text"] = mask_secrets(row["text"], secrets, is_cut=is_cut)
            row["error"] = mask_secrets(row["error"], secrets, is_cut=True)
        return make_response(200, document)

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of the job, as `--http` does."""
        from headrace.cli.metrics.exposition import CONTENT_TYPE, JobCollector
        from headrace.cli.metrics.samples import JobSample

        version = self.control.summary.description.version
        collector = JobCollector(lambda: JobSample.take(self.control.job, version))
        return Response(200, collector.render_text(), CONTENT_TYPE)

    async def savepoint(self, request: Request) -> Response:
        """Request a savepoint: `to`, an absolute path or a URL."""
        body = check_keys(request.body, "to")
        return _answer_accepted(self.control.savepoint(_parse_location("to", body.get("to"))))

    async def stop(self, request: Request) -> Response:
        """Request a stop: `savepoint`, true or a location; `drain` and `now`, true or false."""
        body = check_keys(request.body, "savepoint", "drain", "now")
        saves = body.get("savepoint")
        drain, now = (_parse_flag(key, body.get(key, False)) for key in ("drain", "now"))
        to = None if isinstance(saves, bool) else _parse_location("savepoint", saves)
        if now and (saves or drain):
            raise RequestError(
                400, "malformed", "now: wanted it alone", "a stop at once takes no checkpoint"
            )
        if now:
            return _answer_accepted(self.control.stop_now())
        return _answer_accepted(self.control.stop(saves=bool(saves), to=to, drain=drain))

    async def rescale(self, request: Request) -> Response:
        """Request a rescale: `parallelism` and `workers` of the job, `parts` for steps by name."""
        body = check_keys(request.body, "parallelism", "parts", "workers")
        all_, parts, workers = body.get("parallelism"), body.get("parts", {}), body.get("workers")
        if not isinstance(parts, dict):
            raise _reject_value("parts", 'an object such as {"totals": 4}', parts)
        if all_ is None and workers is None and not parts:
            raise RequestError(400, "malformed", "wanted parallelism, parts or workers")
        wanted = None if all_ is None else _parse_number("parallelism", all_)
        processes = None if workers is None else _parse_number("workers", workers)
        own = {name: _parse_number(f"parts.{name}", number) for name, number in parts.items()}
        return _answer_accepted(await self.control.rescale(wanted, own, processes))

    async def operations(self, request: Request) -> Response:
        """Answer with all known operations."""
        known = self.control.operations.operations_by_id.values()
        return make_response(
            200, {"operations": [build_operation_document(each) for each in known]}
        )

    async def operation(self, request: Request) -> Response:
        """Answer with one operation, when it is over or after `wait_s` seconds."""
        id = request.path_values["id"]
        operation = self.control.operations.operations_by_id.get(id)
        if operation is None:
            raise RequestError(404, "no_such_operation", f"there is no operation {id}")
        await self.control.wait_until_over(operation, _parse_wait(request.query))
        if operation.is_over:
            self.control.mark_received(operation)
        self.control.update_progress(operation)
        return make_response(200, build_operation_document(operation))


def build_operation_document(operation: Operation) -> dict[str, object]:
    """Return an operation as plain data."""
    error = operation.error
    return {
        "id": operation.id,
        "kind": operation.kind,
        "asked_at": operation.requested_at,
        "state": operation.state,
        "progress": {"words": operation.progress_text, **operation.progress_numbers},
        "result": None if operation.state != "done" else operation.result,
        "error": error and describe_error(error),
    }


def _answer_accepted(operation: Operation) -> Response:
    return make_response(202, build_operation_document(operation))


def _parse_location(key: str, value: object) -> str | None:
    """Parse the location of a savepoint. Raises RequestError."""
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value or not (os.path.isabs(value) or is_url(value)):
        raise _reject_value(key, "an absolute path", value)
    if os.path.isabs(value):
        return os.path.normpath(value)
    from headrace.state.storage.remote.bucket_disk import NotAStorageUrl, resolve_storage_url

    try:
        return resolve_storage_url(value).url
    except NotAStorageUrl as error:
        raise RequestError(400, "malformed", f"{key}: {error.message}", error.hint) from None


def _parse_flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _reject_value(key, "true or false", value)
    return value


def _parse_number(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _reject_value(key, "a whole number", value)
    return value


def _parse_wait(query: Mapping[str, str]) -> float:
    """Parse how long a client wants to wait. Raises RequestError."""
    text = query.get("wait_s", "0")
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = math.nan
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise _reject_value("wait_s", f"seconds from 0 to {MAX_WAIT_S:.0f}", text)
    return wait_s


def _reject_value(key: str, wanted: str, got: object) -> RequestError:
    import orjson

    shown = orjson.dumps(got).decode()
    return RequestError(400, "malformed", f"{key}: wanted {wanted}, got {shown[:80]}")
