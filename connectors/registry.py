"""The registry of all connectors. cli passes it to core, which knows only their records.

A connector is loaded on first use: a run needs two or three of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.core.plan.connector import Connector, Connectors

CONNECTOR_NAMES = (
    *("files", "kafka", "nexmark", "generate", "console", "stdin", "stdout"),
    *("file", "sql", "http"),
)


class Registry(Mapping[str, Connector]):
    """The connectors by name, in the order in which users see them listed."""

    def __getitem__(self, name: str) -> Connector:
        return _load(name)

    def __contains__(self, name: object) -> bool:
        return name in CONNECTOR_NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(CONNECTOR_NAMES)

    def __len__(self) -> int:
        return len(CONNECTOR_NAMES)


def _load(name: str) -> Connector:
    match name:
        case "kafka":
            from headrace.connectors.kafka import KAFKA

            return KAFKA
        case "files":
            from headrace.connectors.files.connector import FILES

            return FILES
        case "nexmark":
            from headrace.connectors.nexmark import NEXMARK

            return NEXMARK
        case "generate":
            from headrace.connectors.generate import GENERATE

            return GENERATE
        case "console":
            from headrace.connectors.standard_streams import CONSOLE

            return CONSOLE
        case "stdin":
            from headrace.connectors.standard_streams import STDIN

            return STDIN
        case "stdout":
            from headrace.connectors.standard_streams import STDOUT

            return STDOUT
    return _load_table(name)


def _load_table(name: str) -> Connector:
    match name:
        case "file":
            from headrace.connectors.tables.file import FILE

            return FILE
        case "sql":
            from headrace.connectors.tables.sql import SQL

            return SQL
        case "http":
            from headrace.connectors.tables.http import HTTP

            return HTTP
    raise KeyError(name)


REGISTRY: Connectors = Registry()
