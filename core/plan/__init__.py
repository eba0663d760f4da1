"""The logical plan: what a pipeline does, typed and immutable, before anything runs.

Both executors run this plan, so it holds everything that has a meaning and nothing that has a
speed: no thread, no channel, no Spark.

    plan, problems = build(load(path, connectors))
    print(explain(plan, "text"))
"""

from headrace.core.plan.build import build
from headrace.core.plan.explain import FORMATS, explain
from headrace.core.plan.nodes import Plan

__all__ = ["FORMATS", "Plan", "build", "explain"]
