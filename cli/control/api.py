"""Version 1 of the API: the parameters and answers of each path, as in docs/openapi.json.

A request with an effect is answered by 202 with an operation, which continues even if no client
asks for it again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.cli.control.http import Bad, Request, Response, answer
from headrace.cli.control.operations import Operation
from headrace.cli.control.routes import Route
from headrace.core.addresses import is_url
from headrace.core.job_statistics import checkpoint_history, job_statistics

if TYPE_CHECKING:
    from headrace.cli.control.control import Control

LONGEST_WAIT_S = 60.0


def routes(control: Control) -> list[Route]:
    """Return the routes of the API over one job."""
    api = Api(control)
    return [
        Route("GET", "/v1/job", api.job),
        Route("GET", "/v1/statistics", api.statistics),
        Route("GET", "/v1/checkpoints", api.checkpoints),
        Route("POST", "/v1/savepoints", api.savepoint),
        Route("POST", "/v1/stop", api.stop),
        Route("POST", "/v1/rescale", api.rescale),
        Route("GET", "/v1/operations", api.operations),
        Route("GET", "/v1/operations/{id}", api.operation),
    ]


@dataclass(frozen=True, slots=True)
class Api:
    """Handlers of the API."""

    control: Control

    async def job(self, request: Request) -> Response:
        """Answer with the job's status and counts."""
        return answer(200, self.control.figures.document(self.control.job))

    async def statistics(self, request: Request) -> Response:
        """Answer with all statistics of the job, by part and by subtask."""
        return answer(200, job_statistics(self.control.job))

    async def checkpoints(self, request: Request) -> Response:
        """Answer with the last checkpoints of this run, the newest first."""
        return answer(200, checkpoint_history(self.control.job))

    async def savepoint(self, request: Request) -> Response:
        """Request a savepoint: `to`, an absolute path or a URL."""
        body = _taken(request.body, "to")
        return _accepted(self.control.savepoint(_place("to", body.get("to"))))

    async def stop(self, request: Request) -> Response:
        """Request a stop: `savepoint`, true or a location; `drain`, true or false."""
        body = _taken(request.body, "savepoint", "drain")
        saves, drain = body.get("savepoint"), body.get("drain", False)
        to = None if isinstance(saves, bool) else _place("savepoint", saves)
        if not isinstance(drain, bool):
            raise _wrong("drain", "true or false", drain)
        return _accepted(self.control.stop(saves=bool(saves), to=to, drain=drain))

    async def rescale(self, request: Request) -> Response:
        """Request a rescale: `parallelism` of the job, `parts` for steps by name."""
        body = _taken(request.body, "parallelism", "parts")
        all_, parts = body.get("parallelism"), body.get("parts", {})
        if not isinstance(parts, dict):
            raise _wrong("parts", 'an object such as {"totals": 4}', parts)
        if all_ is None and not parts:
            raise Bad(400, "malformed", "wanted parallelism, or parts, or both")
        wanted = None if all_ is None else _number("parallelism", all_)
        own = {name: _number(f"parts.{name}", number) for name, number in parts.items()}
        return _accepted(await self.control.rescale(wanted, own))

    async def operations(self, request: Request) -> Response:
        """Answer with all known operations."""
        known = self.control.operations.known.values()
        return answer(200, {"operations": [document(each) for each in known]})

    async def operation(self, request: Request) -> Response:
        """Answer with one operation, when it is over or after `wait_s` seconds."""
        id = request.names["id"]
        operation = self.control.operations.known.get(id)
        if operation is None:
            raise Bad(404, "no_such_operation", f"there is no operation {id}")
        await self.control.until_over(operation, _wait_s(request.query))
        if operation.over:
            self.control.told(operation)
        return answer(200, document(operation))


def document(operation: Operation) -> dict[str, object]:
    """Return an operation as plain data."""
    error = operation.error
    return {
        "id": operation.id,
        "kind": operation.kind,
        "asked_at": operation.asked_at,
        "state": operation.state,
        "progress": {"words": operation.words, **operation.numbers},
        "result": None if operation.state != "done" else operation.result,
        "error": error and {"code": error.code, "message": error.message, "hint": error.hint},
    }


def _accepted(operation: Operation) -> Response:
    return answer(202, document(operation))


def _taken(body: Mapping[str, object], *keys: str) -> Mapping[str, object]:
    """Return the body, after checking that it has no other keys. Raises Bad."""
    for key in body:
        if key not in keys:
            raise Bad(400, "malformed", f'there is no "{key}"', f"there are {', '.join(keys)}")
    return body


def _place(key: str, said: object) -> str | None:
    """Parse the location of a savepoint. Raises Bad."""
    if said is None:
        return None
    if not isinstance(said, str) or "\0" in said or not (os.path.isabs(said) or is_url(said)):
        raise _wrong(key, "an absolute path", said)
    if os.path.isabs(said):
        return os.path.normpath(said)
    from headrace.state.storage.remote.reading import NotAnAddress, place

    try:
        return place(said).url
    except NotAnAddress as error:
        raise Bad(400, "malformed", f"{key}: {error.message}", error.hint) from None


def _number(key: str, said: object) -> int:
    if not isinstance(said, int) or isinstance(said, bool):
        raise _wrong(key, "a whole number", said)
    return said


def _wait_s(query: Mapping[str, str]) -> float:
    """Parse how long a client wants to wait. Raises Bad."""
    said = query.get("wait_s", "0")
    try:
        wait_s = float(said)
    except ValueError:
        wait_s = math.nan
    if not 0 <= wait_s <= LONGEST_WAIT_S:
        raise _wrong("wait_s", f"seconds from 0 to {LONGEST_WAIT_S:.0f}", said)
    return wait_s


def _wrong(key: str, wanted: str, got: object) -> Bad:
    import orjson

    shown = orjson.dumps(got).decode()
    return Bad(400, "malformed", f"{key}: wanted {wanted}, got {shown[:80]}")
