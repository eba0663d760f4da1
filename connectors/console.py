"""The `console` connector: a table of the rows on the terminal, for people to read."""

from __future__ import annotations

from headrace.connectors.blocking import ThreadedSink
from headrace.core.connector import Connector, SinkSide
from headrace.core.contracts import RunContext, SinkConnector
from headrace.core.pipeline.part import DocumentModel
from headrace.core.plan import nodes
from headrace.core.types import Schema


class ConsoleSink(DocumentModel):
    """The options of the console sink: none."""


def _open_console(sink: nodes.Sink, schema: Schema, surroundings: RunContext) -> SinkConnector:
    # Loaded when a pipeline runs, so that help and completion stay fast.
    from headrace.connectors.printing import build_console_sink

    return ThreadedSink(build_console_sink(schema, surroundings), surroundings.kernel_executor)


CONSOLE = Connector(
    "console",
    "Rows on the terminal, to be read by people.",
    sink=SinkSide(ConsoleSink, open=_open_console, prints_rows=True),
)
