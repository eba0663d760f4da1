"""Spark's plan of a pipeline, for `headrace explain --batch`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.cli.batch.running import inside_of
from headrace.core.spark.explaining import explained
from headrace.core.spark.session import session
from headrace.core.spark.settings import parsed

if TYPE_CHECKING:
    from headrace.cli.pipelines import Checked
    from headrace.core.plan import Plan


def on_spark(
    checked: Checked, plan: Plan, master: str | None, conf: Sequence[str]
) -> dict[str, str]:
    """Return Spark's plan of each sink. Raises SparkUnavailable, ConnectorError."""
    with session(str(plan.name), master, parsed(conf)) as spark:
        return explained(spark, plan, inside_of(checked, plan, uuid.uuid4().hex))


def as_text(plans: dict[str, str]) -> str:
    """Format the plans one after the other."""
    return "".join(f"\non Spark, for the sink {name}:\n{said}\n" for name, said in plans.items())
