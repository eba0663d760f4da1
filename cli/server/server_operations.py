"""Operations of the server that take longer than a request: restarts and upgrades.

They are answered in the form of a job's operations, so the same clients wait for both. An operation
goes on if no client asks for it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import field
from typing import Any

from headrace.cli.control.http_messages import RequestError, describe_error
from headrace.core.api.snapshots import format_now
from headrace.core.types.lazy_dataclass import dataclass

MAX_FINISHED = 100


class OperationRejected(Exception):
    """An operation cannot be carried out: a code, the message and a hint."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(slots=True)
class ServerOperation:
    """An operation of the server on one job."""

    id: str
    kind: str
    job: str
    requested_at: str
    state: str = "running"
    progress_text: str = ""
    result: dict[str, object] | None = None
    error: OperationRejected | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def build_document(self) -> dict[str, Any]:
        """Return the operation as plain data."""
        error = self.error
        return {
            "id": self.id,
            "kind": self.kind,
            "job": self.job,
            "asked_at": self.requested_at,
            "state": self.state,
            "progress": {"words": self.progress_text},
            "result": self.result,
            "error": error and describe_error(error),
        }


@dataclass(slots=True)
class ServerOperations:
    """The operations of a server by id."""

    by_id: dict[str, ServerOperation] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """The tasks of the operations that run, by job."""
    _last_id: int = 0

    def create(self, kind: str, job: str) -> ServerOperation:
        """Create an operation, unless another one of the job runs. Raises RequestError."""
        if job in self._tasks:
            message = f"another operation of {job} is in progress"
            raise RequestError(409, "busy", message, "wait for it, then try again")
        self._last_id += 1
        operation = ServerOperation(str(self._last_id), kind, job, format_now())
        self.by_id[operation.id] = operation
        for old in [id for id, each in self.by_id.items() if each.ended.is_set()][:-MAX_FINISHED]:
            del self.by_id[old]
        return operation

    def start(
        self, operation: ServerOperation, work: Coroutine[Any, Any, dict[str, object]]
    ) -> None:
        """Carry out an operation in a task; the result of the work is the operation's."""
        task = asyncio.create_task(self._carry_out(operation, work))
        self._tasks[operation.job] = task
        task.add_done_callback(lambda _: self._tasks.pop(operation.job))

    async def _carry_out(
        self, operation: ServerOperation, work: Coroutine[Any, Any, dict[str, object]]
    ) -> None:
        try:
            operation.result = await work
            operation.state = "done"
        except OperationRejected as error:
            operation.state, operation.error = "failed", error
        except RequestError as error:
            code = "refused" if error.status in (400, 409, 412) else "failed"
            code = "invalid" if error.status == 422 else code
            operation.error = OperationRejected(code, error.message, error.hint)
            operation.state = "failed"
        except asyncio.CancelledError:
            operation.state = "failed"
            operation.error = OperationRejected("failed", "the server has ended")
            raise
        except Exception as error:
            why = f"a bug in headrace: {type(error).__name__}: {error}"
            operation.state, operation.error = "failed", OperationRejected("defect", why)
        finally:
            operation.ended.set()

    async def wait(self, operation: ServerOperation, wait_s: float) -> None:
        """Wait until the operation is over, at most this long."""
        await wait_for_event(operation.ended, wait_s)

    async def close(self) -> None:
        """Cancel the operations that run."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_event(event: asyncio.Event, longest_s: float) -> None:
    """Wait for an event, at most this long."""
    try:
        async with asyncio.timeout(longest_s):
            await event.wait()
    except TimeoutError:
        pass
