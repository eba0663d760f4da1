"""The JSON Schema of `tests`, for completion in editors; the reader is stricter."""

from __future__ import annotations

from headrace.core.pipeline.pipeline_tests.model import METRICS
from headrace.core.pipeline.values import Json, duration

_ROWS: Json = {"type": "array", "items": {"type": "object"}}
_NAMED_ROWS: Json = {"type": "object", "additionalProperties": _ROWS}
_STREAM: Json = {
    "anyOf": [
        _ROWS,
        {
            "type": "object",
            "properties": {
                "rows": _ROWS,
                "contains": _ROWS,
                "count": {"type": ["integer", "string"]},
                "where": {"type": ["string", "boolean"]},
                "match": {"enum": ["all", "subset"]},
                "within": {"type": ["number", "string"]},
                "ordered": {"type": ["boolean", "string"]},
                "changelog": {"type": ["boolean", "string"]},
            },
            "additionalProperties": False,
        },
    ]
}
_EXPECT: Json = {
    "type": "object",
    "description": "The rows that streams have emitted since they were last compared.",
    "properties": {
        "fails": {"type": ["string", "number"]},
        "metrics": {"type": "object", "properties": {name: {} for name in METRICS}},
    },
    "additionalProperties": _STREAM,
}
_EVENT: Json = {
    "anyOf": [
        {"enum": ["checkpoint", "restart"]},
        {
            "type": "object",
            "properties": {
                "rows": _NAMED_ROWS,
                "splits": {"type": "object"},
                "watermark": {"type": "object"},
                "bad": {"type": "object"},
                "idle": {"type": "object"},
                "advance": {"type": "string", "pattern": duration.json["pattern"]},
                "rescale": {"type": ["integer", "string"]},
                "expect": _EXPECT,
            },
            "additionalProperties": _ROWS,
            "minProperties": 1,
            "maxProperties": 1,
        },
    ]
}


def build_tests_schema() -> Json:
    """Return the schema of the section."""
    test: Json = {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "number"], "description": "The name, in results."},
            "date": {"type": "string", "description": "The day of times that have none."},
            "given": {"type": "array", "items": _EVENT, "description": "Events, in order."},
            "tables": _NAMED_ROWS | {"description": "The rows of lookup tables, by step."},
            "end": {"type": ["boolean", "string"], "description": "`false`: inputs do not end."},
            "expect": _EXPECT,
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    return {"type": "array", "items": test, "description": "Tests, for `headrace test`."}
