"""The lookup of a bounded set of rows: request their keys, and wait for all answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.core.lookup.answers import assemble_answers
from headrace.core.lookup.asked import LookupClient
from headrace.core.lookup.stage import LookupJoin
from headrace.core.operators.operator import Output

if TYPE_CHECKING:
    import polars as pl


async def look_up_rows(
    stage: LookupJoin, client: LookupClient, frame: pl.DataFrame
) -> list[Output]:
    """Return the output of the rows. Raises ConnectorError."""
    import polars as pl

    if not frame.height:
        return []
    keys = stage.compute_keys(frame)
    request, changed = client.request(keys.keys), asyncio.Event()
    request.on_change = changed.set
    while request.keys_left:
        await changed.wait()
        changed.clear()
    answers = assemble_answers(request.keys, request.parts) if request.parts else stage.no_answers
    answers = answers.select(pl.all().gather(keys.row_ids))
    return list(stage.join_rows(frame, answers, request.error))
