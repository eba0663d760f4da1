"""State as it is kept: all columns under the names that operators give them, but for secrets.

A call is kept under its text. Where that has a secret in it, a checkpoint says so and names it by
its hash, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from headrace.core.pipeline.text import MASK

if TYPE_CHECKING:
    import polars as pl


def raw(frame: pl.DataFrame, kept: Mapping[str, Any]) -> pl.DataFrame:
    """The frame with no secret in the names of its columns; `kept` is what it means."""
    secret = {call for call in kept["calls"] if call.startswith(MASK)}
    if not secret:
        return frame
    return frame.rename({name: _masked(name, secret) for name in frame.columns})


def _masked(name: str, secret: set[str]) -> str:
    call, dot, part = name.removeprefix("__").rpartition(".")
    masked = f"{MASK} {sha256(call.encode()).hexdigest()[:8]}"
    return f"{masked}{dot}{part}" if masked in secret else name
