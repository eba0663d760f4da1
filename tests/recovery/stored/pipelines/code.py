"""The functions and classes that the pipelines beside this file name."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import polars as pl

from headrace import (
    Aggregate,
    AllOut,
    AllState,
    Out,
    Process,
    Trigger,
    Window,
    list_of,
    map_of,
    shared,
    timer,
    value,
)


class Middle(Aggregate[dict[str, pl.Series]]):
    """The median; all values are kept."""

    state: ClassVar = {"kept": "array<bigint>"}

    def partial(self, values: pl.Series) -> dict[str, pl.Series]:
        return {"kept": values}

    def merge(self, partials: Sequence[dict[str, pl.Series]]) -> dict[str, pl.Series]:
        return {"kept": pl.concat([each["kept"] for each in partials])}

    def finish(self, partial: dict[str, pl.Series]) -> float | None:
        found: Any = partial["kept"].median()
        return None if found is None else float(found)


class Dearer(Trigger):
    """Fires when a row is dearer than all that have come to the window before."""

    state: ClassVar = {"highest": "double", "rows": "bigint"}

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        price = float(row["price"] or 0)
        state["rows"] = (state["rows"] or 0) + 1
        if price <= (state["highest"] or 0):
            return False
        state["highest"] = price
        return True


def jumps(rows: pl.DataFrame, window: Window) -> pl.DataFrame:
    """By how much each row is dearer than the first of its window."""
    rows = rows.sort("id")
    return rows.select(
        "id", risen=(pl.col("price") - pl.col("price").first()).cast(pl.Decimal(10, 2))
    )


def without_doubles(rows: pl.DataFrame) -> pl.DataFrame:
    """The last row of each group."""
    return rows.unique("g", keep="last", maintain_order=True)


class Everything(Process):
    """Keeps one state of every kind, and puts all of them out with each row."""

    total = value("decimal(20,2)")
    seen = value("bigint", default=0)
    lately = value("bigint", ttl="1h")
    ids = list_of("bigint")
    recent = list_of("string", ttl="30s")
    prices = map_of("bigint", "double")
    fresh = map_of("string", "bigint", ttl="100000d", time="processing")
    quiet = timer()
    ever = timer(time="processing")

    def on_row(self, row: Any, state: Any, out: Out) -> None:
        state.seen += 1
        state.total = (state.total or 0) + (row.price or 0)
        state.ids.append(row.id)
        state.recent.append(f"{row.id}")
        state.prices[row.g] = row.x or 0.0
        before = state.lately
        state.lately = row.id
        state.fresh[f"g{row.g}"] = row.id
        state.quiet = self.event_time + timedelta(seconds=40)
        was_set = state.ever is not None
        state.ever = state.ever or self.now + timedelta(days=30000)
        out(
            k=self.key,
            id=row.id,
            seen=state.seen,
            total=state.total,
            before=before,
            ids=sum(state.ids),
            recent=",".join(state.recent),
            prices=sum(state.prices.values()),
            fresh=sum(state.fresh.values()),
            was_set=was_set,
        )

    def on_timer(self, at: Any, state: Any, out: Out) -> None:
        out.idle(k=self.key, seen=state.seen, at=at)
        state.ids.clear()


class Arrived(Process):
    """Counts rows as they come; a timer by event time waits meanwhile."""

    seen = value("bigint", default=0)
    over = timer()

    def on_row(self, row: Any, state: Any, out: Out) -> None:
        state.seen += 1
        state.over = self.event_time + timedelta(hours=2)

    def on_timer(self, at: Any, state: Any, out: Out) -> None:
        out(g=self.key, seen=state.seen, at=at)


class Sums(Process):
    """The running sum of many rows at once."""

    total = value("bigint", default=0)

    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> None:
        total = rows.select(pl.col("id").cum_sum().over("k")).to_series()
        total += state.total.get()
        state.total.set(total)
        out(rows.select("k", "id", total=total))


class Paid(Process):
    """Orders of a key, and what others paid for it."""

    ordered = value("decimal(20,2)")
    paid = value("bigint", default=0)
    patience = timer()

    def on_left(self, order: Any, state: Any, out: Out) -> None:
        state.ordered = (state.ordered or 0) + (order.price or 0)
        state.patience = self.event_time + timedelta(seconds=50)

    def on_right(self, other: Any, state: Any, out: Out) -> None:
        state.paid += other.amount
        out(k=self.key, ordered=state.ordered, paid=state.paid, at=None)

    def on_timer(self, at: Any, state: Any, out: Out) -> None:
        out(k=self.key, ordered=state.ordered, paid=state.paid, at=at)


class Limits(Process):
    """Rows over the limit of their key, each with how many there were."""

    limits = shared(map_of("string", "bigint"))
    changes = shared(value("bigint", default=0))
    names = shared(list_of("string"))
    over = value("bigint", default=0, ttl="1d")

    def on_rule(self, rule: Any, state: Any) -> None:
        state.limits[rule.k] = rule.most
        state.changes += 1
        state.names.append(rule.k)

    def on_row(self, row: Any, state: Any, out: Out) -> None:
        most = state.limits.get(row.k)
        if most is not None and row.id > most:
            state.over += 1
            names = len(state.names)
            out(g=self.key, id=row.id, over=state.over, changes=state.changes, names=names)
