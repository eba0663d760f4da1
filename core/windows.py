"""What users make their own windows of: `from headrace.core.windows import Aggregate`.

    class Spread(Aggregate):
        state = {"low": "double", "high": "double"}

        def partial(self, amounts):
            return {"low": amounts.min(), "high": amounts.max()}

        def merge(self, partials):
            return {
                "low": min((p["low"] for p in partials if p["low"] is not None), default=None),
                "high": max((p["high"] for p in partials if p["high"] is not None), default=None),
            }

        def finish(self, partial):
            return None if partial["low"] is None else partial["high"] - partial["low"]

The pipeline names the file and the class: `spread: {python: w.py:Spread, of: [amount], returns:
double}`. There is a call for each group of rows, never for each row, and columns are Polars' own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Window:
    """Which key and window rows are of: the columns of the key, and from when until when.

    A window of a number of rows, or of all rows, has no start and no end.
    """

    key: Mapping[str, Any]
    start: datetime | None
    end: datetime | None


NOTHING: Mapping[str, str] = MappingProxyType({})


class Aggregate(Generic[P]):
    """An aggregate of a user: `partial` of rows, `merge` of partials, `finish` of the last one.

    Rows come in pieces, and what is kept of a group between them is its partial. Pieces are merged
    in any order and grouping, so the result must not depend on either.

    `state` names and types the columns of a partial, as in `{"n": "bigint", "all":
    "array<double>"}`; it stands in the class itself, as plain text. A partial is then a dict of
    these: arrays are Series (a list will do as well), all else plain values. Without `state` a
    partial is anything that JSON has, and is kept as such.

    There is one object for all groups, and several threads may call it: it keeps nothing of them.
    """

    state: ClassVar[Mapping[str, str]] = NOTHING

    def partial(self, *columns: Any, **_: Any) -> P:
        """What is kept of some rows of a group: the columns of `of`, a Series each, perhaps empty.

        The rows come in no order.
        """
        raise NotImplementedError

    def merge(self, partials: Sequence[P]) -> P:
        """One partial of several."""
        raise NotImplementedError

    def finish(self, partial: P) -> object:
        """The result, of the type that `returns` says; None is null."""
        raise NotImplementedError


class Trigger:
    """When windows of a user fire before they end: `on_rows` looks at the rows that come to each.

    `state` names and types what is kept of a key and window, and stands in the class itself, as
    plain text. What is kept is None at first, and is forgotten with the window.

    There is one object for all windows, and several threads may call it: it keeps nothing of them.
    """

    state: ClassVar[Mapping[str, str]] = NOTHING

    def on_rows(self, rows: Any, state: dict[str, Any], window: Window) -> bool:
        """Whether the window fires, now that these rows of its key have come to it.

        `rows` is a DataFrame of those of a batch, however many come at once; `state` is what is
        kept, to be changed in its place.
        """
        raise NotImplementedError
