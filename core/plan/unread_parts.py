"""The parts of a pipeline that are read only by queries of `with` that nothing reads.

Such a query has a warning of its own; its sources and steps are left out of the plan.

Tests: tests/core/plan/sql/test_query_steps.py.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.pipeline.model import Pipeline, Step
from headrace.core.plan.output_streams import list_declared_streams


def drop_unread_parts(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline without the sources and steps that only unread queries of `with` read."""
    queries = [step.sql for step in pipeline.steps.values() if step.sql is not None]
    unread = {name for query in queries for name in query.list_unread_tables()}
    while unread:
        read = {str(sink.from_) for sink in pipeline.sinks.values()}
        read.update(str(name) for step in pipeline.steps.values() for name in step.input_streams)
        loops = (step.iterate for step in pipeline.steps.values() if step.iterate is not None)
        read.update(str(loop.last_step) for loop in loops)
        streams = [*list_declared_streams(pipeline)]
        needed = {str(part.name) for part, stream in streams if stream in read}
        dropped = [part for part, name in streams if name in unread and part.name not in needed]
        unread = {
            str(name) for part in dropped if isinstance(part, Step) for name in part.input_streams
        }
        names = {part.name for part in dropped}
        pipeline = replace(
            pipeline,
            sources={key: each for key, each in pipeline.sources.items() if key not in names},
            steps={key: each for key, each in pipeline.steps.items() if key not in names},
        )
    return pipeline
