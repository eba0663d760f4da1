"""The JSON Schema (draft 2020-12) of a pipeline's file, for completion and checks in editors.

It is less strict than `headrace validate`, and never stricter, except that it rejects numbers in
quotes. Any value that is not free text may also be a text with `${...}` in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import getdoc
from itertools import combinations
from typing import Any

from headrace.core.connector import Connectors
from headrace.core.pipeline.fields import Variants
from headrace.core.pipeline.inputs import TWO_SIDED
from headrace.core.pipeline.keyed_rules import KEYED, RULED
from headrace.core.pipeline.later import BESIDE, CLAUSES
from headrace.core.pipeline.lookup import LookupKeys
from headrace.core.pipeline.model import SinkKeys, SourceKeys, StepKeys
from headrace.core.pipeline.part import Part, part_of, reading_of
from headrace.core.pipeline.parts import REQUIRED, Head
from headrace.core.pipeline.settings import Settings
from headrace.core.pipeline.values import Json, name
from headrace.core.pipeline.written import default_of

REPLACED: Json = {
    "type": "string",
    "pattern": r"\$\{",
    "description": "${env:NAME}, ${env:NAME:-default}, ${file:path} or ${secret:NAME}",
}


def json_schema(connectors: Connectors) -> Json:
    """Return the schema of a document that may use these connectors."""
    sections: dict[str, Json] = {
        "sources": _named("source", "The inputs of the pipeline, each under its own name."),
        "steps": _named("step", "The transformations of rows, each under its own name."),
        "sinks": _named("sink", "The outputs of the pipeline, each under its own name."),
    }
    sections["steps"] |= {"type": ["object", "null"], "minProperties": 0}
    settings = {"settings": {"$ref": "#/$defs/settings"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "headrace pipeline",
        "type": "object",
        "properties": part_schema(Head)["properties"] | settings | sections,
        "required": list(REQUIRED),
        "additionalProperties": False,
        "$defs": {
            "replaced": REPLACED,
            "settings": part_schema(Settings),
            "source": _end_schema(SourceKeys, "source", connectors),
            "step": _step_schema(connectors),
            "sink": _end_schema(SinkKeys, "sink", connectors),
        },
    }


def _step_schema(connectors: Connectors) -> Json:
    """Return the schema of a step.

    A step has at least one clause that is complete by itself, or is a union. It has at most one
    clause that keeps keyed state, or `process` and `broadcast` together, and exactly one clause
    that names its inputs.
    """
    several = {"type": "array", "minItems": 2, "description": "A union needs no clause."}
    union = {"properties": {"from": several}}
    clauses = [{"required": [clause]} for clause in CLAUSES if clause not in BESIDE]
    pairs = (pair for pair in combinations(KEYED, 2) if {*pair} != RULED)
    both = [{"required": list(pair)} for pair in pairs]
    schema = part_schema(StepKeys) | {"anyOf": [*clauses, union], "not": {"anyOf": both}}
    del schema["required"]
    schema["oneOf"] = [{"required": [key]} for key in ("from", *TWO_SIDED)]
    schema["properties"]["lookup"] = _end_schema(LookupKeys, "lookup", connectors)
    return schema


def _named(definition: str, description: str) -> Json:
    return {
        "type": "object",
        "description": description,
        # Without a type, because some YAML parsers read a step named "true" as a boolean.
        "propertyNames": {"pattern": name.json["pattern"]},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
        "minProperties": 1,
    }


def _end_schema(model: type[Part], kind: str, connectors: Connectors) -> Json:
    """Return the schema of a source, a sink or a lookup: its own keys, and one connector."""
    schema = part_schema(model)
    sides = {key: (c.doc, getattr(c, kind)) for key, c in connectors.items()}
    mine = {key: (doc, side) for key, (doc, side) in sides.items() if side is not None}
    for key, (doc, side) in mine.items():
        schema["properties"][key] = _options(part_schema(side.options) | {"description": doc})
    schema["oneOf"] = [{"required": [key]} for key in mine] or [{}]
    return schema


def _options(schema: Json) -> Json:
    """Return the schema of a connector's options; without required ones, its key may be empty."""
    return schema if "required" in schema else schema | {"type": ["object", "null"]}


def part_schema(model: type[Part]) -> Json:
    """Return the schema of a mapping with known keys."""
    schema: Json = {
        "type": "object",
        "description": " ".join((getdoc(model) or "").split()),
        "properties": {key: field_schema(model, key) for key in model.written()},
        "additionalProperties": False,
    }
    required = [
        key for key, name in model.written().items() if model.model_fields[name].is_required()
    ]
    one_of = [{"required": [key]} for key in model.one_of]
    return (
        schema
        | ({"required": required} if required else {})
        | ({"oneOf": one_of} if one_of else {})
    )


def field_schema(model: type[Part], key: str) -> Json:
    """Return the schema of the value of a key."""
    field = model.model_fields[model.written()[key]]
    reading, part = reading_of(field), part_of(field)
    if isinstance(reading, Variants):
        schema: Json = {"oneOf": [_variant(reading, word) for word in reading.models]}
    elif reading and part:
        schema = {"anyOf": [loosened(reading.json), part_schema(part)]}
    elif part:
        schema = part_schema(part)
    else:
        assert reading is not None, f"{model.__name__}.{key} has no reading"
        schema = loosened(reading.json)
    default = default_of(field)
    described = {"description": field.description or ""}
    return schema | described | ({} if default is None else {"default": default})


def _variant(variants: Variants, word: str) -> Json:
    schema = part_schema(variants.models[word])
    schema["properties"][variants.key] = {"const": word}
    if word != variants.default:
        schema["required"] = [variants.key]
    return schema


def loosened(schema: Json) -> Json:
    """Return the schema, extended by `${...}` wherever it is stricter than any text.

    >>> loosened({"type": "integer"})
    {'anyOf': [{'type': 'integer'}, {'$ref': '#/$defs/replaced'}]}
    """
    if {"pattern", "enum", "const"} & schema.keys() or schema.get("type") in PLAIN:
        said = {"description": schema["description"]} if "description" in schema else {}
        bare = {word: value for word, value in schema.items() if word not in said}
        return {"anyOf": [bare, {"$ref": "#/$defs/replaced"}]} | said
    return {word: _inside(value) for word, value in schema.items()}


PLAIN = ("integer", "number", "boolean")


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping) and "$ref" not in value:
        inner = value.keys() & {"type", "anyOf", "oneOf", "pattern", "enum"}
        return loosened(dict(value)) if inner else {k: _inside(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_inside(item) for item in value]
    return value
