"""`watch:`: files that arrive while the pipeline runs, each read once, when it is complete.

A file is ready when it is not empty and has not changed since the previous look, or for that long.
A program that writes more slowly should write under a name that starts with a dot, and rename.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.connectors.files.finding import build_no_files_error, find_base, find_files
from headrace.connectors.files.matching import has_wildcards


@dataclass(slots=True)
class FolderWatch:
    """Watches a folder that other programs keep filling."""

    folder: str
    path: str
    every_s: float
    _last_versions: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def list_ready(self) -> Sequence[str]:
        """Return the files that are ready now. Raises ConnectorError if there is no folder."""
        below, is_pattern = (
            os.path.join(self.folder, find_base(self.path)),
            has_wildcards(self.path),
        )
        if not (os.path.isdir(below) if is_pattern else os.path.exists(below)):
            raise build_no_files_error(self.folder, self.path)
        before, self._last_versions = self._last_versions, {}
        found = find_files(self.folder, self.path)
        return [name for name in found if self._is_ready(name, before.get(name))]

    def _is_ready(self, name: str, before: tuple[int, ...] | None) -> bool:
        try:
            found = os.stat(os.path.join(self.folder, name))
        except FileNotFoundError:
            return False
        look = (found.st_ino, found.st_size, found.st_mtime_ns)
        self._last_versions[name] = look
        rested = time.time() - found.st_mtime >= self.every_s
        return found.st_size > 0 and (look == before or rested)
