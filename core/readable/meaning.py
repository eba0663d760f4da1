"""The operation of a step, rebuilt from what a checkpoint says of its state.

The operation is rebuilt from texts and types, without the pipeline: it has everything that folds
and window grids need, and nothing that computes rows. Aggregates whose text contains a secret are
left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.aggregates import type_aggregate_text
from headrace.core.expressions import ExpressionErrors, Span, type_expression
from headrace.core.expressions.typed import Column
from headrace.core.pipeline.text import MASK
from headrace.core.plan import nodes
from headrace.core.plan.matching import SameWindow
from headrace.core.plan.rankings import ordering
from headrace.core.plan.windows import Evict, Trigger, Window
from headrace.core.process.declared import Declared, Kind
from headrace.core.readable.joined import join_of
from headrace.core.readable.shapes import read_shape
from headrace.core.readable.users import kept_for_users
from headrace.core.snapshots import Manifest
from headrace.core.type_parser import TypeTextError, parse_type
from headrace.core.types import ATOMS, TIMESTAMP, Field, Schema, Type
from headrace.core.user_code import UserCode

NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a step: its columns under their names, and their expressions."""

    columns: Schema
    texts: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.columns.names


@dataclass(frozen=True, slots=True)
class Meaning:
    """The schema of a step's states: the operation that they belong to."""

    key: Key
    operation: nodes.Keyed
    of: Schema
    """The columns of the rows that are stored as they came."""
    timed: bool
    """Whether input rows have event times."""
    ttl: bool = False
    """Whether keys expire."""
    having: bool = False
    """Whether the state has a column for which rows were emitted."""
    changes: bool = False
    """Whether the step reads a changelog."""
    hidden: tuple[str, ...] = ()
    """The aggregates that cannot be read, because their text contains a secret."""

    @property
    def window(self) -> Window | None:
        """The window of the step."""
        return None if isinstance(self.operation, nodes.Dedup) else self.operation.window


@dataclass(frozen=True, slots=True)
class JoinMeaning:
    """The schema of a join's states."""

    key: Key
    operation: nodes.Join
    timed: tuple[bool, bool]
    """Whether the rows of each input have event times."""
    ordered: bool
    """Whether rows are stored with their position among all rows."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Always empty: a join has no computed state with secrets."""
        return ()

    @property
    def window(self) -> Window | None:
        """The window of the step."""
        matching = self.operation.matching
        return matching.window if isinstance(matching, SameWindow) else None


class Unreadable(Exception):
    """State that can only be shown as it is stored; the reason."""


def meaning(document: Manifest, step: str) -> Meaning | JoinMeaning:
    """Return the schema of a step's states. Raises Unreadable."""
    said: Any = document
    reading = said.get("readings", {}).get(step)
    if reading is None:
        raise Unreadable("it was written by a version that did not say how to read it")
    try:
        if "join" in reading:
            return _of_join(said["kept"][step], reading)
        return _meaning(said["kept"][step], reading)
    except (KeyError, TypeError, TypeTextError, ExpressionErrors) as error:
        raise Unreadable(f"it was written by another version: {error}") from error


def _meaning(kept: Mapping[str, Any], reading: Mapping[str, Any]) -> Meaning:
    key = key_of(kept["key"], reading["key"])
    of = schema_of(reading["of"])
    made = tuple(
        nodes.Computed(field.name, Column(field.type, True, NOWHERE, field.name))
        for field in key.columns
    )
    window = _window(reading["window"], of) if reading["window"] else None
    timed, ttl, having = bool(reading["timed"]), bool(kept["ttl"]), bool(kept["having"])
    if top := reading["top"]:
        by = tuple(_ranking(text, of) for text in top["by"])
        changes = "rows" in kept["states"]
        return Meaning(
            key, nodes.Top(made, window, top["rows"], by), of, timed, ttl, False, changes
        )
    if (states := reading.get("process")) is not None:
        return Meaning(key, nodes.Process(made, of, timed, body_of(states)), of, timed)
    if kept["does"].startswith("dedup"):
        return Meaning(key, nodes.Dedup(made, "first"), of, timed, ttl)
    if kept["does"].startswith("apply"):
        assert window is not None, "what is applied to rows of windows"
        return Meaning(key, nodes.Apply(made, window, _NOBODY, of, Schema(())), of, timed)
    keys = _bounded(key.columns, window)
    texts = {name: text for name, text in reading["columns"].items() if MASK not in text}
    columns = tuple(
        nodes.Aggregated(name, type_aggregate_text(text, of, keys), text)
        for name, text in texts.items()
    )
    users = reading.get("users", {})
    columns += tuple(kept_for_users(name, call) for name, call in users.items() if call["keeps"])
    secret = (name for name, call in users.items() if not call["keeps"])
    hidden = (*(name for name in reading["columns"] if name not in texts), *secret)
    changes = "rows" in kept["states"]
    operation = nodes.Aggregate(made, window, columns)
    return Meaning(key, operation, of, timed, ttl, having, changes, hidden)


def _of_join(kept: Mapping[str, Any], reading: Mapping[str, Any]) -> JoinMeaning:
    said = reading["join"]
    left, right = said["sides"]
    return JoinMeaning(
        key_of(kept["key"], reading["key"]),
        join_of(said, _window(reading["window"], Schema(())) if reading["window"] else None),
        (left["timed"], right["timed"]),
        said["ordered"],
    )


def body_of(states: Mapping[str, Any]) -> nodes.Body:
    """Rebuild a user-defined class, as far as its states are concerned."""
    read = tuple(
        (name, Declared(Kind(kind), tuple(map(_type, types)), ttl_us, shared="shared" in more))
        for name, (kind, types, is_aged, *more) in states.items()
        for ttl_us in (0 if is_aged else None,)
    )
    return nodes.Body("", "", Schema(()), (), True, read)


def key_of(kept: Iterable[tuple[str, str]], names: Iterable[str] | None = None) -> Key:
    """Return the key of a checkpoint; without names, its expressions are the names."""
    kept = tuple(kept)
    texts = tuple(text for text, _ in kept)
    types = (_type(type) for _, type in kept)
    fields = (Field(n, type) for n, type in zip(names or texts, types, strict=True))
    return Key(Schema(tuple(fields)), texts)


def schema_of(columns: Mapping[str, str]) -> Schema:
    """Return the schema of columns with types as texts."""
    return Schema(tuple(Field(name, _type(text)) for name, text in columns.items()))


def _bounded(keys: Schema, window: Window | None) -> Schema:
    bounds = nodes.BOUNDS if window and window.bounded else ()
    return Schema((*keys, *(Field(name, TIMESTAMP) for name in bounds)))


def _type(text: str) -> Type:
    return ATOMS[text] if text in ATOMS else parse_type(text)[0]


def _ranking(text: str, rows: Schema) -> nodes.Ranking:
    if MASK in text:
        raise Unreadable("what it ranks by is a secret")
    end, descending, nulls_last = ordering(text)
    return nodes.Ranking(type_expression(text[:end], rows), descending, nulls_last, text)


_NOTHING = Schema(())
_NOBODY = UserCode(Path(), "", "")
"""Stands in for user code, which is not run to show state."""


def _evict(said: Mapping[str, Any], of: Schema) -> Evict:
    if said.get("python"):
        return Evict(code=_NOBODY, of=of)
    return Evict(said["last"], said["within_us"])


def _trigger(said: Mapping[str, Any]) -> Trigger:
    if said.get("python"):
        return Trigger(code=_NOBODY, of=Schema(()), state=Schema(()))
    return Trigger(said["every_us"], said["count"], said["processing"])


def _window(said: Mapping[str, Any], of: Schema = _NOTHING) -> Window:
    return Window(
        read_shape(said["shape"]),
        said["lateness_us"],
        None,
        said["processing"],
        _trigger(said["trigger"]) if said["trigger"] else None,
        said["accumulate"],
        _evict(said["evict"], of) if said["evict"] else None,
    )
