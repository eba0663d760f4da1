"""Sources and sinks of the plan: what columns come in, and whether what goes out can be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.core.contracts import ExpressionOption
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.model import Sink, Source
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.columns import UNKNOWN, Known, Report, known_of, output
from headrace.core.problems import Place, did_you_mean
from headrace.core.types import (
    BIGINT,
    BINARY,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Field,
    Schema,
    Struct,
)

RAW = Schema((Field("value", STRING, nullable=False),))
"""The columns of `format: raw` where none are declared: the record as it came."""

DEAD_LETTERS = Schema(
    (
        Field("error", STRING, nullable=False),
        Field("step", STRING, nullable=False),
        Field("source", STRING),
        Field("split", STRING),
        Field("position", BIGINT),
        Field("raw", STRING),
        Field("at", TIMESTAMP, nullable=False),
    )
)
"""The columns of a stream of rows that failed (`on_error: {to: name}`)."""


def source_columns(source: Source, report: Report) -> Known:
    """The columns that a source brings; what is wrong with them is reported."""
    side = source.connector.source
    assert side is not None, "the document checked it"
    if not side.declares_columns and source.columns is not None:
        message = f"{source.connector.name} brings its own columns"
        report.add(message, source.keys_at["schema"].locate(), "leave schema: away")
    if side.columns is not None:
        return Known(side.columns(source.options))
    for option in side.expressions:
        if option.makes_columns:
            return _made(getattr(source.options, option.option), option, report)
    return _declared(source, report)


def _made(assignments: Iterable[Assignment], option: ExpressionOption, report: Report) -> Known:
    over = Known(option.over or Schema(()))
    pairs = [(str(a.name), output(a.expression or a.name, over, report)) for a in assignments]
    return known_of(pairs)


def _declared(source: Source, report: Report) -> Known:
    raw = format_of(source)
    if source.columns is None:
        if raw and raw.name == "raw":
            return Known(RAW)
        hint = "headrace schema --of FILE guesses one from a data file"
        report.add('missing key "schema"', source.name.locate(), hint)
        return UNKNOWN
    fields = source.columns.schema.fields
    broken = source.columns.broken
    if raw and raw.name == "raw" and not broken and not _is_raw(source.columns.schema):
        place = source.keys_at["schema"].locate()
        report.add(f"raw records are one column of text or bytes, got {len(fields)}", place)
    if raw and raw.name == "csv":
        for field, text in zip(source.columns.schema, source.columns.types, strict=True):
            _check_csv(field, text.locate(), report)
    return Known(source.columns.schema, broken)


def _check_csv(field: Field, place: Place | None, report: Report) -> None:
    """CSV has no notation for arrays and structs."""
    if isinstance(field.type, Array | Struct):
        message = f'csv cannot hold "{field.name}" of type {field.type}'
        report.add(message, place, "format: json can")


def _is_raw(schema: Schema) -> bool:
    return len(schema) == 1 and schema.fields[0].type in (STRING, BINARY)


def format_of(end: Source | Sink) -> nodes.Format | None:
    """The format of a source or sink, where its connector has any."""
    side = end.connector.source if isinstance(end, Source) else end.connector.sink
    if side is None or not side.formats:
        return None
    name = end.format or ("json" if "json" in side.formats else side.formats[0])
    options: Mapping[str, Part | None] = {"json": end.json_, "csv": end.csv}
    return nodes.Format(name, options.get(name))


def check_event_time(source: Source, known: Known, report: Report) -> None:
    """The event time is a timestamp column, and a watermark needs one."""
    name = source.event_time
    if name is None:
        if source.watermark is not None:
            place = source.keys_at["watermark"].locate()
            report.add("a watermark needs an event time", place, "add event_time: COLUMN")
        return
    field = _column(name, known, "event_time", report)
    if field and field.type != TIMESTAMP:
        hint = ""
        if field.type in (BIGINT, INT):
            hint = "declare it as timestamp and say json: {epoch: ms}"
        report.add(
            f'event_time: wanted a timestamp, got "{name}" of type {field.type}',
            name.locate(),
            hint,
        )
    marks = source.watermark.from_ if source.watermark else None
    if marks is not None:
        field = _column(marks, known, "watermark", report)
        if field and field.type != TIMESTAMP:
            message = f'watermark: wanted a timestamp, got "{marks}" of type {field.type}'
            report.add(message, marks.locate())


def _column(name: Text, known: Known, key: str, report: Report) -> Field | None:
    field = known.schema.get(name)
    if field is None and not known.may_have(name):
        near = did_you_mean(name, known.schema.names)
        hint = near or f"the columns are {', '.join(known.schema.names)}"
        report.add(f'{key}: unknown column "{name}"', name.locate(), hint)
    return field


def check_sink(sink: Sink, known: Known, report: Report) -> None:
    """What goes out can be written in the format, and the options' columns are there."""
    side = sink.connector.sink
    assert side is not None, "the document checked it"
    for option in side.expressions:
        value = getattr(sink.options, option.option)
        for text in (value,) if isinstance(value, Text) else ():
            output(text, known, report)
    folders = getattr(sink.options, "partition_by", None) or ()
    found = [name for name in folders if _column(name, known, "partition_by", report)]
    left = tuple(field for field in known.schema if field.name not in folders)
    if found and not left and known.whole:
        report.add("partition_by leaves no column for the files", found[0].locate())
    for name in found:
        field = known.schema.get(name)
        if field and isinstance(field.type, Array | Struct):
            report.add(
                f'partition_by: "{name}" of type {field.type} is no single value', name.locate()
            )
        elif field and field.type in (FLOAT, DOUBLE, BINARY):
            report.add(
                f'partition_by: "{name}" of type {field.type} cannot name a folder',
                name.locate(),
                "cast it in a step before",
            )
    _check_format(sink, Known(Schema(left), known.broken, known.open), report)


def _check_format(sink: Sink, known: Known, report: Report) -> None:
    format = format_of(sink)
    if format is None:
        return
    place = sink.keys_at["format"].locate() if sink.format else sink.from_.locate()
    if format.name == "csv":
        for field in known.schema:
            _check_csv(field, place, report)
    if format.name == "parquet" and getattr(sink.options, "compression", "none") != "none":
        message = "compression is for text, and parquet is compressed inside"
        report.add(message, place, "leave compression: away")
    if format.name == "raw" and known.whole and not _is_raw(known.schema):
        message = f"raw writes one column of text or bytes, got {known.schema}"
        report.add(message, place, "select the one column in a step before")


def source_part(source: Source, known: Known, parallelism: int) -> nodes.Source:
    """The plan's node of a source; which columns it decodes is decided later."""
    timed = source.event_time is not None
    rows = nodes.Stream(str(source.name), known.schema, nodes.Append(), timed)
    to = source.on_error.to
    failed = (nodes.Stream(str(to), DEAD_LETTERS, nodes.Append(), False),) if to else ()
    return nodes.Source(
        name=str(source.name),
        connector=source.connector.name,
        options=source.options,
        format=format_of(source),
        schema=known.schema,
        columns=known.schema.names,
        checked=frozenset(
            field.name for field in known.schema if source.columns and not field.nullable
        ),
        event_time=source.event_time and str(source.event_time),
        watermark=source.watermark,
        on_error=str(to) if to else source.on_error.action,
        outputs=(rows, *failed),
        parallelism=parallelism,
    )


def sink_part(sink: Sink, parallelism: int) -> nodes.Sink:
    """The plan's node of a sink."""
    return nodes.Sink(
        name=str(sink.name),
        input=str(sink.from_),
        connector=sink.connector.name,
        options=sink.options,
        format=format_of(sink),
        parallelism=sink.parallelism or parallelism,
    )
