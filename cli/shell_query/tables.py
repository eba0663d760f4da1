"""The tables of a query at the shell that no pipeline describes: files, stored state, topics.

Each becomes a source of the name by which the query reads it. The columns of files are guessed from
their first rows. The state of a step, as in `'savepoints/monday'.totals`, is read as a whole: what
is stored of a step is a table, as for `headrace state query`.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.cli.shell_query.early_files import BLOCK_BYTES
from headrace.connectors.files.connector import build_connector
from headrace.connectors.files.discovery import build_no_files_error, find_files
from headrace.connectors.files.folder_columns import read_folders
from headrace.connectors.files.options import URL_SCHEME, FilesSource
from headrace.connectors.guess import UnreadableFile, guess_schema, guess_text_column
from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from headrace.core.api.snapshots import SnapshotError
from headrace.core.errors.problems import Problem, suggest_name
from headrace.core.pipeline.loader import load_document
from headrace.core.pipeline.model import Source
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.savepoints.names import get_document_path
from headrace.state.storage.names import get_home_folder

if TYPE_CHECKING:
    from headrace.cli.state.sql_tables import Table
    from headrace.connectors.guess import SchemaGuess
    from headrace.connectors.kafka.source_options import KafkaSource
    from headrace.core.plan.connector import Connector
    from headrace.core.sql.syntax_tree import TableName


class RejectedTables(Exception):
    """Tables that cannot be read; `problems` has the reasons."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__()
        self.problems = tuple(problems)


class UnusableTable(Exception):
    """The reason why a table cannot be read, and a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


# A copy would load all connectors.
CONNECTORS: Mapping[str, Connector] = ChainMap(
    {"files": build_connector(BLOCK_BYTES)},
    REGISTRY,  # type: ignore[arg-type]  # a chain writes to its first mapping only
)


@dataclass(slots=True)
class TableSources:
    """Sources by the names of their tables, and the connectors that open them."""

    sources: dict[str, Source] = field(default_factory=dict)
    connectors: Mapping[str, Connector] = field(default_factory=lambda: CONNECTORS)
    warnings: list[Problem] = field(default_factory=list)

    def list_guessed(self) -> frozenset[str]:
        """Return the sources of files."""
        files = self.sources.items()
        return frozenset(name for name, each in files if isinstance(each.options, FilesSource))


def build_sources(
    tables: Iterable[TableName],
    file: SourceText,
    streams: Iterable[str],
    home: str,
    skips_bad_records: bool,
    guesses: Mapping[str, SchemaGuess],
) -> TableSources:
    """Build the sources of files and of stored state. Raises RejectedTables.

    `streams` are the tables of a pipeline, one of which may have been meant; `guesses` are those of
    files that have been read already.
    """
    built, problems = TableSources(), list[Problem]()
    described: dict[str, dict[str, object]] = {}
    states: dict[str, Table] = {}
    for table in tables:
        at = file.locate(table.span.start, table.span.end)
        try:
            found = _find_state(table.name, home)
            if found is None:
                described[table.name], notes = _describe_files(table.name, home, guesses)
                if skips_bad_records:
                    described[table.name]["on_error"] = "skip"
                built.warnings += [Problem(note, at, severity="warning") for note in notes]
            else:
                states[table.name] = found
                described[table.name] = _describe_state(table.name, found)
        except (UnusableTable, ConnectorError, SnapshotError) as error:
            hint = suggest_name(table.name, streams) or error.hint
            problems.append(Problem(error.message, at, hint))
    if problems:
        raise RejectedTables(problems)
    if states:
        built.connectors = ChainMap({"memory": _hold_rows(states)}, CONNECTORS)  # type: ignore[arg-type]
    built.sources = _load_sources(described, built.connectors)
    return built


def _hold_rows(states: Mapping[str, Table]) -> Connector:
    """Return a connector that reads these rows."""
    from headrace.connectors.memory import InMemoryData

    rows = {name: {"rows": (table.rows,)} for name, table in states.items()}
    return InMemoryData(rows).build_connector()


def _load_sources(
    described: Mapping[str, Mapping[str, object]], connectors: Mapping[str, Connector]
) -> dict[str, Source]:
    """Load sources from their keys, as those of a pipeline. Raises RejectedTables."""
    if not described:
        return {}
    numbered = {f"table{at}": keys for at, keys in enumerate(described.values())}
    sink = {"from": "table0", "console": {}}
    document = {"name": "query", "sources": numbered, "sinks": {"rows": sink}}
    loaded = load_document(document, connectors)
    if not loaded.is_valid:
        raise RejectedTables(replace(each, location=None, subject="") for each in loaded.problems)
    return {
        name: source.model_copy(update={"name": Text(name)})
        for name, source in zip(described, loaded.pipeline.sources.values(), strict=True)
    }


def _describe_files(
    path: str, home: str, guesses: Mapping[str, SchemaGuess]
) -> tuple[dict[str, object], list[str]]:
    """Return the keys of a source of these files, and warnings."""
    if _is_snapshot(path, home):
        message = f"{path} has the state of a job, and no table was named"
        raise UnusableTable(message, f"as in {_format_state(path, _list_states(path, home)[0])}")
    if URL_SCHEME.match(path):
        raise UnusableTable(f"{path} is not on this machine", "download it first")
    files = find_files("", path)
    if not files:
        raise build_no_files_error(os.curdir, path)
    try:
        guess = guesses.get(path) or guess_schema(*files)
    except UnreadableFile as error:
        raise UnusableTable(str(error)) from None
    options: dict[str, object] = {"path": os.path.abspath(path)}
    keys: dict[str, object] = {"files": options, "format": guess.format}
    if guess.format == "csv":
        keys["csv"] = {"delimiter": guess.delimiter, "union_by_name": len(files) > 1}
    elif guess.format == "parquet":
        keys["parquet"] = {"union_by_name": len(files) > 1}
    columns = {column.name: str(column.type) for column in guess.columns}
    added, notes = _guess_folder_columns(path, files, columns)
    if added:
        options["partition_by"] = [*added]
    keys["schema"] = {**columns, **added}
    return keys, notes


def _guess_folder_columns(
    path: str, files: Sequence[str], inside: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the types of the columns whose values are in the names of folders, and warnings.

    Columns of the files themselves come first, and every file must be in such a folder.
    """
    folders = [read_folders(os.path.relpath(name)) for name in files]
    names = dict.fromkeys(name for each in folders for name in each if name not in inside)
    missing = [name for name in names if not all(name in each for each in folders)]
    added = {
        name: str(guess_text_column(name, (each[name] for each in folders)).type)
        for name in names
        if name not in missing
    }
    listed = ", ".join(missing)
    warning = f"not all files of {path} are in such a folder, which is therefore no column: "
    return added, [f"{warning}{listed}"] if missing else []


def _find_state(name: str, home: str) -> Table | None:
    """Return the stored state that a name such as `JOB.STEP` means; None if it means none."""
    for at in reversed([at for at, char in enumerate(name) if char == "."]):
        what, table = name[:at], name[at + 1 :]
        if what and table and _is_snapshot(what, home):
            return _read_state(what, table, home)
    return None


def _is_snapshot(what: str, home: str) -> bool:
    """Whether this is a savepoint, or a job with checkpoints.

    Files are told from jobs by their names, as reading state needs imports that take time.
    """
    if os.path.isfile(get_document_path(what)):
        return True
    job, _, _ = what.partition("@")
    if not os.path.isdir(get_home_folder(home, job)):
        return False
    from headrace.state.savepoints.snapshot_lookup import find_job

    return find_job(what, home) is not None


def _read_state(what: str, table: str, home: str) -> Table:
    from headrace.cli.state.snapshot_argument import open_snapshot
    from headrace.cli.state.sql_tables import build_tables

    with open_snapshot(what, home) as snapshot:
        known = build_tables(snapshot)
        if table not in known:
            listed = ", ".join(_format_state(what, name) for name in known)
            hint = suggest_name(table, known) or f"the tables are {listed}"
            raise UnusableTable(f'{what} has no table "{table}"', hint)
        return known[table]()


def _list_states(what: str, home: str) -> list[str]:
    from headrace.cli.state.snapshot_argument import open_snapshot
    from headrace.cli.state.sql_tables import build_tables

    with open_snapshot(what, home) as snapshot:
        return [*build_tables(snapshot)]


def _format_state(what: str, table: str) -> str:
    return f"'{what}'.{quote_name(table)}"


def _describe_state(name: str, table: Table) -> dict[str, object]:
    schema = {column.name: str(column.type) for column in table.schema}
    return {"memory": {"data": name}, "schema": schema}


def find_topics(sources: Mapping[str, Source]) -> dict[str, Source]:
    """Return the sources that read Kafka, by `kafka.` and their topic or their own name."""
    found = dict[str, Source]()
    for source in sources.values():
        if options := _get_kafka_options(source):
            for name in filter(None, (options.topic, source.name)):
                table = f"kafka.{name}"
                found[table] = source.model_copy(update={"name": Text(table)})
    return found


def _get_kafka_options(source: Source) -> KafkaSource | None:
    """Return the options of a source that reads Kafka, whose connector is loaded then."""
    if source.connector.name != "kafka":
        return None
    from headrace.connectors.kafka.source_options import KafkaSource

    assert isinstance(source.options, KafkaSource)
    return source.options


def end_source(source: Source) -> Source:
    """Return the source with an end at what is there now, if it can have one."""
    kafka = _get_kafka_options(source)
    if kafka is not None and kafka.stop is None:
        ending: dict[str, object] = {"stop": "latest", "discover": None}
    elif isinstance(source.options, FilesSource) and source.options.watch is not None:
        ending = {"watch": None}
    else:
        return source
    return source.model_copy(update={"options": source.options.model_copy(update=ending)})
