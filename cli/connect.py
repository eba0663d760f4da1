"""`headrace validate --connect`: whether what a plan reads and writes is there, and lets us in.

All is asked at the same time, and for a bounded time. Nothing is read, and nothing is changed: a
job of that pipeline may be running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from headrace.connectors.registry import REGISTRY
from headrace.core.bench import Bench
from headrace.core.contracts import ConnectorError, Surroundings
from headrace.core.plan import nodes

LONGEST_S = 45.0
NOTHING = "nothing outside to ask"


@dataclass(frozen=True, slots=True)
class Found:
    """What came of asking for one source or sink."""

    part: str
    """As it is called: `source bids`."""
    text: str
    hint: str = ""
    status: int = 0
    """What a run would end with."""


def ask(plan: nodes.Plan, folder: Path) -> Sequence[Found]:
    """Ask for all sources and sinks, in the order of the plan."""
    return asyncio.run(_ask(plan, folder))


async def _ask(plan: nodes.Plan, folder: Path) -> Sequence[Found]:
    surroundings = Surroundings(folder, uuid4().hex, Bench(), pipeline=plan.name)
    ends = [part for part in plan if not isinstance(part, nodes.Step)]
    return await asyncio.gather(*(_found(part, plan, surroundings) for part in ends))


async def _found(
    part: nodes.Source | nodes.Sink, plan: nodes.Plan, surroundings: Surroundings
) -> Found:
    name = f"{'source' if isinstance(part, nodes.Source) else 'sink'} {part.name}"
    asking = _asking(part, plan, surroundings)
    if asking is None:
        return Found(name, f"{part.connector}: {NOTHING}")
    try:
        async with asyncio.timeout(LONGEST_S):
            return Found(name, f"{part.connector}: {await asking}")
    except ConnectorError as error:
        return Found(name, error.message, error.hint, error.exit_status)
    except TimeoutError:
        return Found(name, f"{part.connector}: no answer within {LONGEST_S:.0f} s", status=1)


def _asking(
    part: nodes.Source | nodes.Sink, plan: nodes.Plan, surroundings: Surroundings
) -> Awaitable[str] | None:
    connector = REGISTRY[part.connector]
    if isinstance(part, nodes.Source):
        look = connector.source.look if connector.source else None
        return look(part, surroundings) if look else None
    there = connector.sink.look if connector.sink else None
    return there(part, plan.streams[part.input].written, surroundings) if there else None
