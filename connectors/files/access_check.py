"""Checks whether files can be read and a folder written into, without changing anything."""

from __future__ import annotations

import os

from headrace.connectors.files.options import FilesSink, FilesSource
from headrace.connectors.files.source import build_source
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.errors.rendering import format_count
from headrace.core.plan import nodes


def describe_source(source: nodes.Source, run_context: RunContext) -> str:
    """Describe the files to read. Raises ConnectorError if there are none, or one is unreadable."""
    options = source.options
    assert isinstance(options, FilesSource)
    splits = build_source(source, run_context).discover_splits()
    for split in splits:
        if not os.access(run_context.folder / split.name, os.R_OK):
            raise ConnectorError(f"{split.name} may not be read")
    return f"{options.path}: {format_count(len(splits), 'file')}"


def describe_sink(sink: nodes.Sink, run_context: RunContext) -> str:
    """Describe the folder to write into. Raises ConnectorError if it is not writable."""
    options = sink.options
    assert isinstance(options, FilesSink)
    folder = above = os.path.join(run_context.folder, options.path.reveal())
    while above and not os.path.lexists(above):
        above = os.path.dirname(above)
    above = above or "."
    if not os.path.isdir(above):
        hint = "the path of a files sink is the folder of its parts"
        raise ConnectorError(f"{above} is a file, wanted a folder", hint, exit_status=2)
    if not os.access(above, os.W_OK | os.X_OK):
        raise ConnectorError(f"{above} may not be written into")
    return f"{options.path}: {'may be written into' if above == folder else 'will be created'}"
