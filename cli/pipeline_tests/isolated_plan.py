"""The plan of a pipeline in a test: fed sources, tables in memory, and sinks in memory.

It is the plan of the file with its ends replaced, so that steps, streams and state are the same.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field, replace
from pathlib import Path

from headrace.cli.pipeline_tests.fed_source import FED, FedOptions
from headrace.connectors.memory import InMemoryData, MemoryOptions, MemorySinkOptions
from headrace.core.pipeline.loader import LoadedPipeline
from headrace.core.pipeline.model import Sink
from headrace.core.pipeline.parallelism import set_parallelism
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.testing.fed_streams import replace_fed_streams
from headrace.core.types.lazy_dataclass import dataclass

MEMORY = "memory"
SINK_SUFFIX = "@rows"
"""The suffix of the sink of a stream; no sink of a user has such a name."""


@dataclass(slots=True)
class Planner:
    """Makes plans of one pipeline at any parallelism, with sinks for the expected streams."""

    loaded: LoadedPipeline
    """The pipeline, which is valid."""
    streams: Collection[str]
    fed_streams: Collection[str] = ()
    """The outputs of steps whose rows are given; the steps do not run."""
    _plans: dict[int, Plan] = field(default_factory=dict)
    _feeding: dict[tuple[frozenset[str], frozenset[str]], Planner] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the pipeline."""
        return self.loaded.folder

    def plan(self, parallelism: int) -> Plan:
        """Return the plan at a parallelism."""
        if parallelism not in self._plans:
            pipeline = set_parallelism(self.loaded.pipeline, parallelism, {})
            loaded = replace(self.loaded, pipeline=pipeline)
            plan = build_isolated_plan(loaded, self.streams, self.fed_streams)
            self._plans[parallelism] = plan
        return self._plans[parallelism]

    def feed(self, fed_streams: frozenset[str], streams: frozenset[str]) -> Planner:
        """Return the planner of a test that gives the rows of steps, and expects some streams."""
        if not fed_streams:
            return self
        planner = Planner(self.loaded, sorted(streams), fed_streams)
        return self._feeding.setdefault((fed_streams, streams), planner)


def build_isolated_plan(
    loaded: LoadedPipeline, streams: Collection[str], fed_streams: Collection[str] = ()
) -> Plan:
    """Return the plan with replaced ends; the pipeline is valid."""
    pipeline = loaded.pipeline
    read = dict.fromkeys((*(str(sink.from_) for sink in pipeline.sinks.values()), *streams))
    connector = InMemoryData().build_connector()
    sinks = {
        f"{stream}{SINK_SUFFIX}": Sink.model_construct(
            name=Text(f"{stream}{SINK_SUFFIX}"),
            connector=connector,
            options=MemorySinkOptions.model_construct(data=Text(stream), changelog="last"),
            keys_at={MEMORY: Text(MEMORY)},
            from_=Text(stream),
        )
        for stream in read
    }
    isolated = replace(loaded, pipeline=replace(pipeline, sinks=sinks))
    plan, problems = build_plan(isolated, is_lasting=False)
    assert plan is not None, problems
    plan = replace_fed_streams(plan, fed_streams)
    return replace(plan, parts=tuple(map(_isolate, plan.parts)))


def find_sink(plan: Plan, stream: str) -> nodes.Sink:
    """Return the sink of an expected stream."""
    part = plan.part(f"{stream}{SINK_SUFFIX}")
    assert isinstance(part, nodes.Sink), part
    return part


def _isolate(part: nodes.PlanPart) -> nodes.PlanPart:
    match part:
        case nodes.Source():
            return replace(part, connector=FED, options=FedOptions())
        case nodes.Step(name=name, operations=operations):
            return replace(part, operations=tuple(_isolate_lookup(name, o) for o in operations))
    return part


def _isolate_lookup(step: str, operation: nodes.Operation) -> nodes.Operation:
    if not isinstance(operation, nodes.Lookup):
        return operation
    return replace(operation, connector=MEMORY, options=MemoryOptions(data=Text(step)))
