"""The `console` connector: a table of the rows on the terminal, for people to read."""

from __future__ import annotations

from headrace.connectors.blocking import SinkInThreads
from headrace.core.connector import Connector, SinkSide
from headrace.core.contracts import Sink, Surroundings
from headrace.core.pipeline.part import Part
from headrace.core.plan import nodes
from headrace.core.types import Schema


class ConsoleSink(Part):
    """The options of the console sink: none."""


def _sink(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Sink:
    # Loaded when a pipeline runs, so that help and completion stay fast.
    from headrace.connectors.printing import console

    return SinkInThreads(console(schema, surroundings), surroundings.bench)


CONSOLE = Connector(
    "console",
    "Rows on the terminal, to be read by people.",
    sink=SinkSide(ConsoleSink, open=_sink, prints=True),
)
