"""The Polars forms of `maps`: lists of entries, and maps made of them.

A key that is NULL or occurs twice makes no map: the row fails, as in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.flat_arrays import (
    count_elements,
    flatten_arrays,
    group_elements,
    number_elements,
    number_rows,
)
from headrace.core.expressions.functions.array_element_forms import zip_arrays
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import STRING, Array, Field, MapType, Struct
from headrace.core.types.map_entries import KEY, VALUE

if TYPE_CHECKING:
    import polars as pl


def look_up(map: pl.Expr, key: pl.Expr) -> pl.Expr:
    """Return the value of a key; null if there is none, or if the key is null."""
    return map.map.get(key)


def build_pairs(type: MapType) -> PolarsForm:
    """Return the form of the entries of keys and values, which alternate."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        columns = frame.get_columns()
        pairs = zip(columns[::2], columns[1::2], strict=True)
        entries = [_build_entries(key, value) for key, value in pairs]
        return _join_rows(entries, [pl.ones(frame.height, pl.Int64, eager=True)] * len(entries))

    return compute_on_frame(compute, _get_entries_type(type))


def build_union(type: MapType) -> PolarsForm:
    """Return the form of the entries of all maps of a row; NULL where one of them is."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        maps = [map.map.entries() for map in frame]
        joined = _join_rows(
            [flatten_arrays(map) for map in maps], [count_elements(map) for map in maps]
        )
        given = pl.all_horizontal(map.is_not_null() for map in maps)
        return pl.select(pl.when(given).then(joined)).to_series()

    return compute_on_frame(compute, _get_entries_type(type))


def _build_entries(key: pl.Series, value: pl.Series) -> pl.Series:
    import polars as pl

    return pl.DataFrame([key.alias(KEY), value.alias(VALUE)]).to_struct()


def _join_rows(parts: Sequence[pl.Series], counts: Sequence[pl.Series]) -> pl.Series:
    """Return lists of the flat elements of each row in all parts, one part after the other."""
    import polars as pl

    sizes = pl.DataFrame({str(at): count for at, count in enumerate(counts)})
    total = sizes.sum_horizontal()
    start = total.cum_sum() - total
    places = []
    for count in counts:
        places.append(start.gather(number_rows(count)) + number_elements(count))
        start = start + count
    flat = pl.concat([part.alias("entry") for part in parts])
    return group_elements(flat.gather(pl.concat(places).arg_sort()), total)


def build_pairing(type: MapType) -> PolarsForm:
    """Return the form of the entries of an array of keys and one of values, of the same length."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        keys, values = pl.col("a0"), pl.col("a1")
        paired = pl.when(keys.list.len() == values.list.len())
        frame = frame.select(a0=paired.then(keys), a1=paired.then(values))
        return zip_arrays([frame["a0"], frame["a1"]], (KEY, VALUE))

    return compute_on_frame(compute, _get_entries_type(type))


def build_entries(names: Sequence[str]) -> PolarsForm:
    """Return the form of the entries in an array of structs with a key and a value of these names;
    NULL where one of the structs is."""
    import polars as pl

    first, second = (pl.element().struct.field(name) for name in names)
    entry = pl.struct(first.alias(KEY), second.alias(VALUE))

    def form(array: pl.Expr) -> pl.Expr:
        given = ~array.list.eval(pl.element().is_null()).list.any()
        return pl.when(given).then(array.list.eval(entry))

    return form


def _get_entries_type(type: MapType) -> Array:
    return Array(Struct((Field(KEY, type.key), Field(VALUE, type.value))))


def build_map(type: MapType, entries: PolarsForm) -> PolarsForm:
    """Return the form of the maps of entries; it is NULL where `explain_keys` gives a reason."""
    from headrace.core.expressions.batch_forms import compute_on_column

    make = compute_on_column(make_maps, type)
    return lambda *arguments: make(entries(*arguments))


def build_key_check(entries: PolarsForm) -> PolarsForm:
    """Return the form of the reason why entries make no map."""
    from headrace.core.expressions.batch_forms import compute_on_column

    explain = compute_on_column(explain_keys, STRING)
    return lambda *arguments: explain(entries(*arguments))


def explain_keys(entries: pl.Series) -> pl.Series:
    """Return the reason why a list of entries makes no map: a key is NULL or occurs twice."""
    import polars as pl

    wrong = entries.is_not_null() & make_maps(entries).is_null()
    reasons = [_find_wrong_key(keys) for keys in _list_keys(entries.filter(wrong))]
    places = wrong.cast(pl.Int64).cum_sum() - 1
    texts = pl.Series([*reasons, None], dtype=pl.String)
    return pl.select(pl.when(wrong).then(texts.gather(places.clip(0)))).to_series()


def _list_keys(entries: pl.Series) -> list[list[object]]:
    import polars as pl

    keys = pl.first().list.eval(pl.element().struct.field(KEY))
    return entries.to_frame().select(keys).to_series().to_list()


def _find_wrong_key(keys: Sequence[object]) -> str:
    if None in keys:
        return "a key of the map is NULL"
    twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
    return "a key of the map occurs twice" if twice is None else f"the key {twice} occurs twice"


def make_maps(entries: pl.Series) -> pl.Series:
    """Return the maps of lists of entries; null for null keys and for keys that occur twice."""
    import polars as pl

    name = entries.name
    null_keys = pl.first().list.eval(pl.element().struct.field(KEY).is_null()).list.any()
    has_null = entries.to_frame().select(null_keys).to_series()
    if has_null.any():
        entries = entries.to_frame().select(pl.when(~has_null).then(pl.first())).to_series()
    maps = _type_keys(entries).list.to_map()
    distinct = maps.map.len() == entries.list.len()
    if distinct.all():
        return maps.alias(name)
    return pl.select(pl.when(distinct).then(maps).alias(name)).to_series()


def _type_keys(entries: pl.Series) -> pl.Series:
    """Return the entries with keys of a type: those of empty maps may have none."""
    import polars as pl

    assert isinstance(entries.dtype, pl.List) and isinstance(entries.dtype.inner, pl.Struct)
    fields = pl.Schema(entries.dtype.inner)
    if fields[KEY] != pl.Null:
        return entries
    return entries.cast(pl.List(pl.Struct({**fields, KEY: pl.Boolean()})))


def split_entries(parts: pl.Expr, separator: str) -> pl.Expr:
    """Split each text at the first separator into the key and the value of an entry."""
    import polars as pl

    halves = pl.element().str.splitn(separator, 2)
    fields = [halves.struct.field(f"field_{at}").alias(n) for at, n in enumerate((KEY, VALUE))]
    return parts.list.eval(pl.struct(fields))
