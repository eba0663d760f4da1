"""Functions of JSON texts: parts of them by path, lengths, names.

Each text is parsed by orjson, in Python: 1 to 2 microseconds a row. Polars reads JSON in columns
faster, but neither as leniently as Jackson does, nor with the digits that Jackson writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import Constant, PolarsForm

if TYPE_CHECKING:
    import polars as pl


def _build_get_json_object(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column, map_values
    from headrace.core.expressions.json.json_path import JsonExtractor, extract_json, parse_path

    path = bound.arguments[1]
    if not isinstance(path, Constant):
        return map_values(extract_json, bound.result)
    import polars as pl

    steps = parse_path(path.value) if isinstance(path.value, str) else None
    if steps is None:
        return lambda text, path: pl.lit(None, dtype=pl.String)
    extractor = JsonExtractor(steps)
    form = compute_on_column(lambda column: _map_texts(extractor.extract, column), bound.result)
    return lambda text, path: form(text)


def _map_texts(compute: Callable[[str | None], str | None], column: pl.Series) -> pl.Series:
    import polars as pl

    return pl.Series(column.name, [*map(compute, column.to_list())], dtype=pl.String)


_SLICE = 4096
"""The rows whose lists exist as Python objects at a time: more make its garbage collector slow."""


def _map_slices(compute: Callable[[str], list[str] | None], column: pl.Series) -> pl.Series:
    """Compute lists of texts, null where the text is."""
    import polars as pl

    found = pl.Series(column.name, [], dtype=pl.List(pl.String))
    for part in column.to_frame().iter_slices(_SLICE):
        texts = part.to_series().to_list()
        lists = [None if text is None else compute(text) for text in texts]
        found.append(pl.Series(lists, dtype=pl.List(pl.String)))
    return found.rechunk()


def _build_array_length(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values
    from headrace.core.expressions.json.json_reader import count_elements

    return map_values(count_elements, bound.result)


def _build_object_keys(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column
    from headrace.core.expressions.json.json_reader import list_names

    return compute_on_column(lambda column: _map_slices(list_names, column), bound.result)


JSON_TEXTS: tuple[SqlFunction, ...] = (
    function(
        *(
            "get_json_object",
            "json",
            "What a path finds in a JSON text, as text; NULL if that is nothing, or the text is"
            " not JSON. A path is $ and steps: .name, ['name'], [0], or [*] for all elements.",
        ),
        overload(
            "get_json_object(text: string, path: string) -> string", build=_build_get_json_object
        ),
        example=("get_json_object('{\"a\":{\"b\":[1, 2.50]}}', '$.a.b[1]')", "2.5"),
        more=(('get_json_object(\'[{"a":"b"},{"a":"c"}]\', \'$[*].a\')', '["b","c"]'),),
    ),
    function(
        *(
            "json_array_length",
            "json",
            "The number of elements of a JSON array; NULL if the text is not one.",
        ),
        overload("json_array_length(text: string) -> int", build=_build_array_length),
        example=('json_array_length(\'[1,2,3,{"f1":1,"f2":[5,6]},4]\')', "5"),
    ),
    function(
        *(
            "json_object_keys",
            "json",
            "The names of the members of a JSON object; NULL if the text is not one.",
        ),
        overload("json_object_keys(text: string) -> array<string>", build=_build_object_keys),
        example=('json_object_keys(\'{"f1":"abc","f2":{"f3":"a"}}\')', "[f1, f2]"),
    ),
)
"""The functions of JSON texts that need no schema."""
