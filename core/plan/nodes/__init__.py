"""The nodes of the plan: sources, steps and sinks, their streams, and the operations of steps.

A step is a list of operations over the rows of one stream (several inputs are united first);
its outputs are streams with a name, a schema and a kind. Everything is immutable and refers to
other parts by name.
"""

from headrace.core.plan.nodes.joins import Join, JoinType, Side, TwoSided
from headrace.core.plan.nodes.keyed import (
    BOUNDS,
    RANK,
    Aggregate,
    Aggregated,
    Apply,
    Body,
    Dedup,
    Keyed,
    Process,
    Ranking,
    Top,
    Windowed,
)
from headrace.core.plan.nodes.parts import (
    Edge,
    Exchange,
    Format,
    Operation,
    Plan,
    PlanPart,
    Sink,
    Source,
    Step,
    Task,
    body_of,
)
from headrace.core.plan.nodes.rows import (
    Computed,
    Explode,
    Filter,
    Found,
    Lookup,
    Map,
    Project,
    Route,
)
from headrace.core.plan.nodes.streams import Append, Kind, Stream, Upsert

__all__ = [
    "BOUNDS",
    "RANK",
    "Aggregate",
    "Aggregated",
    "Append",
    "Apply",
    "Body",
    "Computed",
    "Dedup",
    "Edge",
    "Exchange",
    "Explode",
    "Filter",
    "Format",
    "Found",
    "Join",
    "JoinType",
    "Keyed",
    "Kind",
    "Lookup",
    "Map",
    "Operation",
    "Plan",
    "PlanPart",
    "Process",
    "Project",
    "Ranking",
    "Route",
    "Side",
    "Sink",
    "Source",
    "Step",
    "Stream",
    "Task",
    "Top",
    "TwoSided",
    "Upsert",
    "Windowed",
    "body_of",
]
