"""The committer: executes the commits and aborts of an attempt, in the coordinator's process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field

from headrace.core.api.failures import ConnectorError, build_failure
from headrace.core.api.sinks import SinkCoordinator
from headrace.core.api.splits import SubtaskId
from headrace.core.coordination.messages import (
    AbortOutput,
    CommitOutput,
    CoordinatorEvent,
    SubtaskCommitted,
    SubtaskFailed,
)
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

COMMIT_TIMEOUT_S = 2.0
"""The time to wait at the end for commits in progress."""
ABORT_TIMEOUT_S = 10.0
"""The time to wait for an abort: prepared output is not visible in any case."""


@dataclass(slots=True)
class SinkCommitter:
    """Commits prepared output, sink by sink in order; `send` sends events to the coordinator."""

    plan: nodes.Plan
    sinks: Mapping[str, SinkCoordinator]
    send: Callable[[CoordinatorEvent], None]
    _waiting_commits: dict[str, deque[CommitOutput]] = field(default_factory=dict)
    _commit_tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """The commits that wait, by sink, and the tasks that execute them."""

    def commit(self, commit: CommitOutput) -> None:
        """Commit output after the earlier commits of the same sink. Does not wait."""
        sink = self._find_sink(commit.subtask)
        self._waiting_commits.setdefault(sink, deque()).append(commit)
        if sink not in self._commit_tasks:
            self._commit_tasks[sink] = asyncio.create_task(self._run_commits(sink))

    async def _run_commits(self, sink: str) -> None:
        commits = self._waiting_commits[sink]
        try:
            while commits:
                await self._commit_output(sink, commits.popleft())
        finally:
            del self._commit_tasks[sink]

    async def _commit_output(self, sink: str, commit: CommitOutput) -> None:
        try:
            await self.sinks[sink].commit(commit.handle)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.send(SubtaskFailed(commit.subtask, build_failure(error, sink)))
        else:
            self.send(SubtaskCommitted(commit.subtask))

    async def abort(self, abort: AbortOutput) -> None:
        """Remove prepared output; what cannot be removed now is removed before the next attempt."""
        with suppress(ConnectorError, TimeoutError):
            async with asyncio.timeout(ABORT_TIMEOUT_S):
                await self.sinks[self._find_sink(abort.subtask)].abort(abort.handle)

    def _find_sink(self, subtask: SubtaskId) -> str:
        return self.plan.tasks[subtask.task].parts[-1]

    async def close(self) -> None:
        """End the commits; those in progress are awaited for a while. May be repeated.

        Output named by a checkpoint is committed if that can be done soon: after a commit that has
        failed for good, there may be no later attempt to commit the others in time.
        """
        if self._commit_tasks:
            await asyncio.wait(self._commit_tasks.values(), timeout=COMMIT_TIMEOUT_S)
        tasks = list(self._commit_tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
