"""Pipelines in the folder of a server: new files, and files that differ from what runs.

The folder is looked at every two seconds. Only files that have changed are read, and checked in a
short process.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import field
from typing import Any

from headrace.cli.server.pipeline_check import CheckFailed, check_pipelines
from headrace.cli.server.server_folder import JobRecord, ServerFolder
from headrace.core.types.lazy_dataclass import dataclass

SUFFIXES = (".yaml", ".yml")
TEST_SUFFIXES = (".test.yaml", ".test.yml")

PAUSED_UPDATES = 15

FileVersion = tuple[int, int]
"""The time of the last change, and the size."""


@dataclass(slots=True)
class PipelineFiles:
    """The files of a folder, with what a check has found in each."""

    path: str
    folder: ServerFolder
    checked: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The result of the check by file."""
    _versions: dict[str, FileVersion] = field(default_factory=dict)
    _pauses: int = 0
    """The updates without a check that are left after a failing one."""

    async def update(self) -> list[str]:
        """Check the files that have changed; return them.

        A failing check is tried again later: the process may have had no memory.
        """
        versions = self._find_versions()
        for file in self.checked.keys() - versions.keys():
            del self.checked[file]
        changed = sorted(file for file in versions if versions[file] != self._versions.get(file))
        if changed:
            if self._pauses > 0:
                self._pauses -= 1
                return []
            try:
                found = await check_pipelines([{"file": file} for file in changed])
            except CheckFailed:
                self._pauses = PAUSED_UPDATES
                return []
            self.checked |= {each["file"]: each for each in found}
        self._versions = versions
        return changed

    def list_new(self, known: Collection[str]) -> list[dict[str, Any]]:
        """List the pipelines that are no jobs, by file; `known` are the files of all jobs."""
        return [self.checked[file] for file in sorted(self.checked.keys() - set(known))]

    def is_changed(self, record: JobRecord) -> bool:
        """Whether the file of a job differs from the version that runs."""
        try:
            with open(record.file, "rb") as now, open(self._get_text_path(record), "rb") as then:
                return now.read() != then.read()
        except OSError:
            return True

    def _get_text_path(self, record: JobRecord) -> str:
        return self.folder.get_pipeline_path(record.name)

    def _find_versions(self) -> dict[str, FileVersion]:
        """Return the pipelines of the folder; none if it is gone."""
        versions = {}
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                name = entry.name
                is_pipeline = name.endswith(SUFFIXES) and not name.endswith(TEST_SUFFIXES)
                if is_pipeline and not name.startswith(".") and entry.is_file():
                    with suppress(FileNotFoundError):
                        status = entry.stat()
                        versions[entry.path] = status.st_mtime_ns, status.st_size
        return versions
