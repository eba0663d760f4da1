"""The clause `lookup` of a step: which rows of a table go beside the rows that come.

Beside these keys stands one connector, as in a source. `core/pipeline/lookup_reader` reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from headrace.core.connector import Connector
from headrace.core.pipeline.complaints import KEY, Gathered, wanted, wrong
from headrace.core.pipeline.data import NOTHING
from headrace.core.pipeline.fields import (
    Assignment,
    Assignments,
    OneOrMany,
    TypeReading,
    attempt,
)
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.settings import positive
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Count, Flag, Name, Reading, column, whole
from headrace.core.problems import did_you_mean
from headrace.core.types import STRING, Type


@dataclass(frozen=True, slots=True)
class Added:
    """A column that comes from the table: what it is called, there and here, and its type."""

    name: Text
    column: Text
    type: Type = STRING
    nullable: bool = True


class Adding(Reading):
    """Columns of the table, their types, and what they are to be called."""

    def __init__(self) -> None:
        self.wanted = "columns of the table and their types, as in {name: string, tier: int}"
        renamed = {
            "type": "object",
            "properties": {
                "column": column.json | {"description": "What the table calls it."},
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

    def read(self, value: object) -> tuple[Added, ...]:
        if isinstance(value, list) and value:
            names = OneOrMany(column, self.wanted).read(value)
            return tuple(Added(name, name) for name in names)
        if not isinstance(value, dict) or not value:
            hint = f"write [{value}]" if isinstance(value, Text) and not value.secret else ""
            raise wanted(value, self.wanted, hint)
        gathered = Gathered()
        found = [self._one(gathered, key, said) for key, said in value.items()]
        gathered.check()
        return tuple(added for added in found if added is not None)

    def _one(self, gathered: Gathered, key: Text, said: object) -> Added | None:
        attempt(gathered, column, key, key, KEY)
        if isinstance(said, dict):
            return self._renamed(gathered, key, said)
        typed = attempt(gathered, TypeReading(), said, key)
        return Added(key, key, *typed) if isinstance(typed, tuple) else None

    def _renamed(self, gathered: Gathered, key: Text, said: dict[Text, object]) -> Added | None:
        unknown = [other for other in said if other not in ("column", "type")]
        for other in unknown:
            hint = did_you_mean(other, ("column", "type")) or "it has column and type"
            gathered.add(wrong(other, f'unknown key "{other}"', hint), key, other, KEY)
        if "column" not in said:
            if not unknown:
                gathered.add(wrong(key, 'missing key "column"', "the table's name for it"), key)
            return None
        name = attempt(gathered, column, said[Text("column")], key, "column")
        typed: object = (STRING, True)
        if "type" in said:
            typed = attempt(gathered, TypeReading(), said[Text("type")], key, "type")
        if isinstance(name, Text) and isinstance(typed, tuple):
            return Added(key, name, *typed)
        return None


@dataclass(frozen=True, slots=True)
class OnMiss:
    """What becomes of a row that the table has nothing for."""

    action: Literal["null", "drop", "fail", "to"] = "null"
    to: Text | None = None

    def __str__(self) -> str:
        return f"to {self.to}" if self.to else self.action


class MissStream(Part):
    """Where rows go that find nothing."""

    to: Name = Field(description="A stream that steps and sinks can read.")


class OnMissReading(Reading):
    """`null`, `drop`, `fail` or `{to: name}`; YAML's null is the word."""

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
        raise wanted(value, self.wanted, hint)


class CacheKeys(Part):
    """How much is remembered of what the table said, and for how long; also that it had nothing."""

    rows: Count = Field(10_000, description="So many keys; those asked for longest ago go first.")
    ttl: Annotated[timedelta, positive] = Field(
        timedelta(minutes=1), description="After so long a key is asked for again."
    )


LOOKUP_HABITS: Mapping[str, str] = {
    **dict.fromkeys(("key", "keys", "by", "where"), "on"),
    **dict.fromkeys(("columns", "select", "returns", "with", "fields"), "add"),
    **dict.fromkeys(("missing", "on_missing", "not_found", "default"), "on_miss"),
    **dict.fromkeys(("parallel", "capacity", "max_in_flight"), "concurrency"),
    **dict.fromkeys(("retry", "attempts"), "retries"),
    **dict.fromkeys(("files", "csv", "path"), "file"),
    **dict.fromkeys(("database", "jdbc", "table", "db"), "sql"),
    **dict.fromkeys(("url", "rest", "api"), "http"),
}


class LookupKeys(Part):
    """Columns of a table go beside the rows that come: those of the table's row for their key.

    Beside these keys stands the table: one of `file`, `sql` and `http`. It is asked for the keys of
    many rows at once, and while it is, rows wait and others come. [Lookups](lookup.md) tells more.
    """

    habits = LOOKUP_HABITS

    on: Annotated[
        tuple[Assignment, ...],
        Assignments(
            "columns of the table and what they equal, as in {id: customer_id}", lists=True
        ),
    ] = Field(
        description="Columns of the table, and the expression over the row that each of them "
        "equals; a list where both have the same name. Null equals nothing: such a row is a miss."
    )
    add: Annotated[tuple[Added, ...], Adding()] = Field(
        description="The columns that are added, and their types. A list of names are strings; "
        "`{new_name: {column: name, type: int}}` gives one another name."
    )
    on_miss: Annotated[OnMiss, OnMissReading()] = Field(
        OnMiss(),
        description="What becomes of a row that the table has nothing for: `null` in the columns, "
        "`drop` the row, `fail` the job, or `{to: name}`, a stream that steps and sinks can read.",
    )
    cache: CacheKeys | None = Field(
        None, description="What is remembered; by default nothing, but for a file's all of it."
    )
    timeout: Annotated[timedelta, positive] = Field(
        timedelta(seconds=10), description="How long one call may take."
    )
    retries: Annotated[int, whole(0, 100)] = Field(
        3,
        description="How often a call that failed is tried again, after 100ms, then twice as long "
        "each time, up to 10s. Then `on_error` of the step says what becomes of its rows.",
    )
    concurrency: Annotated[int, whole(1, 10_000)] = Field(
        10, description="How many calls there may be at a time, of all subtasks together."
    )
    ordered: Flag = Field(
        True,
        description="Whether rows go on in the order in which they came. Else those go on first "
        "that are answered first, though none passes a watermark or a checkpoint.",
    )


class Lookup(LookupKeys):
    """A lookup, with what its connector key said. `keys_at` has each key with its place."""

    added = ("connector", "options", "keys_at")
    connector: Connector
    options: Any
    keys_at: Mapping[str, Text]
