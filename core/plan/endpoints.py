"""Sources and sinks of the plan: the columns of sources, and the checks of sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headrace.core.errors.problems import Location, suggest_name
from headrace.core.expressions.typed import ProcessingTime, TypedExpression, walk
from headrace.core.pipeline.connector_spec import ColumnOption, ExpressionOption, SinkInput
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.model import DEFAULT_SLOT, Sink, Source
from headrace.core.pipeline.settings import Settings
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.error_context import format_flow_scalar
from headrace.core.plan import nodes
from headrace.core.plan.columns import (
    UNKNOWN_COLUMNS,
    KnownColumns,
    PlanProblems,
    make_known_columns,
    type_column,
)
from headrace.core.plan.event_times import SourceTimes
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    INT,
    STRING,
    TIMESTAMP,
    Field,
    MapType,
    Schema,
    Type,
    find_map,
    is_nested,
    quote_name,
)

RAW_SCHEMA = Schema((Field("value", STRING, nullable=False),))
"""The columns of `format: raw` if none are declared: the whole record."""

DEBEZIUM = "debezium_json"

MAP_TIME_HINT = (
    "a function in a step can give rows their time: "
    "map: {python: FILE.py:NAME, returns: {at: timestamp}, event_time: at}"
)

DEAD_LETTER_SCHEMA = Schema(
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


def resolve_source_columns(source: Source, report: PlanProblems) -> KnownColumns:
    """Return the columns of a source, and report the errors in them."""
    side = source.connector.source
    assert side is not None, "the document checked it"
    if not side.declares_columns and source.columns is not None:
        message = f"{source.connector.name} defines its own columns"
        report.add(message, source.keys_at["schema"].locate(), "remove schema:")
    if side.columns is not None:
        return KnownColumns(side.columns(source.options))
    for option in side.expressions:
        if option.makes_columns:
            return _type_computed_columns(getattr(source.options, option.option), option, report)
    return _get_declared_columns(source, report)


def _type_computed_columns(
    assignments: Iterable[Assignment], option: ExpressionOption, report: PlanProblems
) -> KnownColumns:
    over = KnownColumns(option.input_columns or Schema(()))
    texts = [(str(each.name), each.expression or each.name) for each in assignments]
    return make_known_columns(
        [(name, _type_repeatable(text, over, report)) for name, text in texts]
    )


def _type_repeatable(
    text: Text, over: KnownColumns, report: PlanProblems
) -> TypedExpression | None:
    """Return the typed expression of a column that a restart computes again."""
    typed = type_column(text, over, report)
    if typed is not None and any(isinstance(node, ProcessingTime) for node in walk(typed)):
        message = "now() would give computed rows other values after a restart"
        hint = "compute it in a step, as in with: {seen: now()}"
        report.add(message, text.locate(), hint)
        return None
    return typed


def _get_declared_columns(source: Source, report: PlanProblems) -> KnownColumns:
    raw = get_format(source)
    side = source.connector.source
    assert side is not None, "the document checked it"
    if source.columns is None:
        if raw and raw.name == "raw":
            return _add_connector_columns(KnownColumns(RAW_SCHEMA), source, report)
        hint = "headrace schema --of FILE guesses one from a data file"
        report.add('missing key "schema"', source.name.locate(), hint)
        return UNKNOWN_COLUMNS
    broken = source.columns.broken_names
    known = KnownColumns(source.columns.schema, broken)
    for option in side.column_options:
        _check_columns(source.options, option, known, report)
    fields = side.record_columns(source.options, known.schema, raw.name if raw else "")
    if not broken and len(known.schema) and not len(fields):
        report.add("no column is left for the records", source.keys_at["schema"].locate())
    if raw and raw.name == "raw" and not broken and not _is_raw_schema(fields):
        place = source.keys_at["schema"].locate()
        report.add(f"raw records are one column of text or bytes, got {len(fields)}", place)
    if raw and raw.name == "csv":
        for field, text in zip(source.columns.schema, source.columns.types, strict=True):
            _check_csv(field, text.locate(), report)
    if raw and raw.name in ("json", DEBEZIUM):
        for field, text in zip(source.columns.schema, source.columns.types, strict=True):
            check_json_keys(field, text.locate(), report)
    return _add_connector_columns(known, source, report)


def add_debezium_columns(source: Source, known: KnownColumns, report: PlanProblems) -> KnownColumns:
    """Return the columns of Debezium's messages: those of rows, and those that times may read."""
    format = get_format(source)
    if format is None or format.name != DEBEZIUM:
        return known
    if source.table is None:
        place = source.keys_at["format"].locate()
        hint = "as in table: {key: [id], sequence: source.lsn}"
        report.add(f'{DEBEZIUM} has changes of a table: "table" is missing', place, hint)
    added = (field for field in nodes.DEBEZIUM_COLUMNS if not known.may_have(field.name))
    fields = (*known.schema, *(field for field in added if field.name not in known.schema))
    return replace(known, schema=Schema(fields))


def _add_connector_columns(
    known: KnownColumns, source: Source, report: PlanProblems
) -> KnownColumns:
    """Return the columns of the records and the connector's additional columns."""
    side = source.connector.source
    assert side is not None, "the document checked it"
    if side.extra_columns is None:
        return known
    fields = list(known.schema)
    for name, field in side.extra_columns.columns(source.options):
        if known.schema.get(field.name) is not None or field.name in known.broken_names:
            of = "schema declares it" if source.columns else "it is the record"
            message = f'{side.extra_columns.option}: there is a column "{name}" already'
            report.add(message, name.locate(), f"{of}: choose another name")
        else:
            fields.append(field)
    return KnownColumns(Schema(tuple(fields)), known.broken_names)


def check_json_keys(field: Field, place: Location, report: PlanProblems) -> None:
    """Check that the keys of maps in a column that is read are text, as those of JSON objects."""
    map = find_map(field.type)
    if map and map.key != STRING:
        message = f'the keys of JSON objects are text, and those of "{field.name}" {map.key}'
        report.add(message, place, f"declare it as {MapType(STRING, map.value)}")


def _check_csv(field: Field, place: Location | None, report: PlanProblems) -> None:
    """Check that CSV has a notation for a column; it has none for arrays, maps and structs."""
    if is_nested(field.type):
        message = f'csv cannot hold "{field.name}" of type {field.type}'
        report.add(message, place, "format: json can")


def _is_raw_schema(schema: Schema) -> bool:
    return len(schema) == 1 and schema.fields[0].type in (STRING, BINARY)


def get_format(end: Source | Sink) -> nodes.Format | None:
    """Return the format of a source or sink, if its connector has formats."""
    side = end.connector.source if isinstance(end, Source) else end.connector.sink
    if side is None or not side.formats:
        return None
    name = end.format or ("json" if "json" in side.formats else side.formats[0])
    options: dict[str, DocumentModel | None] = {"json": end.json_, "csv": end.csv}
    if isinstance(end, Source):
        options["parquet"] = end.parquet
        options["debezium_json"] = end.debezium_json
    return nodes.Format(name, options.get(name))


def suggest_timestamp(source: Source, field: Field) -> str:
    """Return the hint for an event time of another type than timestamp."""
    side, format = source.connector.source, get_format(source)
    made = next(
        (
            each
            for option in (side.expressions if side else ())
            if option.makes_columns
            for each in getattr(source.options, option.option)
            if each.name == field.name
        ),
        None,
    )
    if made is not None and field.type in (BIGINT, INT):
        value = f"timestamp_millis({(made.expression or made.name).printable})"
        value = format_flow_scalar(value)
        return f"a timestamp is computed, as in columns: {{{field.name}: {value}}}"
    is_declared = made is None and source.columns is not None
    if is_declared and field.type in (BIGINT, INT) and format and format.name == "json":
        return "declare it as timestamp and set json: {epoch: ms}"
    if is_declared and field.type == STRING and format and format.name in ("json", "csv"):
        return "declare it as timestamp in schema: ISO 8601 text is read as one"
    functions: dict[Type, str] = {
        BIGINT: "timestamp_millis",
        INT: "timestamp_seconds",
        STRING: "to_timestamp",
    }
    function = functions.get(field.type)
    return f"as in event_time: {function}({quote_name(field.name)})" if function else MAP_TIME_HINT


def _find_column(name: Text, known: KnownColumns, key: str, report: PlanProblems) -> Field | None:
    field = known.schema.get(name)
    if field is None and not known.may_have(name):
        near = suggest_name(name, known.schema.names)
        hint = near or f"the columns are {', '.join(known.schema.names)}"
        report.add(f'{key}: unknown column "{name}"', name.locate(), hint)
    return field


def check_sink(sink: Sink, known: KnownColumns, outgoing: SinkInput, report: PlanProblems) -> None:
    """Check that a sink's format can hold its rows, and that the columns of its options exist."""
    side = sink.connector.sink
    assert side is not None, "the document checked it"
    for option in side.expressions:
        for text in _list_expressions(getattr(sink.options, option.option)):
            typed = type_column(text, known, report)
            if typed and option.types and typed.type not in option.types:
                wanted = " or ".join(map(str, option.types))
                message = f"wanted an expression of type {wanted}, got {typed.type}"
                report.add(message, text.locate(), f"cast({text.printable} as {option.types[0]})")
    for columns in side.column_options:
        _check_columns(sink.options, columns, known, report)
    if known.is_complete:
        for misfit in side.find_mismatches(sink.options, outgoing):
            at = misfit.text or sink.keys_at[sink.connector.name]
            report.add(misfit.message, at.locate(), misfit.hint)
    _check_format(sink, known, report)


def _list_expressions(value: object) -> Iterator[Text]:
    """Yield the expressions in an option's value."""
    match value:
        case Text():
            yield value
        case tuple():
            yield from (one.expression or one.name for one in value)


def _check_columns(
    options: DocumentModel, option: ColumnOption, known: KnownColumns, report: PlanProblems
) -> None:
    value = getattr(options, option.option)
    for name in (value,) if isinstance(value, Text) else value or ():
        field = (
            None if name in option.keywords else _find_column(name, known, option.option, report)
        )
        why, hint = option.find_objection(field.type) if field else ("", "")
        if field and why:
            message = f'{option.option}: "{name}" of type {field.type} {why}'
            report.add(message, name.locate(), hint)


def _check_format(sink: Sink, known: KnownColumns, report: PlanProblems) -> None:
    format, side = get_format(sink), sink.connector.sink
    if format is None or side is None:
        return
    place = sink.keys_at["format"].locate() if sink.format else sink.from_.locate()
    written = side.record_columns(sink.options, known.schema, format.name)
    if known.is_complete and len(known.schema) and not len(written):
        report.add("no column is left for the records", sink.keys_at[sink.connector.name].locate())
    if format.name == "csv":
        for field in written:
            _check_csv(field, place, report)
    if format.name == "parquet" and getattr(sink.options, "compression", "none") != "none":
        message = "compression is for text, and parquet has its own compression"
        report.add(message, place, "remove compression:")
    if format.name == "raw" and known.is_complete and len(written) and not _is_raw_schema(written):
        message = f"raw writes one column of text or bytes, got {written}"
        report.add(message, place, "select the one column in an earlier step")


def build_source(
    source: Source,
    known: KnownColumns,
    times: SourceTimes,
    table: nodes.SourceTable | None,
    settings: Settings,
) -> nodes.Source:
    """Return the plan's node of a source; pushdown later selects the columns to decode."""
    timed = source.event_time is not None
    kind: nodes.StreamKind = nodes.Append()
    if table is not None:
        kind = nodes.Upsert(table.key, has_deletes=True, requires_key=True)
    shown = known.schema if table is None else table.remove_metadata(known.schema)
    rows = nodes.Stream(str(source.name), shown, kind, timed)
    to = source.on_error.to
    failed = (nodes.Stream(str(to), DEAD_LETTER_SCHEMA, nodes.Append(), False),) if to else ()
    return nodes.Source(
        name=str(source.name),
        connector=source.connector.name,
        options=source.options,
        format=get_format(source),
        schema=known.schema,
        decoded_columns=known.schema.names,
        not_null_columns=frozenset(
            field.name for field in _get_declared_fields(source) if not field.nullable
        ),
        event_time=times.event_time,
        watermark=source.watermark,
        on_error=str(to) if to else source.on_error.action,
        outputs=(rows, *failed),
        parallelism=settings.parallelism,
        max_record=settings.max_record,
        max_value=settings.max_value,
        times=(*times.computed, *([table.sequence] if table and table.sequence else ())),
        slot=str(source.slot or DEFAULT_SLOT),
        table=table,
    )


def _get_declared_fields(source: Source) -> tuple[Field, ...]:
    return source.columns.schema.fields if source.columns else ()


def build_sink(sink: Sink, kind: nodes.StreamKind, settings: Settings, slot: str) -> nodes.Sink:
    """Return the plan's node of a sink, in this slot."""
    return nodes.Sink(
        name=str(sink.name),
        input=str(sink.from_),
        connector=sink.connector.name,
        options=sink.options,
        format=get_format(sink),
        parallelism=sink.parallelism or settings.parallelism,
        key=_get_sink_key(sink, kind),
        max_value=settings.max_value,
        slot=slot,
        may_chain=sink.chain,
    )


def _get_sink_key(sink: Sink, kind: nodes.StreamKind) -> tuple[str, ...]:
    side = sink.connector.sink
    assert side is not None, "the document checked it"
    match kind:
        case nodes.Upsert(key):
            return key
        case nodes.Append():
            return side.get_upsert_key(sink.options)
    return ()
