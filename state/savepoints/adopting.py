"""A savepoint as a checkpoint of a home: what is kept of each step as the memory backend stores it.

Every backend goes on from that. The checkpoint is there when its manifest is, so whoever is killed
before has changed nothing.
"""

from __future__ import annotations

from typing import Any

from headrace.core.snapshots import Manifest, SnapshotStore
from headrace.core.state import Document
from headrace.state.savepoints.document import KIND
from headrace.state.savepoints.savepoint import Savepoint

OWN = ("checksum", "kind", "taken", "taken_by")
"""What a savepoint's document has, and a checkpoint's has not."""


def adopt(savepoint: Savepoint, store: SnapshotStore, number: int) -> Manifest:
    """Make it that checkpoint of a store. All of it is verified before. Raises SnapshotError."""
    states: dict[str, list[list[Document]]] = {
        step: [[savepoint.of(part).stored(store) for part in subtask] for subtask in subtasks]
        for step, subtasks in savepoint.parts.items()
    }
    said: dict[str, Any] = {
        name: value for name, value in savepoint.document.items() if name not in OWN
    }
    origin = {"job": savepoint.job, "number": savepoint.number}
    document = {**said, KIND: origin, "states": states}
    store.commit(number, document)
    return document
