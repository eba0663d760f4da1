"""`headrace validate --connect`: checks that external systems of a plan exist and grant access.

All checks run concurrently, with a time limit. They read no rows and change nothing, since a job of
that pipeline may be running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from uuid import uuid4

from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector
from headrace.core.plan.describe import get_part_kind
from headrace.core.plan.layout import get_lookup
from headrace.core.types.lazy_dataclass import dataclass

TIMEOUT_S = 45.0
NOTHING_EXTERNAL = "nothing external to check"


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """The result of checking one source, sink or lookup."""

    part: str
    """Kind and name: `source bids`, `step enriched`."""
    text: str
    hint: str = ""
    status: int = 0
    """The exit status that a run would have."""


def check_connections(plan: nodes.Plan, folder: Path) -> Sequence[ConnectionCheck]:
    """Check all sources, sinks and lookups, in the order of the plan."""
    return asyncio.run(_check_all(plan, folder))


async def _check_all(plan: nodes.Plan, folder: Path) -> Sequence[ConnectionCheck]:
    run_context = RunContext(folder, uuid4().hex, KernelExecutor(), pipeline_name=plan.name)
    return await asyncio.gather(
        *(
            _check_part(part, connector, plan, run_context)
            for part in plan
            if (connector := _connector_of(part)) is not None
        )
    )


def _connector_of(part: nodes.PlanPart) -> str | None:
    """Return the connector of a part, if it has one."""
    if not isinstance(part, nodes.Step):
        return part.connector
    lookup = get_lookup(part)
    return None if lookup is None else lookup.connector


async def _check_part(
    part: nodes.PlanPart, connector: str, plan: nodes.Plan, run_context: RunContext
) -> ConnectionCheck:
    name = f"{get_part_kind(part)} {part.name}"
    try:
        check = _start_check(part, REGISTRY[connector], plan, run_context)
        if check is None:
            return ConnectionCheck(name, f"{connector}: {NOTHING_EXTERNAL}")
        async with asyncio.timeout(TIMEOUT_S):
            return ConnectionCheck(name, f"{connector}: {await check}")
    except ConnectorError as error:
        return ConnectionCheck(name, error.message, error.hint, error.exit_status)
    except TimeoutError:
        return ConnectionCheck(name, f"{connector}: no answer within {TIMEOUT_S:.0f} s", status=1)


def _start_check(
    part: nodes.PlanPart, connector: Connector, plan: nodes.Plan, run_context: RunContext
) -> Awaitable[str] | None:
    if isinstance(part, nodes.Step):
        lookup = get_lookup(part)
        side = connector.lookup
        return side.describe_external(lookup, run_context) if lookup and side else None
    if isinstance(part, nodes.Source):
        look = connector.source.describe_external if connector.source else None
        return look(part, run_context) if look else None
    there = connector.sink.describe_external if connector.sink else None
    return there(part, plan.streams[part.input].sink_schema, run_context) if there else None
