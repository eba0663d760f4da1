"""`headrace simulate` passes for the pipelines in configs/ that can be simulated.

Others fail on random rows by their own code, or read rows of a schema in a file that is not there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.mark.parametrize(
    "name", ["late", "bad_records", "joins", "route", "broadcast", "connect", "union", "lookup"]
)
def test_a_shipped_pipeline_passes(headrace: Headrace, name: str) -> None:
    ran = headrace("simulate", str(CONFIGS / f"{name}.yaml"), "--seeds", "20", "--rows", "40")
    assert ran.status == 0, ran.out + ran.err
