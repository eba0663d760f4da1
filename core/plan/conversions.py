"""The steps that a plan adds where a reader needs changes of another kind than a stream has.

A step that moves rows between groups reads retractions. A sink writes by key, because the removal
of a row may arrive after the row that replaces it; or it writes each change with the row that is
replaced. One step serves all readers of the same form.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from typing import Literal

from headrace.core.expressions import type_expression
from headrace.core.expressions.typed import reference_field
from headrace.core.pipeline.model import Sink
from headrace.core.plan import nodes
from headrace.core.plan.changelog import infer_kind
from headrace.core.plan.columns import KnownColumns, PlanProblems
from headrace.core.plan.endpoints import get_format
from headrace.core.types.change_columns import CHANGE, INSERT, SEQUENCE, ChangeForm
from headrace.core.types.data_types import Field, Schema, is_nested
from headrace.core.types.lazy_dataclass import dataclass

_CONVERSION_SUFFIXES: Mapping[ChangeForm, str] = {"full": "changes", "debezium": "debezium"}
"""The last part of the names of steps that bring changes into a form."""


@dataclass(frozen=True, slots=True)
class ConversionSteps:
    """The conversions of a plan's streams; a new one is added to the streams and parts."""

    streams: MutableMapping[str, nodes.Stream]
    known_columns: MutableMapping[str, KnownColumns]
    parts: MutableMapping[str, nodes.Source | nodes.Step]
    producers: Mapping[str, str]
    """The part that produces each stream."""

    def to_retractions(self, name: str) -> str:
        """Return the stream, with retractions in place of upserts."""
        is_upsert = isinstance(self.streams[name].kind, nodes.Upsert)
        return self._convert(str(name), "retract") if is_upsert else self.streams[name].name

    def to_upserts(self, name: str) -> str:
        """Return the stream, with upserts in place of retractions that have a key."""
        return self._convert(str(name), "upsert")

    def convert_for_sink(self, sink: Sink, stream: nodes.Stream, report: PlanProblems) -> str:
        """Return the stream with the changes as the sink writes them; report if it cannot."""
        side, kind, format = sink.connector.sink, stream.kind, get_format(sink)
        assert side is not None, "the document checked it"
        form = side.get_change_form(sink.options, format.name if format else "")
        is_keyed = not isinstance(kind, nodes.Append) and kind.key is not None
        if form == "full":
            if _check_change_columns(sink, stream, report):
                return self._convert_by_kind(str(sink.from_), form)
        elif is_keyed:
            if form is not None or isinstance(kind, nodes.Retract):
                # The removal of a row may arrive after the row that replaces it.
                return self._convert_by_kind(str(sink.from_), form)
        elif isinstance(kind, nodes.Append) and form is not None:
            message = f'the rows of "{sink.from_}" replace no others: {format} is for changes'
            hint = "format: json writes them; dedup: {key: ..., keep: last} makes changes of them"
            report.add(message, sink.keys_at["format"].locate(), hint)
        elif isinstance(kind, nodes.Retract) and not side.takes_removed_rows:
            message = (
                f'the rows of "{sink.from_}" are added and removed, and have no key by which '
                f"{sink.connector.name} could write them"
            )
            hint = (
                "aggregate the rows by a key, or keep the columns that identify the rows of all "
                f"inputs{side.unkeyed_hint}"
            )
            report.add(message, sink.from_.locate(), hint)
        return stream.name

    def _convert_by_kind(self, name: str, form: ChangeForm | None) -> str:
        """Return the converted stream; the rows stored for it depend on the kind of changes."""
        is_upsert = isinstance(self.streams[name].kind, nodes.Upsert)
        return self._convert(name, "retract" if is_upsert else "upsert", form)

    def _convert(
        self, name: str, output: Literal["retract", "upsert"], form: ChangeForm | None = None
    ) -> str:
        """Return the stream with the changes of another one as upserts or as retractions, or in
        the form in which a sink writes them.

        The step that converts them is added unless another reader needs it too.
        """
        stream = self.streams[name]
        converted = format_conversion_name(name, _CONVERSION_SUFFIXES[form] if form else output)
        if converted in self.parts:
            return converted
        if isinstance(stream.kind, nodes.Append):
            operation: nodes.Operation = _build_appended_changes(stream)
            added: tuple[Field, ...] = nodes.CHANGE_FIELDS
            timed = stream.has_event_time
        else:
            operation = _build_conversion(stream, output, form)
            added, timed = operation.added_columns, operation.has_event_time
        schema = Schema((*stream.schema, *added))
        out = nodes.Stream(converted, schema, infer_kind(operation, stream.kind), timed)
        producer = self.parts[self.producers[name]]
        self.parts[converted] = nodes.Step(
            converted,
            (stream.name,),
            (operation,),
            "fail",
            (out,),
            producer.parallelism,
            slot=producer.slot,
        )
        self.streams[converted] = out
        known = self.known_columns[name]
        # The columns that a user's options may name.
        self.known_columns[converted] = replace(known, schema=schema) if form == "full" else known
        return converted


def format_conversion_name(stream: str, output: str) -> str:
    """Return the name of the step that converts a stream; no stream of the user has such a name.

    >>> format_conversion_name("customers", "retract")
    'customers@retract'
    """
    return f"{stream}@{output}"


def _build_conversion(
    stream: nodes.Stream, output: Literal["retract", "upsert"], form: ChangeForm | None = None
) -> nodes.ChangelogConversion:
    """Return the conversion of a stream of changes; with a form, `output` is what it stores.

    Rows without a key are counted, by the columns that have an order.
    """
    assert not isinstance(stream.kind, nodes.Append), "no change is converted"
    fields = {field.name: field for field in stream.schema}
    of = stream.kind.key
    names = [f.name for f in stream.schema if not is_nested(f.type)] if of is None else of
    key = tuple(nodes.ComputedColumn(name, reference_field(fields[name])) for name in names)
    timed = stream.has_event_time and form != "full"
    return nodes.ChangelogConversion(
        key, "counted" if of is None else output, stream.schema, timed, form
    )


def _build_appended_changes(stream: nodes.Stream) -> nodes.Project:
    """Return the operation that makes each row of an append-only stream an inserted one.

    No row replaces another, so each is the first change of itself.
    """
    added = {CHANGE: f"'{INSERT}'", SEQUENCE: "cast(1 as bigint)"}
    columns = (
        *(nodes.ComputedColumn(field.name, reference_field(field)) for field in stream.schema),
        *(
            nodes.ComputedColumn(n, type_expression(text, Schema(())), text)
            for n, text in added.items()
        ),
    )
    return nodes.Project(
        "with", columns, ", ".join(f"{name}: {text}" for name, text in added.items())
    )


def _check_change_columns(sink: Sink, stream: nodes.Stream, report: PlanProblems) -> bool:
    """Whether no column of a stream has the name of one that describes changes."""
    taken = [field.name for field in nodes.CHANGE_FIELDS if field.name in stream.schema]
    if taken:
        message = f'changelog: full adds a column "{taken[0]}", and "{sink.from_}" has one'
        hint = f"rename it in a step before: with: {{change_of: {taken[0]}}}, drop: [{taken[0]}]"
        report.add(message, sink.from_.locate(), hint)
    return not taken
