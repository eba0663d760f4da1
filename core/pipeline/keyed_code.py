"""Whether the users' code that a step's windows name is in its files."""

from __future__ import annotations

from pathlib import Path

from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.keyed import UserAssignment
from headrace.core.pipeline.model import StepKeys

AGGREGATE = ("partial", "merge", "finish")


def check_user_code(step: StepKeys, folder: Path, subject: str, findings: Findings) -> None:
    """Note what is not there, or is something else."""
    for each in step.aggregate or ():
        if isinstance(each, UserAssignment):
            from headrace.core.pipeline import python_classes

            at = f"aggregate.{each.name}.python"
            where = (folder, at, subject, findings)
            python_classes.check(each.python.python, *where, methods=AGGREGATE)
