"""The classes and functions of a user, whom the tests of windows name; they are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import polars as pl

from headrace import Aggregate, Trigger, Window


class Total(Aggregate[dict[str, int]]):
    """The sum of a column, with how many values it is of."""

    state: ClassVar = {"n": "bigint", "total": "bigint"}

    def partial(self, values: pl.Series) -> dict[str, int]:
        return {"n": values.len(), "total": int(values.sum())}

    def merge(self, partials: Sequence[dict[str, int]]) -> dict[str, int]:
        return {name: sum(each[name] for each in partials) for name in ("n", "total")}

    def finish(self, partial: dict[str, int]) -> str:
        return f"{partial['total']} of {partial['n']}"


class Median(Aggregate[dict[str, pl.Series]]):
    """The lower median of whole numbers; all of them are kept."""

    state: ClassVar = {"values": "array<bigint>"}

    def partial(self, values: pl.Series) -> dict[str, pl.Series]:
        return {"values": values.drop_nulls()}

    def merge(self, partials: Sequence[dict[str, pl.Series]]) -> dict[str, pl.Series]:
        return {"values": pl.concat([each["values"] for each in partials])}

    def finish(self, partial: dict[str, pl.Series]) -> object:
        return partial["values"].quantile(0.5, "lower")


class Words(Aggregate[list[str]]):
    """The texts of one column with the least number of another, as JSON."""

    def partial(self, words: pl.Series, numbers: pl.Series) -> list[Any]:
        return [sorted(word for word in set(words) if word is not None), numbers.min()]

    def merge(self, partials: Sequence[list[Any]]) -> list[Any]:
        least = min((n for _, n in partials if n is not None), default=None)
        return [sorted({word for words, _ in partials for word in words}), least]

    def finish(self, partial: list[Any]) -> str:
        return f"{' '.join(partial[0])} {partial[1]}"


def spread(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with their number, every second one."""
    numbered = rows.select("v", "s", at=pl.int_range(pl.len(), dtype=pl.Int64))
    return numbered.filter(pl.col("at") % 2 == 0)


def brief(rows: pl.DataFrame) -> list[dict[str, object]] | dict[str, object] | None:
    """One row of the numbers in their order; of few rows none."""
    numbers = rows["v"].to_list()
    return {"text": f"{numbers}", "n": len(numbers)} if len(numbers) > 1 else None


def small(rows: pl.DataFrame) -> pl.Series:
    """The rows whose number is small or unknown."""
    return rows["v"].fill_null(0) < 2


class Odd:
    """Every second row."""

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.gather_every(2)


class EveryThree(Trigger):
    """Each time the values that have come add up to three more."""

    state: ClassVar = {"seen": "bigint"}

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        assert window.start is None or window.end is not None
        state["seen"] = (state["seen"] or 0) + abs(row["v"] or 0)
        if state["seen"] < 3:
            return False
        state["seen"] = 0
        return True
