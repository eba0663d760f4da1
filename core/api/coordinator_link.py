"""The link of the worker's half of a connector to the coordinator's half, which may be elsewhere.

A connector has two halves. The coordinator's half is opened once for an attempt, in the process of
the coordinator; the worker's half is opened in each process that runs subtasks. They share no
memory: all that passes between them is plain data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TypeAlias

from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass

CoordinatorRequest: TypeAlias = Callable[[Document], Awaitable[Document]]
"""Sends a request to the coordinator's half, and returns its answer. Raises ConnectorError."""


@dataclass(frozen=True, slots=True)
class CoordinatorLink:
    """The link from the worker's half of a source or sink to the coordinator's half."""

    request: CoordinatorRequest
    description: Document = field(default_factory=dict)
    """What the coordinator's half has described for all workers before they began."""


class StandaloneCoordinator:
    """The coordinator's half of a connector whose worker's half needs nothing from it."""

    __slots__ = ()

    async def describe_for_workers(self) -> Document:
        """Return nothing."""
        return {}

    async def answer(self, request: Document) -> Document:
        """Reject the request: the worker's half sends none."""
        raise NotImplementedError(f"no request is expected, got {sorted(request)}")


PartRequest: TypeAlias = Callable[[str, Document], Awaitable[Document]]
"""Sends a request to the coordinator's half of the part of that name. Raises ConnectorError."""

Descriptions: TypeAlias = Mapping[str, Document]
"""What the coordinator's halves describe for all workers, by part."""
