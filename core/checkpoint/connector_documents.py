"""The documents of connectors in a checkpoint, checked before a connector gets them.

They name files and transactions, so a document of another form must never reach a connector, which
declares in its record how its documents are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.api.splits import Handle
from headrace.core.api.stored_documents import MalformedDocument
from headrace.core.checkpoint.manifest import RestoredCheckpoint
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors


def check_connector_documents(
    restored: RestoredCheckpoint, plan: nodes.Plan, connectors: Connectors, file: str, hint: str
) -> None:
    """Check the splits, handles and writer states of a checkpoint, which were read from a file.

    Raises DamagedSnapshot.
    """
    state = restored.restored_state
    with _name_file(file, hint):
        for part in plan:
            if isinstance(part, nodes.Source):
                side = connectors[part.connector].source
                assert side is not None, part.connector
                for split, progress in state.splits.get(part.name, {}).items():
                    with _name_document(f"a position of {part.name}"):
                        side.check_split(part, split.name, progress.position, progress.identity)
            elif isinstance(part, nodes.Sink):
                handles = (handle for sink, handle in restored.handles if sink == part.name)
                _check_handles(part, handles, connectors)
                writing = connectors[part.connector].sink
                assert writing is not None, part.connector
                for writer in state.writers.get(part.name, ()):
                    with _name_document(f"the state of a writer of {part.name}"):
                        writing.check_writer(writer)


def check_handles(
    sink: nodes.Sink, handles: Iterable[Handle], connectors: Connectors, file: str, hint: str
) -> None:
    """Check the handles of a sink, which were read from a file. Raises DamagedSnapshot."""
    with _name_file(file, hint):
        _check_handles(sink, handles, connectors)


def _check_handles(sink: nodes.Sink, handles: Iterable[Handle], connectors: Connectors) -> None:
    side = connectors[sink.connector].sink
    assert side is not None, sink.connector
    for handle in handles:
        with _name_document(f"the output to commit for {sink.name}"):
            side.check_handle(handle)


@contextmanager
def _name_document(name: str) -> Iterator[None]:
    try:
        yield
    except MalformedDocument as error:
        raise MalformedDocument(f"{name}: {error}") from error


@contextmanager
def _name_file(file: str, hint: str) -> Iterator[None]:
    try:
        yield
    except MalformedDocument as error:
        raise DamagedSnapshot(f"{file} is damaged: {error}", hint, file=file) from error
