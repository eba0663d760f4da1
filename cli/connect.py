"""`headrace validate --connect`: checks that external systems of a plan exist and grant access.

All checks run concurrently, with a time limit. They read no rows and change nothing, since a job of
that pipeline may be running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from headrace.connectors.registry import REGISTRY
from headrace.core.bench import Bench
from headrace.core.connector import Connector
from headrace.core.contracts import ConnectorError, Surroundings
from headrace.core.plan import nodes
from headrace.core.plan.describe import kind
from headrace.core.plan.layout import lookup_operation

LONGEST_S = 45.0
NOTHING = "nothing external to check"


@dataclass(frozen=True, slots=True)
class Found:
    """The result of checking one source, sink or lookup."""

    part: str
    """Kind and name: `source bids`, `step enriched`."""
    text: str
    hint: str = ""
    status: int = 0
    """The exit status that a run would have."""


def ask(plan: nodes.Plan, folder: Path) -> Sequence[Found]:
    """Check all sources, sinks and lookups, in the order of the plan."""
    return asyncio.run(_ask(plan, folder))


async def _ask(plan: nodes.Plan, folder: Path) -> Sequence[Found]:
    surroundings = Surroundings(folder, uuid4().hex, Bench(), pipeline=plan.name)
    return await asyncio.gather(
        *(
            _found(part, connector, plan, surroundings)
            for part in plan
            if (connector := _connector(part)) is not None
        )
    )


def _connector(part: nodes.PlanPart) -> str | None:
    """Return the connector of a part, if it has one."""
    if not isinstance(part, nodes.Step):
        return part.connector
    lookup = lookup_operation(part)
    return None if lookup is None else lookup.connector


async def _found(
    part: nodes.PlanPart, connector: str, plan: nodes.Plan, surroundings: Surroundings
) -> Found:
    name = f"{kind(part)} {part.name}"
    try:
        asking = _asking(part, REGISTRY[connector], plan, surroundings)
        if asking is None:
            return Found(name, f"{connector}: {NOTHING}")
        async with asyncio.timeout(LONGEST_S):
            return Found(name, f"{connector}: {await asking}")
    except ConnectorError as error:
        return Found(name, error.message, error.hint, error.exit_status)
    except TimeoutError:
        return Found(name, f"{connector}: no answer within {LONGEST_S:.0f} s", status=1)


def _asking(
    part: nodes.PlanPart, connector: Connector, plan: nodes.Plan, surroundings: Surroundings
) -> Awaitable[str] | None:
    if isinstance(part, nodes.Step):
        lookup = lookup_operation(part)
        side = connector.lookup
        return side.look(lookup, surroundings) if lookup and side else None
    if isinstance(part, nodes.Source):
        look = connector.source.look if connector.source else None
        return look(part, surroundings) if look else None
    there = connector.sink.look if connector.sink else None
    return there(part, plan.streams[part.input].written, surroundings) if there else None
