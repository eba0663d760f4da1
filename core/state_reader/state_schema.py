"""The operation of a step, rebuilt from what a checkpoint says of its state.

The operation is rebuilt from texts and types, without the pipeline: it has everything that folds
and window grids need, and nothing that computes rows. Aggregates whose text contains a secret are
left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from headrace.core.aggregates import type_aggregate_text
from headrace.core.aggregates.over_calls import type_over
from headrace.core.api.snapshots import DamagedSnapshot, Manifest
from headrace.core.api.user_code import UserCode
from headrace.core.expressions import ExpressionErrors, type_expression
from headrace.core.expressions.parsing.frame_parser import parse_framed_expression
from headrace.core.expressions.typed import NOWHERE, ColumnReference
from headrace.core.pipeline.text import MASK
from headrace.core.plan import nodes
from headrace.core.plan.fingerprint import Fingerprint, parse_fingerprint
from headrace.core.plan.nodes.matching import WindowMatch
from headrace.core.plan.nodes.windows import Evict, Trigger, Window
from headrace.core.plan.rankings import parse_ordering
from headrace.core.plan.states import HELD_RIGHT_ROWS, RULES_STATE
from headrace.core.process.declarations import Declared, Kind
from headrace.core.state_reader.join_metadata import rebuild_join
from headrace.core.state_reader.user_aggregates import (
    build_partials_column,
    build_results_column,
)
from headrace.core.state_reader.window_shapes import read_shape
from headrace.core.types.data_types import ATOMS, TIMESTAMP, Field, Schema, Type
from headrace.core.types.elements import SEQUENCE
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.type_parser import TypeTextError, parse_type


@dataclass(frozen=True, slots=True)
class StateKey:
    """The key of a step: its columns under their names, and their expressions."""

    columns: Schema
    expressions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.columns.names


@dataclass(frozen=True, slots=True)
class StateSchema:
    """The schema of a step's states: the operation that they belong to."""

    key: StateKey
    operation: nodes.KeyedOperation
    stored_columns: Schema
    """The columns of the rows that are stored as they came."""
    is_timed: bool
    """Whether input rows have event times."""
    has_ttl: bool = False
    """Whether keys expire."""
    has_having: bool = False
    """Whether the state has a column for which rows were emitted."""
    is_changelog: bool = False
    """Whether the step reads a changelog."""
    value_columns: Mapping[str, Schema] = field(default_factory=dict)
    """The columns of counted values, or of rules, by state."""
    hidden_aggregates: tuple[str, ...] = ()
    """The aggregates that cannot be read, because their text contains a secret."""
    group_ttl_us: int | None = None
    """The time from the newest row of a group with pages to its expiry."""

    @property
    def window(self) -> Window | None:
        """The window of the step."""
        return None if isinstance(self.operation, nodes.Dedup) else self.operation.window


@dataclass(frozen=True, slots=True)
class JoinStateSchema:
    """The schema of a join's states."""

    key: StateKey
    operation: nodes.Join
    timed_inputs: tuple[bool, bool]
    """Whether the rows of each input have event times."""
    is_ordered: bool
    """Whether rows are stored with their position among all rows."""

    @property
    def hidden_aggregates(self) -> tuple[str, ...]:
        """Always empty: a join has no computed state with secrets."""
        return ()

    @property
    def window(self) -> Window | None:
        """The window of the step."""
        matching = self.operation.matching
        return matching.window if isinstance(matching, WindowMatch) else None


class UnreadableState(Exception):
    """State that can only be shown as it is stored; the reason."""


FORM_ERRORS = (AttributeError, LookupError, TypeError, ValueError)
"""The errors of reading plain data that has another form."""


def read_state_schema(document: Manifest, step: str) -> StateSchema | JoinStateSchema:
    """Return the schema of a step's states. Raises UnreadableState."""
    content: Any = document
    reading = content.get("readings", {}).get(step)
    if reading is None:
        raise UnreadableState("it was written by a version that did not say how to read it")
    try:
        fingerprint = parse_fingerprint(step, content["kept"])
        if "join" in reading:
            return _build_join_schema(fingerprint, reading)
        return _build_state_schema(fingerprint, reading)
    except (DamagedSnapshot, TypeTextError, ExpressionErrors, *FORM_ERRORS) as error:
        raise UnreadableState(f"it was written by another version: {error}") from error


def _build_state_schema(fingerprint: Fingerprint, reading: Mapping[str, Any]) -> StateSchema:
    key = rebuild_key(fingerprint.key, reading["key"])
    of = parse_schema(reading["of"])
    made = tuple(
        nodes.ComputedColumn(field.name, ColumnReference(field.type, True, NOWHERE, field.name))
        for field in key.columns
    )
    window = _rebuild_window(reading["window"], of) if reading["window"] else None
    timed, ttl, changes = (
        bool(reading["timed"]),
        bool(fingerprint.ttl),
        bool({"rows", "ranking"}.intersection(fingerprint.states)) or "values" in reading,
    )
    weighted = bool(reading.get("weighted"))
    group_ttl_us = reading.get("ttl_us")
    if top := reading["top"]:
        by = tuple(_parse_ranking(text, of) for text in top["by"])
        is_dedup, (first, *_) = fingerprint.operation.startswith("dedup"), by
        time = first.value.name if is_dedup and isinstance(first.value, ColumnReference) else ""
        ranked = nodes.Top(
            made,
            window,
            top["rows"],
            by,
            reads_retractions=weighted,
            time_column=time,
            ties=top.get("ties", "row_number"),
        )
        return StateSchema(key, ranked, of, timed, ttl, False, changes, group_ttl_us=group_ttl_us)
    if (states := reading.get("process")) is not None:
        return StateSchema(key, nodes.Process(made, of, timed, rebuild_body(states)), of, timed)
    if (over := reading.get("over")) is not None:
        added, hidden = _rebuild_over(over, of)
        return StateSchema(
            key, nodes.Over(made, added, of), of, timed, ttl, hidden_aggregates=hidden
        )
    if (pattern := reading.get("match")) is not None:
        return StateSchema(key, _rebuild_match(made, pattern, of), of, timed)
    if (rules := reading.get("rules")) is not None:
        of_rules = dict.fromkeys((RULES_STATE, HELD_RIGHT_ROWS), parse_schema(rules))
        match = replace(_rebuild_match(made, "a", of), stores_rows=True)
        return StateSchema(key, match, of, timed, value_columns=of_rules)
    if (output := reading.get("conversion")) is not None:
        converted = nodes.ChangelogConversion(made, output, of, timed, reading.get("form"))
        return StateSchema(key, converted, of, timed)
    if "changes" in reading:
        newest = _rebuild_change_order(reading["changes"])
        return StateSchema(key, nodes.Dedup(made, "last", changes=newest), of, timed, ttl)
    if fingerprint.operation.startswith("dedup"):
        return StateSchema(key, nodes.Dedup(made, "first"), of, timed, ttl)
    if fingerprint.operation.startswith("apply"):
        if window is None:
            raise KeyError("window")
        return StateSchema(
            key, nodes.Apply(made, window, _MISSING_USER_CODE, of, Schema(())), of, timed
        )
    keys = _add_window_bounds(key.columns, window)
    columns, hidden = _rebuild_aggregates(reading, of, keys, has_results=changes)
    operation = nodes.Aggregate(made, window, columns, reads_retractions=weighted)
    values = {name: parse_schema(dict(each)) for name, each in reading.get("values", {}).items()}
    return StateSchema(
        *(key, operation, of, timed, ttl, fingerprint.has_having, changes, values, hidden),
        group_ttl_us,
    )


def _rebuild_match(key: tuple[nodes.ComputedColumn, ...], pattern: str, of: Schema) -> nodes.Match:
    """Return a match that stores the runs of a pattern."""
    from headrace.core.patterns.parser import parse_pattern

    after = nodes.AfterMatch()
    return nodes.Match(key, parse_pattern(pattern), (), None, after, (), True, of, 1)


def _rebuild_over(
    texts: Mapping[str, str], of: Schema
) -> tuple[tuple[nodes.OverColumn, ...], tuple[str, ...]]:
    """Return the columns over ordered rows, and the names of those that contain a secret."""
    shown = {name: text for name, text in texts.items() if MASK not in text}
    columns = tuple(
        nodes.OverColumn(name, type_over(parse_framed_expression(text), of), text)
        for name, text in shown.items()
    )
    return columns, tuple(name for name in texts if name not in shown)


def _rebuild_change_order(sequence: str | None) -> nodes.ChangeOrder:
    """Return the order of a table's changes; the type of their sequence is given, if any."""
    if sequence is None:
        return nodes.ChangeOrder("place")
    value = ColumnReference(_parse_type_text(sequence), True, NOWHERE, SEQUENCE)
    return nodes.ChangeOrder("sequence", nodes.ComputedColumn(SEQUENCE, value))


def _rebuild_aggregates(
    reading: Mapping[str, Any], of: Schema, keys: Schema, *, has_results: bool
) -> tuple[tuple[nodes.AggregatedColumn, ...], tuple[str, ...]]:
    """Return the aggregates that can be computed again, and the names of the others.

    `has_results`: the state has their results, and not only the partials of user-defined ones.
    """
    build_user_column = build_results_column if has_results else build_partials_column
    texts = {name: text for name, text in reading["columns"].items() if MASK not in text}
    columns = tuple(
        nodes.AggregatedColumn(name, type_aggregate_text(text, of, keys), text)
        for name, text in texts.items()
    )
    users = reading.get("users", {})
    columns += tuple(build_user_column(name, call) for name, call in users.items() if call["keeps"])
    secret = (name for name, call in users.items() if not call["keeps"])
    return columns, (*(name for name in reading["columns"] if name not in texts), *secret)


def _build_join_schema(fingerprint: Fingerprint, reading: Mapping[str, Any]) -> JoinStateSchema:
    document = reading["join"]
    left, right = document["sides"]
    return JoinStateSchema(
        rebuild_key(fingerprint.key, reading["key"]),
        rebuild_join(
            document, _rebuild_window(reading["window"], Schema(())) if reading["window"] else None
        ),
        (left["timed"], right["timed"]),
        document["ordered"],
    )


def rebuild_body(states: Mapping[str, Any]) -> nodes.ProcessBody:
    """Rebuild a user-defined class, as far as its states are concerned."""
    read = tuple(
        (
            name,
            Declared(
                Kind(kind), tuple(map(_parse_type_text, types)), ttl_us, shared="shared" in more
            ),
        )
        for name, (kind, types, is_aged, *more) in states.items()
        for ttl_us in (0 if is_aged else None,)
    )
    return nodes.ProcessBody("", "", Schema(()), (), True, read)


def rebuild_key(
    key_columns: Iterable[tuple[str, str]], names: Iterable[str] | None = None
) -> StateKey:
    """Return the key of a checkpoint; without names, its expressions are the names."""
    key_columns = tuple(key_columns)
    texts = tuple(text for text, _ in key_columns)
    types = (_parse_type_text(type) for _, type in key_columns)
    fields = (Field(n, type) for n, type in zip(names or texts, types, strict=True))
    return StateKey(Schema(tuple(fields)), texts)


def parse_schema(columns: Mapping[str, str]) -> Schema:
    """Return the schema of columns with types as texts."""
    return Schema(tuple(Field(name, _parse_type_text(text)) for name, text in columns.items()))


def _add_window_bounds(keys: Schema, window: Window | None) -> Schema:
    bounds = nodes.WINDOW_BOUNDS if window and window.has_bounds else ()
    return Schema((*keys, *(Field(name, TIMESTAMP) for name in bounds)))


def _parse_type_text(text: str) -> Type:
    return ATOMS[text] if text in ATOMS else parse_type(text)[0]


def _parse_ranking(text: str, rows: Schema) -> nodes.Ranking:
    if MASK in text:
        raise UnreadableState("what it ranks by is a secret")
    end, descending, nulls_last = parse_ordering(text)
    return nodes.Ranking(type_expression(text[:end], rows), descending, nulls_last, text)


_EMPTY_SCHEMA = Schema(())
_MISSING_USER_CODE = UserCode(Path(), "", "")
"""Stands in for user code, which is not run to show state."""


def _rebuild_evictor(document: Mapping[str, Any], of: Schema) -> Evict:
    if document.get("python"):
        return Evict(code=_MISSING_USER_CODE, input_columns=of)
    return Evict(document["last"], document["within_us"])


def _rebuild_trigger(document: Mapping[str, Any]) -> Trigger:
    if document.get("python"):
        return Trigger(code=_MISSING_USER_CODE, input_columns=Schema(()), state=Schema(()))
    return Trigger(document["every_us"], document["count"], document["processing"])


def _rebuild_window(document: Mapping[str, Any], of: Schema = _EMPTY_SCHEMA) -> Window:
    return Window(
        read_shape(document["shape"]),
        document["lateness_us"],
        None,
        document["processing"],
        _rebuild_trigger(document["trigger"]) if document["trigger"] else None,
        document["accumulate"],
        _rebuild_evictor(document["evict"], of) if document["evict"] else None,
    )
