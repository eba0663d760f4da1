"""Packing of splits into tasks: not one task per file, nor one task that all others wait for."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.contracts import Piece

TASKS_A_CORE = 4
LEAST, MOST = 4 << 20, 64 << 20
"""The least and the most bytes of a task."""
OPENING = 64 << 10
"""Opening a split takes as long as reading this many bytes."""


def dealt(pieces: Sequence[Piece], cores: int) -> list[tuple[Piece, ...]]:
    """Pack splits, in their order, into groups of about the same size."""
    total = sum(map(_size, pieces))
    most = min(max(total / (cores * TASKS_A_CORE), LEAST), MOST)
    groups: list[list[Piece]] = []
    room = 0.0
    for piece in pieces:
        if not groups or room < _size(piece) / 2:
            groups.append([])
            room = most
        groups[-1].append(piece)
        room -= _size(piece)
    return [tuple(group) for group in groups]


def _size(piece: Piece) -> int:
    return piece.size + OPENING
