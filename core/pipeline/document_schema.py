"""The JSON Schema (draft 2020-12) of a pipeline's file, for completion and checks in editors.

It is less strict than `headrace validate`, and never stricter, except that it rejects numbers in
quotes. Any value that is not free text may also be a text with `${...}` in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import getdoc
from itertools import combinations
from typing import Any

from headrace.core.pipeline.clause_rules import PROCESS_WITH_BROADCAST, STATEFUL_CLAUSES
from headrace.core.pipeline.clauses.lookup import LookupKeys
from headrace.core.pipeline.connector_spec import ConnectorSpecs
from headrace.core.pipeline.default_values import format_default
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.document_reader import REQUIRED_SECTIONS, PipelineHead
from headrace.core.pipeline.fields import VariantsReading
from headrace.core.pipeline.model import SinkKeys, SourceKeys, StepKeys
from headrace.core.pipeline.pipeline_tests.json_schema import INVARIANTS_SCHEMA, build_tests_schema
from headrace.core.pipeline.settings import Settings
from headrace.core.pipeline.stream_names import INPUT_CLAUSES
from headrace.core.pipeline.unsupported import CLAUSES, QUALIFYING_CLAUSES
from headrace.core.pipeline.values import Json, name

REPLACEMENT_SCHEMA: Json = {
    "type": "string",
    "pattern": r"\$\{",
    "description": "${env:NAME}, ${env:NAME:-default}, ${file:path} or ${secret:NAME}",
}

SQL_DESCRIPTION = (
    "Statements, each with a semicolon at its end: `create view NAME as QUERY` makes a step, and "
    "`insert into SINK QUERY` the rows of a sink, which then has no `from`."
)


def build_json_schema(connectors: ConnectorSpecs) -> Json:
    """Return the schema of a document that may use these connectors."""
    sections: dict[str, Json] = {
        "sources": _section_schema(
            "source", "The inputs of the pipeline, each under its own name."
        ),
        "steps": _section_schema("step", "The transformations of rows, each under its own name."),
        "sinks": _section_schema("sink", "The outputs of the pipeline, each under its own name."),
    }
    sections["steps"] |= {"type": ["object", "null"], "minProperties": 0}
    others = {
        "settings": {"$ref": "#/$defs/settings"},
        "sql": {"type": "string", "description": SQL_DESCRIPTION},
        "tests": build_tests_schema(),
        "invariants": INVARIANTS_SCHEMA,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "headrace pipeline",
        "type": "object",
        "properties": build_model_schema(PipelineHead)["properties"] | others | sections,
        "required": list(REQUIRED_SECTIONS),
        "additionalProperties": False,
        "$defs": {
            "replaced": REPLACEMENT_SCHEMA,
            "settings": build_model_schema(Settings),
            "source": _endpoint_schema(SourceKeys, "source", connectors),
            "step": _step_schema(connectors),
            "sink": _endpoint_schema(SinkKeys, "sink", connectors),
        },
    }


def _step_schema(connectors: ConnectorSpecs) -> Json:
    """Return the schema of a step.

    A step has at least one clause that is complete by itself, or is a union. It has at most one
    clause that keeps keyed state, or `process` and `broadcast` together, and exactly one clause
    that names its inputs.
    """
    several = {"type": "array", "minItems": 2, "description": "A union needs no clause."}
    union = {"properties": {"from": several}}
    clauses = [{"required": [clause]} for clause in CLAUSES if clause not in QUALIFYING_CLAUSES]
    pairs = (
        pair for pair in combinations(STATEFUL_CLAUSES, 2) if {*pair} != PROCESS_WITH_BROADCAST
    )
    both = [{"required": list(pair)} for pair in pairs]
    schema = build_model_schema(StepKeys) | {"anyOf": [*clauses, union], "not": {"anyOf": both}}
    del schema["required"]
    schema["oneOf"] = [{"required": [key]} for key in ("from", *INPUT_CLAUSES)]
    lookup = _endpoint_schema(LookupKeys, "lookup", connectors)
    described = {"description": schema["properties"]["lookups"]["description"]}
    tables = {"type": "object", "minProperties": 1, "additionalProperties": lookup}
    schema["properties"] |= {"lookup": lookup, "lookups": tables | described}
    return schema


def _section_schema(definition: str, description: str) -> Json:
    return {
        "type": "object",
        "description": description,
        # Without a type, because some YAML parsers read a step named "true" as a boolean.
        "propertyNames": {"pattern": name.json["pattern"]},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
        "minProperties": 1,
    }


def _endpoint_schema(model: type[DocumentModel], kind: str, connectors: ConnectorSpecs) -> Json:
    """Return the schema of a source, a sink or a lookup: its own keys, and one connector."""
    schema = build_model_schema(model)
    sides = {key: (c.doc, getattr(c, kind)) for key, c in connectors.items()}
    declared = {key: (doc, side) for key, (doc, side) in sides.items() if side is not None}
    for key, (doc, side) in declared.items():
        schema["properties"][key] = _options_schema(
            build_model_schema(side.options) | {"description": doc}
        )
    schema["oneOf"] = [{"required": [key]} for key in declared] or [{}]
    return schema


def _options_schema(schema: Json) -> Json:
    """Return the schema of a connector's options; without required ones, its key may be empty."""
    return schema if "required" in schema else schema | {"type": ["object", "null"]}


def build_model_schema(model: type[DocumentModel]) -> Json:
    """Return the schema of a mapping with known keys."""
    schema: Json = {
        "type": "object",
        "description": " ".join((getdoc(model) or "").split()),
        "properties": {key: build_field_schema(model, key) for key in model.fields_by_key()},
        "additionalProperties": False,
    }
    required = [
        key for key, name in model.fields_by_key().items() if model.model_fields[name].is_required()
    ]
    one_of = [{"required": [key]} for key in model.one_of]
    return (
        schema
        | ({"required": required} if required else {})
        | ({"oneOf": one_of} if one_of else {})
    )


def build_field_schema(model: type[DocumentModel], key: str) -> Json:
    """Return the schema of the value of a key."""
    field = model.model_fields[model.fields_by_key()[key]]
    reading, part = field.reading, field.nested
    if isinstance(reading, VariantsReading):
        schema: Json = {"oneOf": [_variant_schema(reading, word) for word in reading.models]}
    elif reading and part:
        schema = {"anyOf": [allow_replacement(reading.json), build_model_schema(part)]}
    elif part:
        schema = build_model_schema(part)
    else:
        assert reading is not None, f"{model.__name__}.{key} has no reading"
        schema = allow_replacement(reading.json)
    default = format_default(field)
    described = {"description": field.description or ""}
    return schema | described | ({} if default is None else {"default": default})


def _variant_schema(variants: VariantsReading, word: str) -> Json:
    schema = build_model_schema(variants.models[word])
    schema["properties"][variants.key] = {"const": word}
    if word != variants.default:
        schema["required"] = [variants.key]
    return schema


def allow_replacement(schema: Json) -> Json:
    """Return the schema, extended by `${...}` wherever it is stricter than any text.

    >>> allow_replacement({"type": "integer"})
    {'anyOf': [{'type': 'integer'}, {'$ref': '#/$defs/replaced'}]}
    """
    if {"pattern", "enum", "const"} & schema.keys() or schema.get("type") in SCALAR_TYPES:
        described = {"description": schema["description"]} if "description" in schema else {}
        bare = {word: value for word, value in schema.items() if word not in described}
        return {"anyOf": [bare, {"$ref": "#/$defs/replaced"}]} | described
    return {word: _allow_replacement_inside(value) for word, value in schema.items()}


SCALAR_TYPES = ("integer", "number", "boolean")


def _allow_replacement_inside(value: Any) -> Any:
    if isinstance(value, Mapping) and "$ref" not in value:
        inner = value.keys() & {"type", "anyOf", "oneOf", "pattern", "enum"}
        return (
            allow_replacement(dict(value))
            if inner
            else {k: _allow_replacement_inside(v) for k, v in value.items()}
        )
    if isinstance(value, list):
        return [_allow_replacement_inside(item) for item in value]
    return value
