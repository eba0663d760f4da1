"""Packing of splits into tasks: not one task per file, nor one task that all others wait for."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.contracts import BatchSplit

TASKS_PER_CORE = 4
MIN_TASK_BYTES, MAX_TASK_BYTES = 4 << 20, 64 << 20
"""The least and the most bytes of a task."""
OPEN_COST_BYTES = 64 << 10
"""Opening a split takes as long as reading this many bytes."""


def pack_tasks(pieces: Sequence[BatchSplit], cores: int) -> list[tuple[BatchSplit, ...]]:
    """Pack splits, in their order, into groups of about the same size."""
    total = sum(map(_estimate_size, pieces))
    most = min(max(total / (cores * TASKS_PER_CORE), MIN_TASK_BYTES), MAX_TASK_BYTES)
    groups: list[list[BatchSplit]] = []
    room = 0.0
    for piece in pieces:
        if not groups or room < _estimate_size(piece) / 2:
            groups.append([])
            room = most
        groups[-1].append(piece)
        room -= _estimate_size(piece)
    return [tuple(group) for group in groups]


def _estimate_size(piece: BatchSplit) -> int:
    return piece.size + OPEN_COST_BYTES
