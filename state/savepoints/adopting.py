"""Import of a savepoint as a checkpoint of a home: each step's state as the memory backend stores
it.

Every backend can resume from that. The checkpoint exists once its manifest does, so a process
killed before has changed nothing.
"""

from __future__ import annotations

from typing import Any

from headrace.core.snapshots import Manifest, SnapshotStore
from headrace.core.state import Document
from headrace.state.savepoints.document import SAVEPOINT_KIND
from headrace.state.savepoints.savepoint import Savepoint

SAVEPOINT_ONLY_KEYS = ("checksum", "kind", "taken", "taken_by")
"""Keys of a savepoint's document that a checkpoint's manifest does not have."""


def commit_as_checkpoint(savepoint: Savepoint, store: SnapshotStore, number: int) -> Manifest:
    """Commit the savepoint as that checkpoint of a store, after verifying all of it. Raises
    SnapshotError.
    """
    states: dict[str, list[list[Document]]] = {
        step: [
            [savepoint.open_state(part).persist(store) for part in subtask] for subtask in subtasks
        ]
        for step, subtasks in savepoint.step_documents.items()
    }
    said: dict[str, Any] = {
        name: value for name, value in savepoint.document.items() if name not in SAVEPOINT_ONLY_KEYS
    }
    origin = {"job": savepoint.job, "number": savepoint.number}
    document = {**said, SAVEPOINT_KIND: origin, "states": states}
    store.commit(number, document)
    return document
