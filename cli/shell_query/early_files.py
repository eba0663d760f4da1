"""Files of a query that are guessed, and whose reading begins, before the query is planned.

The modules that plan a query take longer to import than a processor needs for many megabytes of
JSON. So as soon as the columns of a file are guessed, a thread reads those whose names are in the
query. The plan may need others, such as those of `natural join`: then the reading is dropped
(`file_read_ahead`). Nothing but the time depends on it.

Tests: tests/cli/test_query.py.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.connectors.files.discovery import find_files
from headrace.connectors.guess import UnreadableFile, guess_schema
from headrace.core.api.failures import ConnectorError
from headrace.core.expressions.parsing.lexer import SqlToken, tokenize
from headrace.core.expressions.typed import ExpressionError
from headrace.core.sql.parser import parse_query
from headrace.core.sql.syntax_tree import list_table_names
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.connectors.guess import SchemaGuess
    from headrace.connectors.read_ahead import ReadAhead

BLOCK_BYTES = 31 << 20
"""Bytes of text that are decoded at once. Nobody waits for one row, and a batch has a cost.

From 32 MiB on, malloc gets new memory from the system for each block, which takes as long as
reading it.
"""


@dataclass(frozen=True, slots=True)
class EarlyFiles:
    """The guessed columns of files, and the readings that have begun, by the names of tables."""

    guesses: dict[str, SchemaGuess] = field(default_factory=dict)
    readings: dict[str, ReadAhead] = field(default_factory=dict)


@contextmanager
def begin_early(sql: str) -> Iterator[EarlyFiles]:
    """Guess the files of a query, and begin to read them; errors are left to the plan."""
    early = EarlyFiles()
    try:
        with suppress(ExpressionError):
            query = parse_query(sql, takes_paths=True)
            # Where any rows are enough, the first ones are, and nothing is read ahead.
            is_any_enough = query.limit is not None and not query.order_by
            names = find_names(tokenize(sql))
            for table in dict.fromkeys(each.name for each in list_table_names(query)):
                with suppress(ConnectorError, UnreadableFile):
                    early.guesses[table], files = _guess_table(table)
                    if not is_any_enough:
                        _begin_table(table, files[0], names, early)
        yield early
    finally:
        for reading in early.readings.values():
            reading.close()


def find_names(tokens: Sequence[SqlToken]) -> Collection[str] | None:
    """Return the words of a query, some of which are columns; None if it has a star for all.

    >>> sorted(find_names(tokenize("select a * 2, count(*) from `t`")))
    ['a', 'count', 'from', 'select', 't']
    >>> find_names(tokenize("select t.*, 1 from t"))
    """
    for before, token in pairwise(tokens):
        if token.text == "*" and before.keyword in ("select", "distinct", "all", ",", "."):
            return None
    return {token.value for token in tokens if token.kind in ("word", "quoted")}


def _guess_table(table: str) -> tuple[SchemaGuess, Sequence[str]]:
    """Return the guess of a table, and its files. Raises UnreadableFile or ConnectorError."""
    files = find_files(os.curdir, os.path.abspath(table))
    if not files:
        raise UnreadableFile(f"there is no file {table}")
    return guess_schema(*files), files


def _begin_table(table: str, file: str, names: Collection[str] | None, early: EarlyFiles) -> None:
    """Begin to read the file, if it is JSON."""
    guess = early.guesses[table]
    read = [each for each in guess.columns if names is None or each.name in names]
    if guess.format == "json" and read:
        from headrace.connectors.files.text_reader import TextFileReader
        from headrace.connectors.formats.json_decode import JsonDecoder
        from headrace.connectors.read_ahead import ReadAhead
        from headrace.core.api.splits import Split

        schema = Schema(tuple(Field(each.name, each.type) for each in read))
        reader = TextFileReader(os.curdir, JsonDecoder(schema), BLOCK_BYTES)
        early.readings[table] = ReadAhead(reader, Split(table, file))
