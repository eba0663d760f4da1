"""The part of JSON Schema that the document's schema uses, so that tests need no library."""

from __future__ import annotations

import re
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}


def fits(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a schema allows a value. An unknown keyword in the schema is an error."""
    return all(
        KEYWORDS[word](value, wanted, schema, root)
        for word, wanted in schema.items()
        if word not in ANNOTATIONS
    )


def _is(value: Any, wanted: Any, schema: Any, root: Any) -> bool:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    allowed = tuple(kind for name in kinds for kind in TYPES[name])
    return isinstance(value, allowed) and (not isinstance(value, bool) or bool in allowed)


def _properties(value: Any, wanted: Any, schema: Any, root: Any) -> bool:
    inside = value.items() if isinstance(value, dict) else ()
    return all(fits(inner, wanted[key], root) for key, inner in inside if key in wanted)


def _additional(value: Any, wanted: Any, schema: Any, root: Any) -> bool:
    known = schema.get("properties", {})
    others = [inner for key, inner in value.items() if key not in known]
    return not others if wanted is False else all(fits(inner, wanted, root) for inner in others)


KEYWORDS: dict[str, Any] = {
    "type": _is,
    "const": lambda value, wanted, schema, root: value == wanted,
    "enum": lambda value, wanted, schema, root: value in wanted,
    "pattern": lambda value, wanted, schema, root: (
        not isinstance(value, str) or re.search(wanted, value) is not None
    ),
    "minimum": lambda value, wanted, schema, root: (
        not isinstance(value, int | float) or value >= wanted
    ),
    "maximum": lambda value, wanted, schema, root: (
        not isinstance(value, int | float) or value <= wanted
    ),
    "properties": _properties,
    "additionalProperties": lambda value, wanted, schema, root: (
        not isinstance(value, dict) or _additional(value, wanted, schema, root)
    ),
    "propertyNames": lambda value, wanted, schema, root: (
        not isinstance(value, dict) or all(fits(key, wanted, root) for key in value)
    ),
    "required": lambda value, wanted, schema, root: (
        not isinstance(value, dict) or all(key in value for key in wanted)
    ),
    "minProperties": lambda value, wanted, schema, root: (
        not isinstance(value, dict) or len(value) >= wanted
    ),
    "maxProperties": lambda value, wanted, schema, root: (
        not isinstance(value, dict) or len(value) <= wanted
    ),
    "not": lambda value, wanted, schema, root: not fits(value, wanted, root),
    "minItems": lambda value, wanted, schema, root: (
        not isinstance(value, list) or len(value) >= wanted
    ),
    "maxItems": lambda value, wanted, schema, root: (
        not isinstance(value, list) or len(value) <= wanted
    ),
    "uniqueItems": lambda value, wanted, schema, root: len(set(map(str, value))) == len(value),
    "items": lambda value, wanted, schema, root: (
        not isinstance(value, list) or all(fits(item, wanted, root) for item in value)
    ),
    "anyOf": lambda value, wanted, schema, root: any(fits(value, one, root) for one in wanted),
    "oneOf": lambda value, wanted, schema, root: sum(fits(value, one, root) for one in wanted) == 1,
    "$ref": lambda value, wanted, schema, root: fits(
        value, root["$defs"][wanted.removeprefix("#/$defs/")], root
    ),
}
