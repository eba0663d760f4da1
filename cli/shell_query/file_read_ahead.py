"""Files of a query whose reading begins before its job is built. Tests: tests/cli/test_query.py."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.cli.shell_query.tables import BLOCK_BYTES
from headrace.connectors.files import build_connector
from headrace.connectors.files.source import begin_reading
from headrace.core.plan import nodes

if TYPE_CHECKING:
    from headrace.cli.shell_query.pipeline import ShellQuery


@contextmanager
def begin_files(planned: ShellQuery) -> Iterator[ShellQuery]:
    """Begin to read the files of a query; yield the query that continues to read them.

    Where any rows are enough, the first ones are, and nothing is read ahead.
    """
    sources = [part for part in planned.plan if isinstance(part, nodes.Source)]
    read_ahead = {
        str(source.name): reading
        for source in sources
        if source.name in planned.guessed and planned.rows.enough is None
        if (reading := begin_reading(source, str(planned.folder), BLOCK_BYTES))
    }
    files = {"files": build_connector(BLOCK_BYTES, read_ahead)}
    try:
        yield replace(planned, connectors=ChainMap(files, planned.connectors))  # type: ignore[arg-type]
    finally:
        for reading in read_ahead.values():
            reading.close()
