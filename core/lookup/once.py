"""The lookup of a bounded set of rows: request their keys, and wait for all answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.core.lookup.answers import whole
from headrace.core.lookup.asked import Asked
from headrace.core.lookup.stage import Stage
from headrace.core.operators.operator import Output

if TYPE_CHECKING:
    import polars as pl


async def looked_up(stage: Stage, client: Asked, frame: pl.DataFrame) -> list[Output]:
    """Return the output of the rows. Raises ConnectorError."""
    import polars as pl

    if not frame.height:
        return []
    keys = stage.keys(frame)
    request, changed = client.ask(keys.keys), asyncio.Event()
    request.changed = changed.set
    while request.left:
        await changed.wait()
        changed.clear()
    answers = whole(request.keys, request.parts) if request.parts else stage.nothing
    answers = answers.select(pl.all().gather(keys.ids))
    return list(stage.rows(frame, answers, request.error))
