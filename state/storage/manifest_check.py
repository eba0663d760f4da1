"""The form of a manifest with the states of its steps, as a state backend has stored them."""

from __future__ import annotations

from typing import Any

from headrace.core.api.snapshots import Manifest
from headrace.core.api.stored_documents import MalformedDocument, convert_document
from headrace.core.checkpoint.manifest_document import check_manifest
from headrace.state.memory.documents import StepDocument
from headrace.state.rocks.documents import RocksDocument
from headrace.state.storage.checksummed_json import CorruptData

STATE_DOCUMENTS = StepDocument | RocksDocument


def check_checkpoint(document: Manifest) -> None:
    """Check the form of a checkpoint's manifest. Raises CorruptData."""
    content: Any = document
    try:
        check_manifest(document)
        for step, subtasks in content["states"].items():
            for states in subtasks:
                for state in states:
                    _check_state(step, state)
    except MalformedDocument as error:
        raise CorruptData(str(error)) from error


def _check_state(step: str, document: object) -> None:
    try:
        convert_document(document, STATE_DOCUMENTS)  # type: ignore[arg-type]
    except MalformedDocument as error:
        raise MalformedDocument(f"the state of {step}: {error}") from error
