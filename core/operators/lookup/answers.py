"""Lookup answers as columns, one row for each requested key in their order, and their cache.

Misses are cached as well, so a key that the table lacks is not requested each time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from headrace.core.api.lookup_tables import LOOKUP_KEY_INDEX, ROW_ERROR
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema, to_polars

if TYPE_CHECKING:
    import polars as pl


IS_FOUND = "__found"
"""The column that is true if the table has a row for the key; null after an error."""


ERROR = ROW_ERROR
"""The column with the error of the key's lookup; null if it succeeded."""


def build_answers(keys: int, table_rows: pl.DataFrame, lookup: nodes.Lookup) -> pl.DataFrame:
    """Build the answer for each of `keys` keys from the rows that the table returned."""
    import polars as pl

    places = pl.Series([None], dtype=pl.UInt32).new_from_index(0, keys)
    if table_rows.height:
        rows = pl.int_range(table_rows.height, dtype=pl.UInt32, eager=True)
        places = places.scatter(table_rows[LOOKUP_KEY_INDEX].to_list(), rows)
    if ERROR not in table_rows.columns:
        table_rows = table_rows.with_columns(pl.lit(None, dtype=pl.String).alias(ERROR))
    names = (*lookup.added_schema.names, ERROR)
    answers = table_rows.select(pl.col(name).gather(places) for name in names)
    answers.insert_column(0, places.is_not_null().alias(IS_FOUND))
    return _add_null_errors(answers, lookup.added_schema)


def _add_null_errors(answers: pl.DataFrame, added: Schema) -> pl.DataFrame:
    """Add an error to each answer with a null in a column declared not null."""
    import polars as pl

    error = pl.col(ERROR)
    for field in added:
        if not field.nullable:
            message = f'the table has null in "{field.name}", which is declared not null'
            is_null = pl.col(IS_FOUND) & pl.col(field.name).is_null() & pl.col(ERROR).is_null()
            error = pl.when(is_null).then(pl.lit(message)).otherwise(error)
    return answers.with_columns(error.alias(ERROR))


def build_failed_answers(keys: int, lookup: nodes.Lookup, why: str) -> pl.DataFrame:
    """Build the answers for the keys of a failed call."""
    import polars as pl

    columns = [pl.lit(None, dtype=pl.Boolean).alias(IS_FOUND)]
    columns += [pl.lit(None, dtype=to_polars(f.type)).alias(f.name) for f in lookup.added_schema]
    one = pl.select(*columns, pl.lit(why).alias(ERROR))
    return one.select(pl.all().gather(pl.repeat(0, keys, dtype=pl.UInt32, eager=True)))


def assemble_answers(
    keys: int, parts: Sequence[tuple[Sequence[int], pl.DataFrame]]
) -> pl.DataFrame:
    """Assemble the answers for all keys, in order, from parts with the indices of their keys."""
    import polars as pl

    if len(parts) == 1 and list(parts[0][0]) == list(range(keys)):
        return parts[0][1]
    which = pl.Series([at for ats, _ in parts for at in ats], dtype=pl.UInt32)
    rows = pl.int_range(keys, dtype=pl.UInt32, eager=True)
    places = pl.Series([0], dtype=pl.UInt32).new_from_index(0, keys).scatter(which, rows)
    return pl.concat([answers for _, answers in parts]).select(pl.all().gather(places))


MAX_CHUNKS = 64
"""The largest number of chunks of the frame before they are merged into one."""


MIN_COMPACT_ROWS = 1024
"""Below this number of rows, removing those of evicted keys is not worth the effort."""


class LookupCache:
    """Caches the answers of at most `rows` keys, each for `ttl_s`; `rows=0` caches nothing."""

    def __init__(self, rows: int, ttl_s: float) -> None:
        self._max_rows = rows
        self._ttl_s = ttl_s
        self._entries: dict[Hashable, tuple[float, int]] = {}
        """The expiry and the row index of each key, least recently used first."""
        self._answers: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, keys: Sequence[Hashable], now: float) -> tuple[list[int], list[int]]:
        """Return the indices of the cached keys, and the row index of each."""
        which, rows, known = list[int](), list[int](), self._entries
        if not known:
            return which, rows
        for at, key in enumerate(keys):
            entry = known.get(key)
            if entry is None:
                continue
            del known[key]
            if entry[0] > now:
                known[key] = entry
                which.append(at)
                rows.append(entry[1])
        return which, rows

    def get_answers(self, rows: Sequence[int]) -> pl.DataFrame:
        """Return the answers at these row indices."""
        assert self._answers is not None
        return self._answers[rows]

    def store(self, keys: Sequence[Hashable], answers: pl.DataFrame, now: float) -> None:
        """Store the answers for these keys, in the order of the keys; evict the oldest."""
        if not self._max_rows:
            return
        first = 0 if self._answers is None else self._answers.height
        until = now + self._ttl_s
        for at, key in enumerate(keys):
            self._entries.pop(key, None)
            self._entries[key] = (until, first + at)
        for key in list(self._entries)[: max(len(self._entries) - self._max_rows, 0)]:
            del self._entries[key]
        self._answers = answers if self._answers is None else self._answers.vstack(answers)
        self._compact()

    def _compact(self) -> None:
        """Remove the rows of evicted keys, and merge small chunks."""
        assert self._answers is not None
        if self._answers.height > 2 * max(len(self._entries), MIN_COMPACT_ROWS):
            rows = [row for _, row in self._entries.values()]
            self._answers = self._answers[rows]
            self._entries = {
                key: (until, at) for at, (key, (until, _)) in enumerate(self._entries.items())
            }
        elif self._answers.n_chunks() > MAX_CHUNKS:
            self._answers = self._answers.rechunk()
