"""The clause `lookup` of a step: the columns of a table that are added to the rows.

Next to these keys there is one connector, as in a source. `lookup_reader` reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.connector_spec import ConnectorSpec
from headrace.core.pipeline.diagnostics import (
    KEY,
    ValueProblemCollector,
    make_expected_error,
    make_value_error,
)
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import (
    Assignment,
    AssignmentsReading,
    OneOrManyReading,
    TypeReading,
    read_or_collect,
)
from headrace.core.pipeline.text import NOTHING, Text
from headrace.core.pipeline.values import (
    Count,
    FieldReading,
    Flag,
    Name,
    column,
    positive_duration,
    whole_number,
)
from headrace.core.types.data_types import STRING, Type
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column of the table: its name in the output, its name in the table, and its type."""

    name: Text
    column: Text
    type: Type = STRING
    nullable: bool = True


class AddedColumnsReading(FieldReading):
    """The reading of columns of the table, their types and their names in the output."""

    def __init__(self) -> None:
        self.wanted = "columns of the table and their types, as in {name: string, tier: int}"
        renamed = {
            "type": "object",
            "properties": {
                "column": column.json | {"description": "Its name in the table."},
                "type": {"type": "string", "description": "Its type; `string` by default."},
            },
            "required": ["column"],
            "additionalProperties": False,
        }
        mapping = {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "string"}, renamed]},
            "minProperties": 1,
        }
        array = {"type": "array", "items": column.json, "minItems": 1, "uniqueItems": True}
        self.json = {"oneOf": [mapping, array]}

    def read(self, value: object) -> tuple[AddedColumn, ...]:
        if isinstance(value, list) and value:
            names = OneOrManyReading(column, self.wanted).read(value)
            return tuple(AddedColumn(name, name) for name in names)
        if not isinstance(value, dict) or not value:
            hint = f"write [{value}]" if isinstance(value, Text) and not value.secret else ""
            raise make_expected_error(value, self.wanted, hint)
        gathered = ValueProblemCollector()
        found = [self._read_column(gathered, key, written) for key, written in value.items()]
        gathered.raise_if_any()
        return tuple(added for added in found if added is not None)

    def _read_column(
        self, gathered: ValueProblemCollector, key: Text, written: object
    ) -> AddedColumn | None:
        read_or_collect(gathered, column, key, key, KEY)
        if isinstance(written, dict):
            return self._read_renamed_column(gathered, key, written)
        typed = read_or_collect(gathered, TypeReading(), written, key)
        return AddedColumn(key, key, *typed) if isinstance(typed, tuple) else None

    def _read_renamed_column(
        self, gathered: ValueProblemCollector, key: Text, written: dict[Text, object]
    ) -> AddedColumn | None:
        unknown = [other for other in written if other not in ("column", "type")]
        for other in unknown:
            hint = suggest_name(other, ("column", "type")) or "it has column and type"
            gathered.add(make_value_error(other, f'unknown key "{other}"', hint), key, other, KEY)
        if "column" not in written:
            if not unknown:
                gathered.add(
                    make_value_error(key, 'missing key "column"', "the table's name for it"), key
                )
            return None
        name = read_or_collect(gathered, column, written[Text("column")], key, "column")
        typed: object = (STRING, True)
        if "type" in written:
            typed = read_or_collect(gathered, TypeReading(), written[Text("type")], key, "type")
        if isinstance(name, Text) and isinstance(typed, tuple):
            return AddedColumn(key, name, *typed)
        return None


@dataclass(frozen=True, slots=True)
class OnMiss:
    """The action for a row without a match in the table."""

    action: Literal["null", "drop", "fail", "to"] = "null"
    to: Text | None = None

    def __str__(self) -> str:
        return f"to {self.to}" if self.to else self.action


class MissStream(DocumentModel):
    """The stream of rows without a match."""

    to: Name = Field(description="A stream that steps and sinks can read.")


class OnMissReading(FieldReading):
    """The reading of `null`, `drop`, `fail` or `{to: name}`; YAML's null means the word."""

    part = MissStream

    def __init__(self) -> None:
        self.wanted = "null, drop, fail or {to: name}"
        self.json = {"enum": ["null", "drop", "fail", None]}

    def read(self, value: object) -> OnMiss:
        if isinstance(value, dict):
            return OnMiss("to", MissStream.model_validate(value).to)
        if value is NOTHING:
            return OnMiss()
        if isinstance(value, Text) and not value.secret:
            for action in ("null", "drop", "fail"):
                if value == action:
                    return OnMiss(action)
        hint = 'did you mean "drop"?' if value == "skip" else ""
        raise make_expected_error(value, self.wanted, hint)


class CacheKeys(DocumentModel):
    """A cache of the table's answers: its size and its time to live; misses are cached too."""

    rows: Count = Field(
        10_000, description="The number of keys; the least recently used are evicted first."
    )
    ttl: Annotated[timedelta, positive_duration] = Field(
        timedelta(minutes=1), description="How long an answer is cached before it is fetched again."
    )


LOOKUP_KEY_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("key", "keys", "by", "where"), "on"),
    **dict.fromkeys(("columns", "select", "returns", "with", "fields"), "add"),
    **dict.fromkeys(("missing", "on_missing", "not_found", "default"), "on_miss"),
    **dict.fromkeys(("parallel", "capacity", "max_in_flight"), "concurrency"),
    **dict.fromkeys(("retry", "attempts"), "retries"),
    **dict.fromkeys(("files", "csv", "path"), "file"),
    **dict.fromkeys(("database", "jdbc", "table", "db"), "sql"),
    **dict.fromkeys(("url", "rest", "api"), "http"),
}


class LookupKeys(DocumentModel):
    """Columns of a table that are added to each row: those of the table's row with the same key.

    Next to these keys there is the table: one of `file`, `sql` and `http`. It is queried for the
    keys of many rows at once; meanwhile the rows wait and others arrive. See
    [lookups](lookup.md).
    """

    key_aliases = LOOKUP_KEY_ALIASES

    on: Annotated[
        tuple[Assignment, ...],
        AssignmentsReading(
            "columns of the table and what they equal, as in {id: customer_id}", lists=True
        ),
    ] = Field(
        description="Columns of the table, each with the expression over the row that it must "
        "equal; a list where both have the same name. Null equals nothing: such a row has no match."
    )
    add: Annotated[tuple[AddedColumn, ...], AddedColumnsReading()] = Field(
        description="The columns that are added, and their types. The columns of a list are "
        "strings; `{new_name: {column: name, type: int}}` renames a column."
    )
    on_miss: Annotated[OnMiss, OnMissReading()] = Field(
        OnMiss(),
        description="The action for a row without a match: `null` in the columns, `drop` the row, "
        "`fail` the job, or `{to: name}`, a stream that steps and sinks can read.",
    )
    cache: CacheKeys | None = Field(
        None, description="The cache; by default there is none, except that a file is read whole."
    )
    timeout: Annotated[timedelta, positive_duration] = Field(
        timedelta(seconds=10), description="How long one call may take."
    )
    retries: Annotated[int, whole_number(0, 100)] = Field(
        3,
        description="How often a failed call is retried, after 100ms, then after twice as long "
        "each time, up to 10s. After the last one, `on_error` of the step applies to its rows.",
    )
    concurrency: Annotated[int, whole_number(1, 10_000)] = Field(
        10, description="The number of concurrent calls, over all subtasks."
    )
    ordered: Flag = Field(
        True,
        description="Whether rows are emitted in their input order. Otherwise they are emitted as "
        "calls return, though no row overtakes a watermark or a checkpoint barrier.",
    )


class LookupTablesReading(FieldReading):
    """The names and keys of lookups; `lookup_reader` reads them, as those of `lookup`."""

    part = LookupKeys

    def __init__(self) -> None:
        self.wanted = "names and lookups, as in {customers: {file: ..., on: [id], add: [name]}}"
        self.json = {"type": "object", "minProperties": 1}

    def read(self, value: object) -> object:
        if not isinstance(value, dict) or not value:
            raise make_expected_error(value, self.wanted)
        return value


class Lookup(LookupKeys):
    """A lookup, with its connector and options. `keys_at` has each key with its position."""

    loader_fields = ("connector", "options", "keys_at", "name")
    connector: ConnectorSpec
    options: Any
    keys_at: Mapping[str, Text]
    name: str = ""
    """The name of the table in a query."""
