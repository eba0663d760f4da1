"""The expansion of a step with a query to the steps that compute it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.pipeline.model import Step
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.sql.queries import QueryCompiler
from headrace.core.plan.sql.steps import StepWriter, StreamTable
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery


def expand_query(
    step: Step, table: StreamTable, build: Callable[[Step], None], report: PlanProblems
) -> bool:
    """Build the steps of a query; the last one has the name of the step. Return whether they are
    complete: if not, the reason is reported, or is in a step before.

    `build` adds a step to the plan, and its streams to `table`.
    """
    assert step.sql is not None, "it is a step with a query"
    texts = QueryTexts(step.sql, report)
    writer = StepWriter(step, texts, table, build)
    try:
        QueryCompiler(writer, texts).compile(step.sql.query, str(step.name))
    except RejectedQuery:
        return False
    return True
