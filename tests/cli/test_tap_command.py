"""What `headrace tap` prints of the events of a job."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.cli.tap_command import RowPrinter


def test_missing_columns_are_named_when_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[dict[str, Any]] = []
    printer = RowPrinter(printed.extend, None)
    for missing in (["a", "b"], ["a", "b"], [], ["b"]):
        printer.receive({"rows": [{"x": 1}], "dropped": 0, "missing_columns": missing})
    assert capsys.readouterr().err.splitlines() == [
        "the job leaves out a, b: nothing reads them later",
        "the job leaves out b: nothing reads them later",
    ]
    assert len(printed) == 4
