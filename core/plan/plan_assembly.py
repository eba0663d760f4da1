"""A plan from a document: its parts, which are built again where a first pass was too strict."""

from __future__ import annotations

from headrace.core.errors.problems import Problem, sort_problems
from headrace.core.pipeline.loader import LoadedPipeline, PlanVersion
from headrace.core.plan import nodes
from headrace.core.plan.builder import PlanBuilder
from headrace.core.plan.layout import build_edges, build_tasks
from headrace.core.plan.pushdown import push_down
from headrace.core.plan.round_tables import mark_round_tables
from headrace.core.plan.row_order_demand import mark_ordered_streams


def build_plan(
    loaded: LoadedPipeline, *, is_lasting: bool = True
) -> tuple[nodes.Plan | None, tuple[Problem, ...]]:
    """Return the plan if there is no error, and every problem of the file in any case.

    Without `is_lasting`, somebody waits for the end of the job: no warning says what it stores, or
    how long it waits.
    """
    builder = PlanBuilder(loaded, is_lasting=is_lasting)
    parts = builder.build_parts()
    while found := builder.loops.found_untimed:
        untimed = builder.loops.untimed | found
        builder = PlanBuilder(loaded, is_lasting=is_lasting, untimed_loops=untimed)
        parts = builder.build_parts()
    problems = tuple(sort_problems([*loaded.problems, *builder.report.problems]))
    if any(problem.severity == "error" for problem in problems):
        return None, problems
    if loaded.inputs.plan_version > PlanVersion.JOIN_KEYS:
        parts = _rebuild_without_keys(builder, parts)
    parts = mark_ordered_streams(push_down(parts))
    if loaded.inputs.plan_version > PlanVersion.ROUND_DIFFERENCES:
        parts = mark_round_tables(parts, loaded.inputs.plan_version)
    between = build_edges(parts)
    pipeline = loaded.pipeline
    laid_out = build_tasks(parts, between)
    groups = pipeline.settings.key_groups
    return nodes.Plan(str(pipeline.name), groups, parts, between, laid_out), problems


def _rebuild_without_keys(
    builder: PlanBuilder, parts: tuple[nodes.PlanPart, ...]
) -> tuple[nodes.PlanPart, ...]:
    """Return the parts with joins that emit rows without a key where two may have the same.

    A join whose other readers need the key has it: there, two such rows fail the job.
    """
    keyless, loaded = builder.keyless_joins, builder.loaded
    for name in sorted(builder.regrouped_joins):
        again = PlanBuilder(
            loaded,
            is_lasting=builder.is_lasting,
            keyless_joins=keyless | {name},
            untimed_loops=builder.loops.untimed,
        )
        rebuilt = again.build_parts()
        if not any(each.severity == "error" for each in again.report.problems):
            keyless, parts = again.keyless_joins, rebuilt
    return parts
