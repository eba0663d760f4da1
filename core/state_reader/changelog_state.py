"""The state of steps that read a changelog: the result of each group, and its current rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import EXPIRY, KEY, SLOT
from headrace.core.operators.changelog.aggregate import EMITTED_ROW, get_output_columns
from headrace.core.operators.changelog.change_rows import get_counted_types
from headrace.core.operators.changelog.conversion import (
    CURRENT_ROW,
    LIST_PREFIX,
    explode_rows,
)
from headrace.core.operators.changelog.ordered_pages import GROUP, PAGE
from headrace.core.operators.changelog.retraction_top import get_ranked_columns
from headrace.core.operators.changelog.rows import (
    IS_DELETE,
    NEWEST_TIME,
    ROW_ID,
    VERSION,
    select_newest,
)
from headrace.core.operators.changelog.tied_top import compute_ranks
from headrace.core.operators.changelog.top import IS_COMPLETE, RERANK_AFTER
from headrace.core.operators.changelog.weighted_rows import consolidate, repeat_rows
from headrace.core.operators.folds import get_row_types
from headrace.core.operators.running_results import BEST_ROWS
from headrace.core.plan import nodes
from headrace.core.state_reader.columns import explode_stored_rows, make_unique_name
from headrace.core.state_reader.state_schema import StateSchema
from headrace.core.types.data_types import TIMESTAMP, quote_name, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER, WEIGHT

if TYPE_CHECKING:
    import polars as pl


def build_group_columns(
    meaning: StateSchema, row: dict[str, pl.DataType]
) -> dict[str, pl.DataType]:
    """Return the columns that are stored of a group; `row` are those of stored rows."""
    import polars as pl

    match meaning.operation:
        case nodes.ChangelogConversion(output="retract"):
            return {CURRENT_ROW: pl.Struct(row)}
        case nodes.ChangelogConversion():
            stored = {**row, WEIGHT: pl.Int64()}
            return {f"{LIST_PREFIX}{name}": pl.List(type) for name, type in stored.items()}
        case nodes.Top() as top if top.stores_pages:
            best = {BEST_ROWS: pl.List(pl.Struct(row)), NEWEST_TIME: to_polars(TIMESTAMP)}
            return {**best, **get_ranked_columns(row)}
    if isinstance(meaning.operation, nodes.Top):
        best = {
            BEST_ROWS: pl.List(pl.Struct({**row, ROW_ID: pl.String()})),
            NEWEST_TIME: to_polars(TIMESTAMP),
        }
        return {**best, IS_COMPLETE: pl.Boolean(), VERSION: pl.Int64(), RERANK_AFTER: pl.Int64()}
    assert isinstance(meaning.operation, nodes.Aggregate), "nothing else reads changes"
    return {
        EMITTED_ROW: pl.Struct(get_output_columns(meaning.operation)),
        NEWEST_TIME: to_polars(TIMESTAMP),
    }


def read_groups(meaning: StateSchema, table: pl.DataFrame) -> pl.DataFrame:
    """Return the emitted rows of each group; `table` has the columns of the key in front."""
    import polars as pl

    if isinstance(meaning.operation, nodes.ChangelogConversion):
        return _read_converted_rows(meaning, table)
    if meaning.group_ttl_us is not None:
        until = pl.col(NEWEST_TIME).cast(pl.Int64) + meaning.group_ttl_us
        table = table.with_columns(until.alias(EXPIRY))
    if isinstance(meaning.operation, nodes.Top):
        pages = get_ranked_columns(get_row_types(table.schema, BEST_ROWS))
        shown = table.drop(pages, strict=False)
        ranks = None
        if meaning.operation.has_ties:
            ranks = _list_ranks(shown, meaning.operation)
        else:  # a list may have more rows
            shown = shown.with_columns(pl.col(BEST_ROWS).list.head(meaning.operation.rows))
        names = meaning.key.names
        rows = explode_stored_rows(shown, BEST_ROWS, meaning.key, names, "rank", ranks)
        if time := meaning.operation.time_column:  # of its single row
            rows = rows.with_columns(pl.col(time).alias(NEWEST_TIME)).drop(
                time, rows.columns[len(names)]
            )
        return rows.drop(ROW_ID, IS_COMPLETE, VERSION, RERANK_AFTER, strict=False)
    times = [name for name in (NEWEST_TIME, EXPIRY) if name in table.columns]
    emitted = table.filter(pl.col(EMITTED_ROW).is_not_null())
    rows = emitted.select(EMITTED_ROW, *times).unnest(EMITTED_ROW)
    return rows.drop(meaning.hidden_aggregates, strict=False)


def _list_ranks(groups: pl.DataFrame, top: nodes.Top) -> pl.Series:
    """Return the lists of the ranks of the emitted rows of each group."""
    import polars as pl

    rows = groups.select(BEST_ROWS).with_row_index(GROUP).explode(BEST_ROWS, empty_as_null=False)
    rows = rows.unnest(BEST_ROWS).with_columns(pl.lit(1, dtype=pl.Int64).alias(WEIGHT))
    ranks = rows.select(GROUP).hstack([compute_ranks(rows, top)])
    lists = ranks.group_by(GROUP, maintain_order=True).agg(nodes.RANK_COLUMN)
    numbered = groups.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias(GROUP))
    joined = numbered.join(lists, on=GROUP, how="left", maintain_order="left")
    return joined.select(pl.col(nodes.RANK_COLUMN).fill_null([])).to_series()


def _read_converted_rows(meaning: StateSchema, table: pl.DataFrame) -> pl.DataFrame:
    """Return the current row of each key."""
    if CURRENT_ROW in table.columns:
        rows = table.select(CURRENT_ROW).unnest(CURRENT_ROW)
    else:
        lists = [name for name in table.columns if name.startswith(LIST_PREFIX)]
        rows = repeat_rows(explode_rows(table.select(lists)))
    names = [*meaning.key.names, *(n for n in rows.columns if n not in meaning.key.names)]
    return rows.select(names).drop(ORDER, strict=False)


def build_row_columns(
    meaning: StateSchema, key: dict[str, pl.DataType], row: dict[str, pl.DataType]
) -> dict[str, pl.DataType]:
    """Return the columns with which rows are stored."""
    import polars as pl

    if isinstance(meaning.operation, nodes.ChangelogConversion):
        counted = get_counted_types(meaning.operation)
        return {**key, **counted, WEIGHT: pl.Int64(), SLOT: pl.Int64()}
    if _is_weighted(meaning):
        return {**key, **row, WEIGHT: pl.Int64(), SLOT: pl.Int64()}
    return {**key, **row, ROW_ID: pl.String(), IS_DELETE: pl.Boolean(), SLOT: pl.Int64()}


def build_value_columns(
    meaning: StateSchema, key: dict[str, pl.DataType], name: str
) -> dict[str, pl.DataType]:
    """Return the columns of the pages of counted values in the state of that name."""
    values = {field.name: to_polars(field.type) for field in meaning.value_columns[name]}
    return build_page_columns(key, values)


def build_page_columns(
    key: dict[str, pl.DataType], row: dict[str, pl.DataType]
) -> dict[str, pl.DataType]:
    """Return the columns of pages of such rows."""
    import polars as pl

    lists = {f"{LIST_PREFIX}{n}": pl.List(t) for n, t in {**row, WEIGHT: pl.Int64()}.items()}
    return {KEY: pl.String(), **key, PAGE: pl.Int64(), **lists}


def read_counted_values(
    meaning: StateSchema, inside: Sequence[str], pages: pl.DataFrame
) -> pl.DataFrame:
    """Return the values of each key with their counts; the key comes first."""
    import polars as pl

    rows = explode_rows(pages.drop(KEY, PAGE)).drop(ORDER, strict=False)
    columns = [name for name in rows.columns if name != WEIGHT]
    counted = rows.group_by(columns).agg(pl.col(WEIGHT).sum()) if columns else rows
    used, shown = [*meaning.key.names], []
    for name in (*(n for n in columns if n not in inside), WEIGHT):
        text = "count" if name == WEIGHT else name.removeprefix("__")
        used.append(make_unique_name(text, used))
        shown.append(pl.col(name).alias(used[-1]))
    key = [pl.col(k).alias(n) for k, n in zip(inside, meaning.key.names, strict=True)]
    found = counted.filter(pl.col(WEIGHT) != 0).select(*key, *shown)
    return found.sort(found.columns[:-1]) if found.width > 1 else found


def read_current_rows(
    meaning: StateSchema, inside: Sequence[str], rows: pl.DataFrame
) -> pl.DataFrame:
    """Return the current rows, those of upserts with their id; the key comes first."""
    import polars as pl

    if PAGE in rows.columns:
        rows = explode_rows(rows.drop(KEY, PAGE))
    if WEIGHT in rows.columns:
        rows = repeat_rows(consolidate(rows))
    if IS_DELETE in rows.columns:
        rows = select_newest(rows)
        rows = rows.filter(~rows[IS_DELETE])
    if isinstance(meaning.operation, nodes.Top) and (time := meaning.operation.time_column):
        rows = rows.with_columns(pl.col(time).alias(EVENT_TIME)).drop(time)
    shown = add_key_columns(meaning, inside, rows.drop(ORDER, SLOT, IS_DELETE, strict=False))
    return shown.sort(shown.columns[: len(inside) + 1])


def add_key_columns(
    meaning: StateSchema, inside: Sequence[str], rows: pl.DataFrame
) -> pl.DataFrame:
    """Return rows with the columns of their key in front, under their names."""
    import polars as pl

    names, used_names = meaning.key.names, [*meaning.key.names]
    same = {
        n for n, text in zip(names, meaning.key.expressions, strict=True) if text == quote_name(n)
    }
    shown = [pl.col(k).alias(n) for k, n in zip(inside, names, strict=True)]
    if ROW_ID in rows.columns:
        used_names.append(make_unique_name("row", used_names))
        shown.append(pl.col(ROW_ID).alias(used_names[-1]))
    for name in (n for n in rows.columns if n not in (*inside, *same, EVENT_TIME, ROW_ID)):
        used_names.append(make_unique_name(name, used_names))
        shown.append(pl.col(name).alias(used_names[-1]))
    return rows.select(*shown, *(n for n in (EVENT_TIME,) if n in rows.columns))


def _is_weighted(meaning: StateSchema) -> bool:
    """Whether the stored rows have weights."""
    operation = meaning.operation
    return isinstance(operation, nodes.Aggregate | nodes.Top) and operation.reads_retractions
