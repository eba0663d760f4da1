"""The JSON Schema of `tests`, for completion in editors; the reader is stricter.

Tests: tests/core/pipeline/test_document_schema.py.
"""

from __future__ import annotations

from headrace.core.pipeline.pipeline_tests.model import METRICS
from headrace.core.pipeline.values import Json

_ROWS: Json = {
    "anyOf": [
        {"type": "array", "items": {"type": "object"}},
        {
            "type": "string",
            "pattern": r"\.(csv|jsonl|parquet)$",
            "description": "A file of rows.",
        },
    ]
}
_NAMED_ROWS: Json = {"type": "object", "additionalProperties": _ROWS}


def _describe(schema: Json, description: str) -> Json:
    return schema | {"description": description}


def _list_keys(descriptions: dict[str, str]) -> Json:
    """Return keys with any values."""
    return {key: {"description": text} for key, text in descriptions.items()}


_STREAM: Json = {
    "type": "object",
    "properties": {
        "rows": _describe(_ROWS, "Exactly these rows."),
        "contains": _describe(_ROWS, "These rows, and perhaps others."),
        "match": {"enum": ["all", "subset"], "description": "The columns that are compared."},
        **_list_keys(
            {
                "count": "The number of rows.",
                "where": "An expression that is true for every row.",
                "within": "The largest difference between equal doubles.",
                "ordered": "Whether rows are in order.",
                "changelog": "Whether changes are compared as they came.",
            }
        ),
    },
    "additionalProperties": False,
}
_EXPECT: Json = {
    "type": "object",
    "description": "The rows that streams have emitted since they were last compared.",
    "properties": {
        "fails": {"description": "A part of the message with which the job fails."},
        "metrics": {
            "type": "object",
            "description": "Counters of the whole job.",
            "properties": _list_keys({name: f"The number of {name} rows." for name in METRICS}),
            "additionalProperties": False,
        },
    },
    "additionalProperties": {"anyOf": [_ROWS, _STREAM]},
}
_EVENT: Json = {
    "type": "object",
    "properties": {
        "rows": _describe(_NAMED_ROWS, "Rows of sources, by name."),
        "expect": _EXPECT,
        **_list_keys(
            {
                "splits": "Rows of several splits of a source.",
                "watermark": "The time that the watermark of a source is raised to.",
                "bad": "Records that a source cannot read.",
                "idle": "Splits of a source without rows for now.",
                "advance": "Time that passes on the wall clock.",
                "rescale": "The parallelism at which the job continues.",
            }
        ),
    },
    "additionalProperties": _ROWS,
}


INVARIANTS_SCHEMA: Json = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Conditions on aggregates of all rows, for `headrace simulate`, "
    "such as sum(totals.total) = sum(orders.amount).",
}


def build_tests_schema() -> Json:
    """Return the schema of the section."""
    events = {"anyOf": [{"enum": ["checkpoint", "restart", "savepoint"]}, _EVENT]}
    test: Json = {
        "type": "object",
        "properties": {
            "given": {"type": "array", "items": events, "description": "Events, in order."},
            "tables": _describe(_NAMED_ROWS, "The rows of lookup tables, by step."),
            "expect": _EXPECT,
            **_list_keys(
                {
                    "name": "The name, in results.",
                    "date": "The day of times that are written without one.",
                    "end": "false: the inputs do not end after the last event.",
                }
            ),
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    return {"type": "array", "items": test, "description": "Tests, for `headrace test`."}
