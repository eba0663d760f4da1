"""The state of joins as rows for people, by input, under the column names after the join.

    left, right       the rows that may still find matches
    shown_left, ...   the emitted rows of sessions, which late rows may still change
    versions          the latest right row of each key, for rows to come
    keys              of changelogs: the current rows of both inputs, by key
    waiting, rules    of broadcast joins: rows that wait for their time, and the broadcast rows

The key comes first, under the column names of that input; a column that is the key is shown once.
The times come last: `event_time`, or the window; `came`, the wall-clock time of arrival; `until`,
when a row expires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.expressions.typed import Column
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.joins import everywhere
from headrace.core.operators.joins.bounds import Bounds
from headrace.core.operators.joins.kept import STATES
from headrace.core.operators.joins.laid_out import laid_out
from headrace.core.operators.joins.sides import LEFT, RIGHT, TIMES
from headrace.core.operators.joins.spans import SHOWN, WAS
from headrace.core.operators.joins.standing import IDS, ROWS
from headrace.core.operators.joins.versions import VERSIONS
from headrace.core.operators.kept import row_types
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOf, Changing, Everywhere, Within
from headrace.core.plan.windows import Session
from headrace.core.readable.columns import free, named
from headrace.core.readable.keys import decoded
from headrace.core.readable.meaning import JoinMeaning
from headrace.core.readable.panes import Panes
from headrace.core.state import KEY, NO_CLOCK_US, SLOT, UNTIL
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

    Behind: TypeAlias = Mapping[str, pl.Expr]

BEHIND = ("window_start", "window_end", "event_time", "came", "until")
"""The times of a row, shown after its columns."""


class JoinStates:
    """The reader of one join's state."""

    def __init__(self, meaning: JoinMeaning) -> None:
        self._meaning = meaning
        self._join = join = meaning.operation
        self._sides = (join.left, join.right)
        self._inside = Grouping(join.left.key).inside
        self._layouts = laid_out(join, ordered=meaning.ordered)

    def identity(self, name: str) -> tuple[str, ...]:
        """Return the columns that identify a row of a state, if some do."""
        columns, key = next(self.read(name, [], NO_CLOCK_US)).columns, len(self._inside)
        if name == VERSIONS:
            return tuple(columns[:key])
        if name == "keys":
            return tuple(columns[: key + 1 + self._has_ids])
        return tuple(columns)

    def read(
        self, name: str, frames: Sequence[pl.DataFrame], clock_us: int
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a state: at least one frame, which may be empty."""
        import polars as pl

        rows = pl.concat(frames, how="diagonal") if frames else self._nothing(name)
        if name == "keys":
            yield self._standing(rows)
        elif name == everywhere.RULES:
            yield self._rules(rows)
        elif name == VERSIONS:
            behind = {**self._at(RIGHT), **_until(rows)}
            yield self._shown(RIGHT, self._with_key(RIGHT, rows), behind)
        elif name == everywhere.WAITING:
            yield self._shown(LEFT, rows, self._at(LEFT))
        else:
            which = RIGHT if name.endswith(STATES[RIGHT]) else LEFT
            yield from self._filed(which, rows, clock_us, went_out=name.startswith(SHOWN))

    def _filed(
        self, which: int, rows: pl.DataFrame, clock_us: int, *, went_out: bool
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of one side that are filed under a time."""
        import polars as pl

        slot, window = pl.col(SLOT), self._meaning.window
        at = self._at(which)
        match self._join.matching:
            case Within(least_us=int(least), most_us=int(most), processing=processing):
                at = {**at, "came": slot} if processing else {"event_time": slot}
                at["until"] = slot + Bounds(least, most, self._join.type).kept_us(which)
            case AsOf():
                at = {"event_time": slot}
        if window is None or not window.bounded:
            yield self._shown(which, rows, at)
        elif isinstance(window.shape, Session):
            start_and_end = (pl.col(WAS[which]), slot - window.lateness_us - 1)
            bounds = dict(zip(nodes.BOUNDS, start_and_end, strict=True)) if went_out else {}
            yield self._shown(which, rows, {**bounds, **at})
        else:
            panes, bounds = Panes(window), {name: pl.col(name) for name in nodes.BOUNDS}
            for part in panes.windows(rows, self._inside, clock_us):
                yield self._shown(which, part.with_columns(panes.bounds()), bounds)

    def _standing(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the current rows of both inputs, each with the name of its input."""
        import polars as pl

        keyed, sides = self._with_key(LEFT, table), []
        for which, side in enumerate(self._sides):
            there = keyed.filter(pl.col(ROWS[which]).is_not_null())
            rows = there.explode(ROWS[which]).unnest(ROWS[which])
            told = {"side": pl.lit(side.name)}
            if self._has_ids:
                has = IDS[which] in rows.columns
                told["row"] = pl.col(IDS[which]) if has else pl.lit(None, dtype=pl.String())
            behind = {**self._at(which), **_until(table)}
            sides.append(self._of(which, rows, told, behind, self._join.left.key))
        whole = pl.concat(sides, how="diagonal")
        by = whole.columns[: len(self._inside)]
        return _named(whole.sort(by, maintain_order=True) if by else whole)

    def _rules(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the broadcast rows, each valid until another replaces it."""
        import polars as pl

        matching, side = self._join.matching, self._join.right
        assert isinstance(matching, Everywhere), "nothing else has rules"
        behind = self._at(RIGHT)
        if matching.in_time:
            rows = everywhere.held_until(rows, matching)
            behind["until"] = pl.col(everywhere.UNTIL)
            if matching.ttl_us is not None:  # the latest time of the row's validity
                last = pl.col(TIMES[RIGHT]) + matching.ttl_us
                behind["until"] = pl.min_horizontal(everywhere.UNTIL, last)
        shown = _inputs(side.key) | _inputs(side.columns)
        of = zip(matching.key or (), everywhere.replaced(matching), strict=True)
        told = {e.name: pl.col(name) for e, name in of if not _inputs([e]) & shown}
        return _named(self._of(RIGHT, rows, told, behind, side.key))

    def _shown(self, which: int, rows: pl.DataFrame, behind: Behind) -> pl.DataFrame:
        """Return the rows of a side, sorted by key and time."""
        key = self._sides[which].key
        found = self._of(which, rows, {}, behind, key)
        by = [*(each.name for each in key), *(_hidden(name) for name in behind)]
        return _named(found.sort(by, maintain_order=True) if by else found)

    def _of(
        self,
        which: int,
        rows: pl.DataFrame,
        told: Behind,
        behind: Behind,
        key: Sequence[nodes.Computed],
    ) -> pl.DataFrame:
        """Return the rows of a side: key, metadata, columns, times."""
        import polars as pl

        side, stamp = self._sides[which], to_polars(TIMESTAMP)
        taken = [each.name for each in key]
        columns = [pl.col(i).alias(name) for i, name in zip(self._inside, taken, strict=True)]
        for name, expr in told.items():
            taken.append(free(name, [*taken, *(c.name for s in self._sides for c in s.columns)]))
            columns.append(expr.alias(taken[-1]))
        for each in side.columns:
            if not _inputs([each]) & _inputs(side.key):
                taken.append(free(each.name, taken))
                columns.append(pl.col(each.name).alias(taken[-1]))
        for name, expr in behind.items():
            columns.append(expr.cast(stamp).alias(_hidden(name)))
        return rows.select(columns)

    def _at(self, which: int) -> dict[str, pl.Expr]:
        """Return the event time of a row, if it has one."""
        import polars as pl

        return {"event_time": pl.col(TIMES[which])} if self._meaning.timed[which] else {}

    def _with_key(self, which: int, table: pl.DataFrame) -> pl.DataFrame:
        """Add the columns of the key to the rows of a table."""
        keys = decoded(table[KEY], self._meaning.key.columns)
        inside = [each.alias(name) for each, name in zip(keys, self._inside, strict=True)]
        return table.hstack(inside)

    @property
    def _has_ids(self) -> bool:
        """Whether the rows of one key have ids."""
        layout = self._layouts["keys"]
        return any(id in row_types(layout, rows) for id, rows in zip(IDS, ROWS, strict=True))

    def _nothing(self, name: str) -> pl.DataFrame:
        """Return an empty state with the operator's schema."""
        import polars as pl

        layout, matching = self._layouts[name], self._join.matching
        forgets = isinstance(matching, AsOf) and matching.ttl_us is not None
        forgets |= isinstance(matching, Changing) and matching.ttl is not None
        until = {UNTIL: pl.Int64()} if forgets and KEY in layout else {}
        return pl.DataFrame(schema={**layout, **until})


def _until(table: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return when the rows of a table expire, if they do."""
    import polars as pl

    return {"until": pl.col(UNTIL)} if UNTIL in table.columns else {}


def _inputs(columns: Iterable[nodes.Computed]) -> set[str]:
    """Return the input columns that these columns are."""
    return {c.value.name for c in columns if isinstance(c.value, Column) and c.value.name}


def _hidden(name: str) -> str:
    return f"__{name}"


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """Move the times to the end, under names that no other column has."""
    return named(rows, [(_hidden(name), name) for name in BEHIND])
