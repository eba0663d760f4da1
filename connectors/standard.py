"""The `stdin` and `stdout` connectors, for use in a shell's pipe."""

from __future__ import annotations

from headrace.connectors.blocking import SinkInThreads, SourceInThreads
from headrace.core.connector import Connector, SinkSide, SourceSide
from headrace.core.contracts import Sink, Source, Surroundings
from headrace.core.pipeline.part import Part
from headrace.core.plan import nodes
from headrace.core.types import Schema

STREAMED = ("json", "csv", "raw")


class StdinSource(Part):
    """The options of the stdin source: none."""


class StdoutSink(Part):
    """The options of the stdout sink: none."""


def _source(source: nodes.Source, surroundings: Surroundings) -> Source:
    # Loaded when a pipeline runs, so that help and completion stay fast.
    from headrace.connectors.stdin import open_stdin

    return SourceInThreads(open_stdin(source, surroundings), surroundings.bench)


def _sink(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Sink:
    from headrace.connectors.printing import stdout

    return SinkInThreads(stdout(sink, schema, surroundings), surroundings.bench)


STDIN = Connector(
    "stdin",
    "Records from standard input, one a line.",
    source=SourceSide(
        StdinSource,
        STREAMED,
        open=_source,
        place=lambda _: "standard input",
        bounded=lambda _: False,
        replays=False,
    ),
)
STDOUT = Connector(
    "stdout",
    "Records on standard output, one a line.",
    sink=SinkSide(StdoutSink, STREAMED, open=_sink, prints=True),
)
