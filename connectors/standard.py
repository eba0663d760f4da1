"""Standard input and standard output, to stand in a shell's pipe."""

from __future__ import annotations

from headrace.core.contracts import Connector, SinkSide, SourceSide
from headrace.core.pipeline.part import Part

STREAMED = ("json", "csv", "raw")


class StdinSource(Part):
    """It has no options."""


class StdoutSink(Part):
    """It has no options."""


STDIN = Connector(
    "stdin", "Records from standard input, one a line.", source=SourceSide(StdinSource, STREAMED)
)
STDOUT = Connector(
    "stdout", "Records on standard output, one a line.", sink=SinkSide(StdoutSink, STREAMED)
)
