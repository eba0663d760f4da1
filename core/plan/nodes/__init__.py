"""The nodes of the plan: sources, steps and sinks, their streams, and the operations of steps.

A step is a list of operations over the rows of one stream (several inputs are united first);
its outputs are streams with a name, a schema and a kind. Everything is immutable and refers to
other parts by name.

Tests: tests/core/plan.
"""

from headrace.core.plan.nodes.joins import Join, JoinSide, JoinType, TwoSided
from headrace.core.plan.nodes.keyed import (
    CHANGE_FIELDS,
    RANK_COLUMN,
    WINDOW_BOUNDS,
    Aggregate,
    AggregatedColumn,
    Apply,
    ChangelogConversion,
    Dedup,
    KeyedOperation,
    Process,
    ProcessBody,
    Ranking,
    Top,
    WindowedOperation,
)
from headrace.core.plan.nodes.parts import (
    EVENT_TIME_VALUE,
    WATERMARK_VALUE,
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
    find_process_body,
)
from headrace.core.plan.nodes.rows import (
    ChangeColumn,
    ComputedColumn,
    Explode,
    Filter,
    Lookup,
    LookupColumn,
    Map,
    Project,
    Route,
    WeightConversion,
)
from headrace.core.plan.nodes.streams import Stream
from headrace.core.types.stream_kinds import Append, Retract, StreamKind, Upsert

__all__ = [
    "CHANGE_FIELDS",
    "EVENT_TIME_VALUE",
    "RANK_COLUMN",
    "WATERMARK_VALUE",
    "WINDOW_BOUNDS",
    "Aggregate",
    "AggregatedColumn",
    "Append",
    "Apply",
    "ChangeColumn",
    "ChangelogConversion",
    "ComputedColumn",
    "Dedup",
    "Edge",
    "Exchange",
    "Explode",
    "Filter",
    "Format",
    "Join",
    "JoinSide",
    "JoinType",
    "KeyedOperation",
    "Lookup",
    "LookupColumn",
    "Map",
    "Operation",
    "Plan",
    "PlanPart",
    "Process",
    "ProcessBody",
    "Project",
    "Ranking",
    "Retract",
    "Route",
    "Sink",
    "Source",
    "Step",
    "Stream",
    "StreamKind",
    "Task",
    "Top",
    "TwoSided",
    "Upsert",
    "WeightConversion",
    "WindowedOperation",
    "find_process_body",
]
