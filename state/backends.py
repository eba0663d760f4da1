"""Which backend keeps a job's state, by its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.core.pipeline.settings import State
    from headrace.core.state import StateBackend


def backend(settings: State, folder: str) -> StateBackend:
    """The backend that the settings want; what it keeps on disk while it runs is in that folder.

    The folder is made when it is needed, and is of this backend alone.
    """
    if settings.backend == "memory":
        from headrace.state.memory import MemoryBackend

        return MemoryBackend()
    from headrace.state.rocks.backend import RocksBackend

    return RocksBackend(folder, settings.memory)
