"""Files of a query whose reading begins before its job is built. Tests: tests/cli/test_query.py."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.cli.shell_query.early_files import BLOCK_BYTES
from headrace.connectors.files.connector import build_connector
from headrace.connectors.files.source import begin_reading
from headrace.core.plan import nodes

if TYPE_CHECKING:
    from headrace.cli.shell_query.early_files import EarlyFiles
    from headrace.cli.shell_query.pipeline import ShellQuery
    from headrace.connectors.read_ahead import ReadAhead


@contextmanager
def begin_files(planned: ShellQuery, early: EarlyFiles) -> Iterator[ShellQuery]:
    """Begin to read the files of a query; yield the query that continues to read them.

    Where any rows are enough, the first ones are, and nothing is read ahead. An early reading of
    columns that the plan does not read is closed.
    """
    sources = [part for part in planned.plan if isinstance(part, nodes.Source)]
    read_ahead: dict[str, ReadAhead] = {}
    for source in sources:
        if source.name in planned.guessed and planned.rows.enough is None:
            known = early.readings.get(source.name)
            if reading := begin_reading(source, str(planned.folder), BLOCK_BYTES, known):
                read_ahead[source.name] = reading
    for name, reading in early.readings.items():
        if read_ahead.get(name) is not reading:
            reading.close()
    files = {"files": build_connector(BLOCK_BYTES, read_ahead)}
    try:
        yield replace(planned, connectors=ChainMap(files, planned.connectors))  # type: ignore[arg-type]
    finally:
        for reading in read_ahead.values():
            reading.close()
