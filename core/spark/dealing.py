"""Pieces dealt in groups to tasks: neither a task a file, nor one that all others wait for."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.contracts import Piece

TASKS_A_CORE = 4
LEAST, MOST = 4 << 20, 64 << 20
"""How many bytes are worth a task, and how many are enough for one."""
OPENING = 64 << 10
"""To begin with a piece takes as long as to read so many bytes."""


def dealt(pieces: Sequence[Piece], cores: int) -> list[tuple[Piece, ...]]:
    """The pieces in their order, in groups of about the same size."""
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
