"""Choice of the state backend that a job's settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.api.state_backend import StateBackend
    from headrace.core.pipeline.settings import State


def open_backend(
    settings: State, folder: str, before_removal: Callable[[str], None] = lambda folder: None
) -> StateBackend:
    """Return the state backend that the settings name.

    `folder` holds the backend's files while the job runs. The folder is created when it is first
    needed and belongs to this backend alone. `before_removal` is called with the folder of each
    state that is closed, before its files are removed.
    """
    if settings.backend == "memory":
        from headrace.state.memory.backend import MemoryBackend

        return MemoryBackend()
    from headrace.state.rocks.backend import RocksBackend

    return RocksBackend(folder, settings.memory, before_removal)
