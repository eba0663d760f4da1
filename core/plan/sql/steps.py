"""The steps of a query: tables with their columns, and drafts of steps that become tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from headrace.core.expressions.typed import Span
from headrace.core.pipeline.clauses.joins import Join
from headrace.core.pipeline.clauses.keyed import Ttl
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.changelog import has_change_times
from headrace.core.plan.columns import KnownColumns
from headrace.core.plan.sql.scope import Scope, ScopeColumn, scope_of_table
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery
from headrace.core.plan.sql.time_columns import TimeColumnFinder
from headrace.core.types.data_types import Schema, quote_name
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StreamTable:
    """The graph of the streams that exist so far, as the builder of the plan has it."""

    streams: Mapping[str, nodes.Stream]
    known_columns: Mapping[str, KnownColumns]
    parts: Mapping[str, nodes.Source | nodes.Step]


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream as a table of a query; its scope is that of a step that reads it alone."""

    stream: Text
    scope: Scope
    schema: Schema
    kind: nodes.StreamKind
    has_event_time: bool

    def rename(self, table: str, columns: Mapping[str, str] | None = None) -> Relation:
        """Return it under another name."""
        times = {c.stored: c.time for c in self.scope.columns if c.time is not None}
        return replace(self, scope=scope_of_table(table, self.schema, times, columns))


def hide_columns(relation: Relation) -> Relation:
    """Return rows of which no name in the query means a column."""
    columns = (replace(each, in_star=False) for each in relation.scope.columns)
    return replace(relation, scope=Scope(tuple(columns)))


@dataclass(slots=True)
class Draft:
    """A step that is being written: its inputs, its clauses, and the scope of the next clause.

    `tables` name it if it becomes a step inside the query.
    """

    inputs: tuple[Relation, ...]
    scope: Scope
    tables: tuple[str, ...]
    clauses: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    join: Join | None = None
    joined: str = ""
    """The name of the query of a condition or a value that it joins."""
    words: frozenset[str] | None = None
    """The words of the query, if no column is read that is not among them."""
    columns: list[tuple[str, Text, Span]] = field(default_factory=list)
    """The columns of the result, once its last clause is written: name, text and place of each."""

    @property
    def label(self) -> str:
        """The name of its step, if it becomes one inside the query."""
        return "-".join(filter(None, (*self.tables, self.joined)))

    @property
    def is_empty(self) -> bool:
        """Whether it does nothing but read one table."""
        return not self.clauses and self.join is None and len(self.inputs) == 1


class _Places(dict[str, Text]):
    """The positions of a step's clauses; those that the query implies are where it begins."""

    def __init__(self, known: Mapping[str, Text], default: Text) -> None:
        super().__init__(known)
        self._default = default

    def __missing__(self, key: str) -> Text:
        return self._default


class StepWriter:
    """Turns drafts into steps of the pipeline, which are built at once, so their columns are known.

    `build` adds a step to the plan.
    """

    def __init__(
        self,
        step: Step,
        texts: QueryTexts,
        table: StreamTable,
        build: Callable[[Step], None],
    ) -> None:
        self.step = step
        self.texts = texts
        self.table = table
        self._build = build
        self._times = TimeColumnFinder(table.parts)
        self._names: set[str] = set()

    def find_ttl(self, inputs: Iterable[Relation]) -> Ttl | None:
        """Return the `ttl` of the step, if the inputs are facts: rows of tables are stored until
        they are deleted."""
        facts = all(isinstance(each.kind, nodes.Append) for each in inputs)
        return self.step.ttl if facts else None

    def find_key_ttl(self, inputs: Iterable[Relation]) -> Ttl | None:
        """Return the `ttl` of a step that groups its rows by a key.

        By event time it applies to rows of tables too, if they have event times of their own.
        """
        relations, ttl = tuple(inputs), self.step.ttl
        timed = all(each.has_event_time and not has_change_times(each.kind) for each in relations)
        return ttl if timed and ttl and ttl.time == "event" else self.find_ttl(relations)

    def find_source(self, name: str, alias: str, place: Span) -> Relation:
        """Return a source or step of the pipeline as a table. Raises RejectedQuery."""
        text = self.texts.name(name, place)
        known, stream = self.table.known_columns.get(name), self.table.streams.get(name)
        if known is None or stream is None or not known.is_complete:
            raise RejectedQuery
        times = self._times.find(stream.name)
        scope = scope_of_table(alias, known.schema, times)
        return Relation(text, scope, known.schema, stream.kind, stream.has_event_time)

    def choose_name(self, *parts: str) -> str:
        """Return the name of a step inside the query, after what it is in the query."""
        name = "@".join((str(self.step.name), *filter(None, parts)))
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def write(self, draft: Draft, name: str, alias: str = "") -> Relation:
        """Build the step of a draft, and return its rows. Raises RejectedQuery."""
        step = self.step
        inputs = tuple(each.stream for each in draft.inputs)
        default = step.keys_at["sql"]
        places = {key: self.texts.name(key, span) for key, span in draft.places.items()}
        keys_at = _Places({"from": default, "sql": default, **places}, default)
        for key in ("parallelism", "slot", "chain", "ttl"):
            if key in step.keys_at:
                keys_at[key] = step.keys_at[key]
        model = Step.model_construct(
            name=Text(name, step.name.scalar, step.name.pieces),
            from_=inputs,
            keys_at=keys_at,
            input_streams=inputs,
            states={},
            join=draft.join,
            parallelism=step.parallelism,
            slot=step.slot,
            chain=step.chain,
            **draft.clauses,
        )
        self._build(model)
        return self.find_source(name, alias, draft.places.get("select", Span(0, 0)))

    def write_inner(self, draft: Draft, path: tuple[str, ...]) -> Draft:
        """Build the step of a draft inside the query, and return a draft that reads its rows."""
        relation = self.materialize(draft, self.choose_name(*path, draft.label))
        places, words = draft.places, draft.words
        return Draft((relation,), relation.scope, draft.tables, places=places, words=words)

    def materialize(self, draft: Draft, name: str) -> Relation:
        """Return the rows of a draft with all its columns, each of which has its own name.

        The names of its tables stay those that stand before columns.
        """
        if draft.is_empty:
            return replace(draft.inputs[0], scope=draft.scope)
        kept = _name_columns(draft)
        place = draft.places.get("select", Span(0, 0))
        is_changed = any(quote_name(own) != each.text for own, each in kept)
        if draft.join is not None or is_changed:
            draft.clauses["select"] = tuple(
                Assignment(self.texts.name(own, place), self.texts.name(each.text, place))
                for own, each in kept
            )
        made = self.write(draft, name)
        times = {c.stored: c.time for c in made.scope.columns}
        fields = {f.name: f for f in made.schema}
        return replace(
            made,
            scope=Scope(
                tuple(
                    replace(
                        each,
                        field=replace(fields[own], name=each.name),
                        text=quote_name(own),
                        side="",
                        stored=own,
                        time=times[own],
                    )
                    for own, each in kept
                )
            ),
        )


def select_all(columns: Sequence[str], texts: QueryTexts, place: Span) -> tuple[Assignment, ...]:
    """Return a clause `select` of plain columns."""
    return tuple(Assignment(texts.name(each, place), None) for each in columns)


def _name_columns(draft: Draft) -> list[tuple[str, ScopeColumn]]:
    """Return the columns that a step inside a query has, each with a name of its own.

    Those of several tables have the table in their name, whether or not another table has such a
    column today: names are a part of the state.
    """
    kept = [
        each
        for each in draft.scope.columns
        if draft.words is None
        or not (each.in_star and each.name.isidentifier())
        or each.name in draft.words
    ]
    has_one_table = len({each.table for each in kept if each.in_star} - {""}) <= 1
    named: dict[str, ScopeColumn] = {}
    for each in kept:
        is_plain = has_one_table or not each.table
        own = each.name if is_plain else f"{each.table}.{each.name}"
        while own in named:
            own += "_"
        named[own] = each
    return [*named.items()]
