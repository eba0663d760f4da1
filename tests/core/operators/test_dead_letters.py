"""Rows that failed, as the JSON of a dead letter."""

from __future__ import annotations

import json

from headrace.core.operators.dead_letters import from_failed_rows


def test_bytes_are_base64_wherever_they_are() -> None:
    row = {
        "k": 1,
        "whole": b"\x00a",
        "parts": [b"b", None],
        "in": {"s": "c", "b": b"d"},
        "no": None,
    }
    (raw,) = from_failed_rows("step", [("it failed", row)], 0)["raw"]
    wanted = {"k": 1, "whole": "AGE=", "parts": ["Yg==", None], "in": {"s": "c", "b": "ZA=="}}
    assert json.loads(raw) == wanted | {"no": None}
