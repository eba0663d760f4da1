"""The trigger classes of triggers.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from headrace import Trigger, Window, timer


class Reminded(Trigger):
    """Fires with every third row, and twenty seconds after the last one."""

    state: ClassVar = {"rows": "bigint"}
    wake = timer()

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        state["rows"] = (state["rows"] or 0) + 1
        state["wake"] = row["at"] + timedelta(seconds=20)
        return bool(state["rows"] % 3 == 0)

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return True

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        rows = sum(each["rows"] or 0 for each in states)
        return {"rows": rows, "wake": states[-1]["wake"]}


class Awaited(Trigger):
    """Fires a day after the first row, by the wall clock."""

    wake = timer(time="processing")

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        state["wake"] = state["wake"] or self.now + timedelta(days=1)
        return False

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return True
