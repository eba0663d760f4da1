"""User code with named outputs, over rows of k, s, v, x and at; it fails on rows whose v is 2."""

from datetime import datetime, timedelta
from typing import Any

from headrace import Out, Process, Row, shared, timer, value


def change(row: dict[str, Any]) -> list[dict[str, Any]] | dict[str, Any] | None:
    """Return no row, one or two."""
    made = {"k": row["k"], "s": row["s"], "v": -1, "x": row["x"], "at": row["at"]}
    match row["v"]:
        case 2:
            raise ValueError("two is too many")
        case -4:
            return None
        case 4:
            return [{**made, "v": 4}, made]
    return {**made, "v": row["v"]}


class Came(Row):
    """A row with the columns that the classes use."""

    s: str | None
    v: int | None


class Counting(Process):
    """Numbers the rows of a key; odd values go to an output, and so do timers."""

    rows = value("bigint", default=0)
    quiet = timer()

    def on_timer(self, at: datetime, state: Any, out: Out) -> None:
        out.quiet(n=state.rows)

    def _count(self, row: Came, state: Any, out: Out) -> None:
        state.rows += 1
        state.quiet = self.event_time + timedelta(seconds=2)
        out(k=self.key, n=state.rows, v=row.v)
        if row.v is not None and row.v % 2:
            out.odd(v=row.v, s=row.s)
        if row.v == 2:
            raise ValueError("two is too many")


class Counted(Counting):
    """`Counting`, over one input."""

    def on_row(self, row: Came, state: "Counted", out: Out) -> None:
        self._count(row, state, out)


class Paired(Counting):
    """`Counting`, over two inputs."""

    def on_left(self, row: Came, state: "Paired", out: Out) -> None:
        self._count(row, state, out)

    def on_right(self, row: Came, state: "Paired", out: Out) -> None:
        state.rows += 100
        if row.v == 2:
            raise ValueError("two is too many")
        out.odd(v=row.v, s="right")


class Ruled(Counting):
    """`Counting`, with a rule: the number of the rows of a broadcast."""

    rules = shared(value("bigint", default=0))

    def on_rule(self, rule: Came, state: "Ruled") -> None:
        state.rules += 1

    def on_row(self, row: Came, state: "Ruled", out: Out) -> None:
        self._count(row, state, out)
        out.odd(v=state.rules, s="rules")
