"""Lookup answers as columns: one row for each requested key, in the order of the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.contracts import LOOKUP_KEY_INDEX, ROW_ERROR
from headrace.core.plan import nodes
from headrace.core.types import Schema, to_polars

if TYPE_CHECKING:
    import polars as pl

IS_FOUND = "__found"
"""The column that is true if the table has a row for the key; null after an error."""
ERROR = ROW_ERROR
"""The column with the error of the key's lookup; null if it succeeded."""


def build_answers(keys: int, found: pl.DataFrame, lookup: nodes.Lookup) -> pl.DataFrame:
    """Build the answer for each of `keys` keys from the rows that the table returned."""
    import polars as pl

    places = pl.Series([None], dtype=pl.UInt32).new_from_index(0, keys)
    if found.height:
        rows = pl.int_range(found.height, dtype=pl.UInt32, eager=True)
        places = places.scatter(found[LOOKUP_KEY_INDEX].to_list(), rows)
    if ERROR not in found.columns:
        found = found.with_columns(pl.lit(None, dtype=pl.String).alias(ERROR))
    names = (*lookup.added_schema.names, ERROR)
    answers = found.select(pl.col(name).gather(places) for name in names)
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
