"""Graphs of jobs that do not run, built from the version of the pipeline that ran last.

A running job answers with the graph of its own plan. Tests: tests/cli/server/test_job_api.py.
"""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Any

from headrace.cli.control.http_messages import RequestError
from headrace.cli.server.pipeline_check import CheckFailed, check_pipelines
from headrace.cli.server.server_folder import JobRecord, ServerFolder
from headrace.core.types.lazy_dataclass import dataclass

MAX_GRAPHS = 100


@dataclass(slots=True)
class StoredGraphs:
    """The graphs of jobs that do not run; each is built once for a version."""

    folder: ServerFolder
    _known: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)
    """The graphs by the job's file, its text and the values it overrides."""

    async def build(self, record: JobRecord) -> dict[str, Any]:
        """Return the graph of a job. Raises RequestError."""
        text = await asyncio.to_thread(self._read_text, record)
        version = record.file, text, *record.overrides
        if version not in self._known:
            graph = await self._ask(record)
            while len(self._known) >= MAX_GRAPHS:
                del self._known[next(iter(self._known))]
            self._known[version] = graph
        return self._known[version]

    def _read_text(self, record: JobRecord) -> str:
        try:
            with open(self.folder.get_pipeline_path(record.name), encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            message = f"the pipeline of {record.name} cannot be read: {error.strerror or error}"
            raise RequestError(409, "no_graph", message) from None

    async def _ask(self, record: JobRecord) -> dict[str, Any]:
        request = {
            "file": record.file,
            "text": self.folder.get_pipeline_path(record.name),
            "overrides": record.overrides,
            "graph": True,
        }
        try:
            (found,) = await check_pipelines([request])
        except CheckFailed as error:
            raise RequestError(500, "failed", str(error)) from None
        if "graph" not in found:
            problems = "\n".join(each["text"] for each in found["problems"])
            message = f"the version that ran last has mistakes now:\n{problems}"
            raise RequestError(409, "no_graph", message)
        graph: dict[str, Any] = found["graph"]
        return graph
