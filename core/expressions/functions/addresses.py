"""Parts of addresses (URLs): `parse_url`."""

from __future__ import annotations

import re
from functools import partial

from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import ExpressionError, PolarsForm


def _find_value(key: re.Pattern[str], text: str, part: str) -> str | None:
    """Return the value of a key of the query."""
    from headrace.core.expressions.functions.address_parser import find_address_part

    query = find_address_part(text, part) if part == "QUERY" else None
    found = key.search(query) if query else None
    return found[1] if found else None


def _build_find_part(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values
    from headrace.core.expressions.functions.address_parser import find_address_part

    return map_values(find_address_part, bound.result)


def _build_find_value(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    key = bound.constants[2]
    assert isinstance(key, str)
    if re.search(r"[\\^$|?*+()\[\]{}]", key):
        message = f"a key of a query is plain text, got {key!r}"
        raise ExpressionError(
            message, bound.arguments[2].span, "write its letters and digits, as in 'id'"
        )
    pattern = re.compile(rf"(?:&|^){key}=([^&]*)")
    form = map_values(partial(_find_value, pattern), bound.result)
    return lambda text, part, _: form(text, part)


def _overloads(name: str) -> tuple[Overload, Overload]:
    return (
        overload(f"{name}(address: string, part: string) -> string", build=_build_find_part),
        overload(
            f"{name}(address: string, part: string, key: constant string) -> string",
            build=_build_find_value,
        ),
    )


ADDRESSES: tuple[SqlFunction, ...] = (
    function(
        "parse_url",
        "encodings",
        "A part of an address: 'PROTOCOL', 'AUTHORITY', 'USERINFO', 'HOST', 'PATH', 'QUERY', 'REF',"
        " or 'FILE', which is path and query; with a key, its value in the query. NULL if there is"
        " none, or if the text is no address. It takes some 3 us a row, as Python parses each.",
        *_overloads("parse_url"),
        example=("parse_url('http://spark.apache.org/path?query=1', 'HOST')", "spark.apache.org"),
        more=(("parse_url('http://h/?a=1&b=2', 'QUERY', 'b')", "2"),),
        aliases=("try_parse_url",),
    ),
)
"""The functions of addresses."""
