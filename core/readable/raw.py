"""State as it is stored: all columns under the operators' names, except for secrets.

A call is stored under its text. A checkpoint marks a text that contains a secret and names it by a
hash; the display does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from headrace.core.pipeline.text import MASK

if TYPE_CHECKING:
    import polars as pl


def mask_secret_columns(frame: pl.DataFrame, kept: Mapping[str, Any]) -> pl.DataFrame:
    """Rename the columns that have secrets in their names; `kept` is the meaning of the state."""
    secret = {call for call in kept["calls"] if call.startswith(MASK)}
    if not secret:
        return frame
    return frame.rename({name: _mask_name(name, secret) for name in frame.columns})


def _mask_name(name: str, secret: set[str]) -> str:
    call, dot, part = name.removeprefix("__").rpartition(".")
    masked = f"{MASK} {sha256(call.encode()).hexdigest()[:8]}"
    return f"{masked}{dot}{part}" if masked in secret else name
