"""The expansion of a step with a query to the steps that compute it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.expressions.parsing.lexer import find_optimizer_hints
from headrace.core.pipeline.model import Step
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.sql.lookup_joins import write_join
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
    _warn_of_unused_lookups(step, report)
    texts = QueryTexts(step.sql, report)
    _warn_of_optimizer_hints(texts)
    writer = StepWriter(step, texts, table, build)
    try:
        QueryCompiler(writer, texts).compile(step.sql.query, str(step.name))
    except RejectedQuery:
        return False
    return True


def _warn_of_unused_lookups(step: Step, report: PlanProblems) -> None:
    """Warn of the lookups that the query does not join."""
    assert step.sql is not None, "it is a step with a query"
    read = step.sql.list_tables()
    for name, lookup in (step.lookups or {}).items():
        if name not in read:
            hint = f"{write_join(name, name, lookup)}, or remove it"
            report.warn(f'lookups: the query does not join "{name}"', name.locate(), hint)


def _warn_of_optimizer_hints(texts: QueryTexts) -> None:
    """Warn of comments that ask Spark's optimizer for something."""
    text = texts.written.text
    for span in find_optimizer_hints(text.reveal()):
        hint = "remove it; the keys parallelism and slot of the step apply to all of its steps"
        message = f"a hint to the optimizer has no effect: {texts.cut(span)}"
        texts.report.warn(message, text.locate(span.start, span.end), hint)
