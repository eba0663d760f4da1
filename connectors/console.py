"""The terminal, for people to read: a table of the rows as they come."""

from __future__ import annotations

from headrace.core.contracts import Connector, SinkSide
from headrace.core.pipeline.part import Part


class ConsoleSink(Part):
    """It has no options."""


CONSOLE = Connector(
    "console", "Rows on the terminal, to be read by people.", sink=SinkSide(ConsoleSink)
)
