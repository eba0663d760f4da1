"""User-defined classes for tests, over rows of k, s, v, x and at."""

from datetime import datetime, timedelta

import polars as pl

from headrace import (
    AllOut,
    AllState,
    Out,
    Process,
    Row,
    list_of,
    map_of,
    shared,
    timer,
    value,
)


class Numbered(Row):
    """A row with the columns that most classes use."""

    k: int | None
    s: str | None
    v: int | None


class Short(Row):
    """A row with fewer columns."""

    k: int | None
    v: int | None


class Totals(Process):
    """The running total and the number of rows of each key."""

    total = value("bigint", default=0)
    rows = value("int")

    def on_row(self, row: Numbered, state: "Totals", out: Out) -> None:
        state.total += row.v or 0
        state.rows = (state.rows or 0) + 1
        out(k=self.key, n=state.rows, total=state.total)


class Sessions(Process):
    """The rows of a key until two seconds have passed without one."""

    rows = value("bigint", default=0)
    seen = list_of("string")
    over = timer()

    def on_row(self, row: Numbered, state: "Sessions", out: Out) -> None:
        state.rows += 1
        state.seen.append(row.s or "-")
        state.over = self.event_time + timedelta(seconds=2)
        if row.v is not None and row.v < -3:
            state.over = None

    def on_timer(self, at: datetime, state: "Sessions", out: Out) -> None:
        out(k=self.key, n=state.rows, total=len(set(state.seen)))
        state.rows = 0
        state.seen = []


class Two(Process):
    """Two timers, where one sets the other; both may fire at the same time."""

    first = timer()
    second = timer()
    count = value("bigint", default=0)

    def on_row(self, row: Numbered, state: "Two", out: Out) -> None:
        step = timedelta(seconds=abs(row.v or 0) / 2)
        if state.first is None:
            state.first = self.event_time + step
        state.second = self.event_time + timedelta(seconds=1)

    def on_timer(self, at: datetime, state: "Two", out: Out) -> None:
        state.count += 1
        if self.timer == "first" and state.count % 3:
            state.second = at + timedelta(seconds=1)
        out(k=self.key, n=state.count, total=1 if self.timer == "first" else 2)


class Fading(Process):
    """State of each kind that expires."""

    last = value("string", ttl="2s")
    recent = list_of("bigint", ttl="3s")
    by_text = map_of("string", "bigint", ttl="1s")
    ever = map_of("bigint", "timestamp")

    def on_row(self, row: Numbered, state: "Fading", out: Out) -> None:
        before = 0 if state.last is None else 1
        state.by_text[row.s or "-"] = state.by_text.get(row.s or "-", 0) + 1
        state.recent.append(row.v or 0)
        state.ever[row.v or 0] = self.event_time
        if row.v != 1:
            state.last = row.s
        total = sum(state.recent) + 1000 * sum(state.by_text.values()) + 100_000 * len(state.ever)
        out(k=self.key, n=before, total=total)


class Waking(Process):
    """A timer and a ttl by the wall clock."""

    rows = value("bigint", default=0)
    lately = value("bigint", ttl="2s", time="processing")
    wake = timer(time="processing")

    def on_row(self, row: Numbered, state: "Waking", out: Out) -> None:
        state.rows += 1
        state.lately = (state.lately or 0) + 1
        if state.wake is None:
            state.wake = self.now + timedelta(seconds=2)
        out(k=self.key, n=-1, total=state.lately)

    def on_timer(self, at: datetime, state: "Waking", out: Out) -> None:
        out(k=self.key, n=0, total=state.rows)


class Picky(Process):
    """Fails on some rows, after it has changed all state."""

    rows = value("bigint", default=0)
    seen = list_of("bigint")
    stop = timer()

    def on_row(self, row: Numbered, state: "Picky", out: Out) -> None:
        state.rows += 1
        state.seen.append(row.v or 0)
        out(k=self.key, n=state.rows, total=sum(state.seen))
        state.stop = self.event_time + timedelta(seconds=1)
        if row.v == 2:
            raise ValueError("two is too many")

    def on_timer(self, at: datetime, state: "Picky", out: Out) -> None:
        state.seen.clear()
        if state.rows % 4 == 0:
            raise ValueError("four is too many")
        out(k=self.key, n=-1, total=state.rows)


class ManyTotals(Process):
    """`Totals`, in batches."""

    total = value("bigint", default=0)
    rows = value("int")

    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> None:
        total = pl.col("v").fill_null(0).cum_sum().over("k")
        number = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("k")
        made = rows.select("k", n=number, total=total)
        before = state.rows.get().fill_null(0)
        made = made.with_columns(
            (pl.col("n") + before).alias("n"), (pl.col("total") + state.total.get()).alias("total")
        )
        state.rows.set(made["n"])
        state.total.set(made["total"])
        out(made)


class ManySessions(Process):
    """`Sessions`, in batches; the rows of a key are split by its timer."""

    rows = value("bigint", default=0)
    over = timer()

    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> None:
        number = rows.select(pl.int_range(1, pl.len() + 1).over("k")).to_series()
        state.rows.set(number + state.rows.get())
        state.over.set(self.event_times + timedelta(minutes=1))
        out.odd(rows.filter(pl.col("v") % 2 == 1).select("v"), of=rows["v"] % 2 == 1)

    def on_timer(self, at: datetime, state: "ManySessions", out: Out) -> None:
        out(k=self.key, n=state.rows, total=0)
        state.rows = 0


class Suspicious(Process):
    """A value with a ttl, a list, a map and a timer; all of them affect the output."""

    last = value("string", ttl="2s")
    texts = list_of("string")
    counts = map_of("string", "bigint")
    quiet = timer()

    def on_row(self, row: Numbered, state: "Suspicious", out: Out) -> None:
        text = row.s or "-"
        state.counts[text] = state.counts.get(text, 0) + 1
        state.texts.append(text)
        if state.last is not None and state.last != row.s:
            out(k=self.key, n=len(state.texts), total=state.counts[state.last])
            out.odd(v=row.v)
        if row.v != 0:
            state.last = text
        step = timedelta(milliseconds=1500 * (row.v or 0))
        state.quiet = None if row.v == 5 else self.event_time + step

    def on_timer(self, at: datetime, state: "Suspicious", out: Out) -> None:
        out(k=self.key, n=-len(state.texts), total=sum(state.counts.values()))
        if len(state.texts) > 2:
            state.texts = state.texts[2:]
            state.quiet = at + timedelta(seconds=1)


class Matched(Process):
    """Open rows of the left, closed by rows of the right or by time."""

    open = list_of("bigint")
    closed = value("bigint", default=0)
    late = timer()

    def on_left(self, row: Numbered, state: "Matched", out: Out) -> None:
        state.open.append(row.v or 0)
        state.late = self.event_time + timedelta(seconds=3)

    def on_right(self, row: Short, state: "Matched", out: Out) -> None:
        if not state.open:
            out(k=self.key, n=-1, total=row.v or 0)
            return
        state.closed += 1
        out(k=self.key, n=state.closed, total=state.open.pop(0) + 100 * (row.v or 0))
        if not state.open:
            state.late = None

    def on_timer(self, at: datetime, state: "Matched", out: Out) -> None:
        out(k=self.key, n=0, total=sum(state.open))
        state.open.clear()


class Limited(Process):
    """Rows that exceed the last rule of their s; a timer depends on rules as well."""

    limits = shared(map_of("string", "bigint"))
    rules = shared(value("bigint", default=0))
    last = shared(list_of("array<bigint>"))
    seen = value("bigint", default=0)
    later = timer()

    def on_rule(self, rule: Numbered, state: "Limited") -> None:
        state.rules += 1
        if rule.v is None:
            state.limits.pop(rule.s or "-", None)
        else:
            state.limits[rule.s or "-"] = rule.v
        state.last = [[rule.v or 0, state.rules], *state.last[:2]]

    def on_row(self, row: Numbered, state: "Limited", out: Out) -> None:
        state.seen += 1
        most = state.limits.get(row.s or "-")
        if most is not None and (row.v or 0) > most:
            out(k=self.key, n=state.seen, total=most)
        if state.later is None:
            state.later = self.event_time + timedelta(seconds=2)

    def on_timer(self, at: datetime, state: "Limited", out: Out) -> None:
        out(k=self.key, n=-state.rules, total=sum(sum(each) for each in state.last))


class Alien(Process):
    """Stores state that it does not declare."""

    n = value("bigint")

    def on_row(self, row: Numbered, state: "Alien", out: Out) -> None:
        state.n = "x"  # type: ignore[assignment]


class Defaulted(Process):
    """Defaults that are modified in place, with a ttl and without."""

    ever = value("array<bigint>", default=[7])
    lately = value("array<bigint>", default=[], ttl="3s")

    def on_row(self, row: Numbered, state: "Defaulted", out: Out) -> None:
        for items in (state.ever, state.lately):
            if row.v:
                items.append(row.v)
        out(k=self.key, n=len(state.lately), total=sum(state.ever) + 1000 * sum(state.lately))


class Small(Row):
    """A row whose construction fails for v above 2."""

    v: int | None

    def __post_init__(self) -> None:
        if self.v is not None and self.v > 2:
            raise ValueError("two is the most")


class Looking(Process):
    """Fails on some rows, while they are built."""

    rows = value("bigint", default=0)

    def on_row(self, row: Small, state: "Looking", out: Out) -> None:
        state.rows += 1
        out(k=self.key, n=state.rows, total=row.v)


class Measured(Process):
    """Counts its rows, and those of odd values on which it then fails."""

    total = value("bigint")

    def on_row(self, row, state, out):  # type: ignore[no-untyped-def]
        self.metrics.counter("rows").add()
        self.metrics.counter("sum").add(row.v)
        state.total = (state.total or 0) + row.v
        if row.v < 0:
            raise ValueError("less than nothing")
        out(k=row.k, n=state.total)
