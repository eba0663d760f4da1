"""Spark's plan of a pipeline, for `headrace explain --batch`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.cli.batch.running import build_executor_context
from headrace.core.spark.explaining import explain_sinks
from headrace.core.spark.session import open_session
from headrace.core.spark.settings import parse_conf

if TYPE_CHECKING:
    from headrace.cli.pipelines import CheckedPipeline
    from headrace.core.plan import Plan


def explain_on_spark(
    checked: CheckedPipeline, plan: Plan, master: str | None, conf: Sequence[str]
) -> dict[str, str]:
    """Return Spark's plan of each sink. Raises SparkUnavailable, ConnectorError."""
    with open_session(str(plan.name), master, parse_conf(conf)) as spark:
        return explain_sinks(spark, plan, build_executor_context(checked, plan, uuid.uuid4().hex))


def format_spark_plans(plans: dict[str, str]) -> str:
    """Format the plans one after the other."""
    return "".join(f"\non Spark, for the sink {name}:\n{said}\n" for name, said in plans.items())
