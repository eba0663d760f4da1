"""The source of one row, which queries without tables read: `select` without `from`, and `values`.

It is added to a pipeline of which a query reads it, and has a name that no part of a document can
have. Tests: tests/core/plan/sql/test_value_rows.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headrace.core.pipeline.connector_spec import ConnectorSpecs
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.model import Pipeline, Source, SourceKeys
from headrace.core.pipeline.text import Text
from headrace.core.sql.row_table import ROW_TABLE

ROW_COLUMN = "row"
"""The one column of the row, which no name in a query means."""


def add_row_source(
    sources: dict[str, Source], inputs: Iterable[str], connectors: ConnectorSpecs
) -> dict[str, Source]:
    """Return the sources, with that of one row if it is among these inputs of steps."""
    connector = connectors.get("generate") if ROW_TABLE in inputs else None
    if connector is None or connector.source is None:
        return sources
    values: dict[str, Any] = {"columns": (Assignment(Text(ROW_COLUMN), Text("id")),), "rows": 1}
    options = connector.source.options.model_construct(**values)
    keys = SourceKeys.model_construct()
    source = Source.model_construct(
        **keys.get_values(),
        name=Text(ROW_TABLE),
        connector=connector,
        options=options,
        keys_at={connector.name: Text(connector.name)},
    )
    return {**sources, ROW_TABLE: source}


def remove_row_source(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline as its document has it, without the source that was added to it."""
    sources = {name: each for name, each in pipeline.sources.items() if name != ROW_TABLE}
    return replace(pipeline, sources=sources)
