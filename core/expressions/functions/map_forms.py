"""The Polars forms of `maps`: lists of entries, and maps made of them.

Where Spark fails on a key that is NULL or occurs twice, the map is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import PolarsForm
from headrace.core.types.data_types import MapType, to_polars
from headrace.core.types.map_entries import KEY, VALUE

if TYPE_CHECKING:
    import polars as pl


def look_up(map: pl.Expr, key: pl.Expr) -> pl.Expr:
    """Return the value of a key; null if there is none, or if the key is null."""
    return map.map.get(key)


def build_map(type: MapType) -> PolarsForm:
    """Return the form of a map of keys and values, which alternate."""
    import polars as pl

    from headrace.core.expressions.batch_forms import compute_on_column

    make = compute_on_column(make_maps, type)

    def form(*parts: pl.Expr) -> pl.Expr:
        if not parts:
            return pl.lit({}, dtype=to_polars(type))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        entries = [pl.struct(key.alias(KEY), value.alias(VALUE)) for key, value in pairs]
        return make(pl.concat_list(entries))

    return form


def build_concatenation(type: MapType) -> PolarsForm:
    """Return the form of the map of all entries of maps."""
    import polars as pl

    from headrace.core.expressions.batch_forms import compute_on_column

    make = compute_on_column(make_maps, type)
    return lambda *maps: make(pl.concat_list([map.map.entries() for map in maps]))


def build_map_of_arrays(type: MapType) -> PolarsForm:
    """Return the form of the map of an array of keys and one of values, of the same length."""
    from headrace.core.expressions.batch_forms import compute_on_frame

    def compute(frame: pl.DataFrame) -> pl.Series:
        import polars as pl

        keys, values = pl.col("a0"), pl.col("a1")
        paired = pl.when(keys.list.len() == values.list.len())
        frame = frame.select(a0=paired.then(keys), a1=paired.then(values))
        return make_maps(zip_lists([frame["a0"], frame["a1"]], (KEY, VALUE)))

    return compute_on_frame(compute, type)


def build_map_of_entries(type: MapType, names: Sequence[str]) -> PolarsForm:
    """Return the form of the map of an array of structs of two fields; of these names."""
    import polars as pl

    from headrace.core.expressions.batch_forms import compute_on_column

    make = compute_on_column(make_maps, type)
    first, second = (pl.element().struct.field(name) for name in names)
    entry = pl.struct(first.alias(KEY), second.alias(VALUE))
    return lambda array: make(array.list.eval(entry))


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


def zip_lists(lists: Sequence[pl.Series], names: Sequence[str]) -> pl.Series:
    """Return lists of structs of the elements at the same position, as long as the longest list;
    null where one of the lists is."""
    import polars as pl

    lengths = [each.list.len().cast(pl.Int64) for each in lists]
    longest = pl.select(
        pl.when(pl.all_horizontal(length.is_not_null() for length in lengths)).then(
            pl.max_horizontal(*lengths)
        )
    ).to_series()
    positions = pl.select(pl.int_ranges(0, longest)).to_series()
    fields = [
        _pick_elements(each, length, positions).alias(name)
        for each, length, name in zip(lists, lengths, names, strict=True)
    ]
    flat = pl.DataFrame(fields).to_struct()
    ends = longest.fill_null(0).cum_sum()
    indices = pl.select(pl.int_ranges(ends - longest, ends)).to_series()
    return gather_in_lists(flat, indices)


def _pick_elements(values: pl.Series, lengths: pl.Series, positions: pl.Series) -> pl.Series:
    """Return the elements at these positions of all lists as one column; null beyond the end."""
    import polars as pl

    flat = values.filter(lengths > 0).explode()
    ends = lengths.fill_null(0).cum_sum()
    rows = pl.DataFrame(
        [positions.alias("at"), lengths.alias("length"), (ends - lengths).alias("start")]
    )
    rows = rows.filter(pl.col("at").list.len() > 0).explode("at")
    index = rows.select(
        pl.when(pl.col("at") < pl.col("length")).then(pl.col("start") + pl.col("at"))
    )
    return flat[index.to_series()]


def gather_in_lists(flat: pl.Series, indices: pl.Series) -> pl.Series:
    """Replace the indices in lists by the values there."""
    import polars as pl

    def pick(index: pl.Series) -> pl.Series:
        return flat[index]

    picked = pl.element().map_batches(pick, return_dtype=flat.dtype, is_elementwise=True)
    return indices.to_frame().select(pl.first().list.eval(picked)).to_series()


def split_entries(parts: pl.Expr, separator: str) -> pl.Expr:
    """Split each text at the first separator into the key and the value of an entry."""
    import polars as pl

    halves = pl.element().str.splitn(separator, 2)
    fields = [halves.struct.field(f"field_{at}").alias(n) for at, n in enumerate((KEY, VALUE))]
    return parts.list.eval(pl.struct(fields))
