"""The language reference in Markdown, generated from the objects that read the document.

The models have the types, defaults, ranges and descriptions of all keys; this module has only their
order on the page, and the texts that belong to no key: values, replacements, planned features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import getdoc

from headrace.core.pipeline.clause_rules import STATEFUL_CLAUSES, STEP_RULES
from headrace.core.pipeline.clauses.broadcast import Broadcast
from headrace.core.pipeline.clauses.iterate import Iterate
from headrace.core.pipeline.clauses.joins import Join
from headrace.core.pipeline.clauses.keyed import Apply, Dedup, PythonAggregate, Top, Ttl
from headrace.core.pipeline.clauses.lookup import LookupKeys
from headrace.core.pipeline.clauses.match import MatchClause
from headrace.core.pipeline.clauses.process import Connect, Process
from headrace.core.pipeline.clauses.windows import Window
from headrace.core.pipeline.connector_spec import ConnectorSpec, ConnectorSpecs
from headrace.core.pipeline.default_values import format_default
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.fields import VariantsReading
from headrace.core.pipeline.formats import (
    FORMATS,
    PLANNED_FORMATS,
    CsvOptions,
    DebeziumOptions,
    JsonOptions,
    ParquetOptions,
)
from headrace.core.pipeline.key_rules import KeyRule
from headrace.core.pipeline.model import (
    Map,
    SinkKeys,
    SourceKeys,
    StepKeys,
    TableChanges,
    Watermark,
)
from headrace.core.pipeline.settings import INACTIVE_SETTINGS, Settings
from headrace.core.pipeline.unsupported import CLAUSES

INTRODUCTION_TEXT = """\
# The pipeline file

A pipeline is one YAML mapping. Every key under `sources`, `steps` and `sinks` is a name that you
choose, and `from` refers to names. A name has letters, digits, `_` and `-`, and begins with a
letter or `_`.

| key | required | meaning |
| --- | --- | --- |
| `name` | yes | the job's name, under which its state is stored |
| `settings` | | [how the job runs](#settings) |
| `sources` | yes | [the inputs](#sources), by name |
| `steps` | | [the transformations](#steps), by name |
| `sinks` | yes | [the outputs](#sinks), by name |
| `sql` | | [statements](sql.md#a-pipeline-of-statements): views, and queries of sinks |
| `tests` | | [tests](testing.md) of the pipeline, which `headrace run` does not read |
| `invariants` | | [conditions](simulation.md#invariants) on all rows, for `headrace simulate` |
"""

DEAD_LETTERS_TEXT = """\
The stream of `on_error: {to: name}` has the columns `error`, `step`, `source`, `split`, `position`,
`raw` (the record, as text) and `at`. Several parts cannot share such a stream: unite their streams
in a step.
"""

STATEFUL_STEPS_TEXT = """\
The rows of `aggregate` have the columns of the key; `window_start` and `window_end` (timestamps) of
windows that have a start and an end; then the aggregates, in the order written. `having` and the
clauses after it read these columns. The event time of a window's row is the end of the window, less
a microsecond. `top` and `dedup` keep the columns of their input.

Some steps emit changes: each row replaces the earlier row of its key, or deletes it. These are
`aggregate` and `top` without `window`, windows that fire again (`trigger` or `lateness`, with
`accumulate`), `dedup` with `keep: last`, and joins of such streams. [Tables that change](tables.md)
says which steps read changes, and what sinks write of them. Where rows may be deleted, sinks write
a column `_delete`, which is true for a deletion; on the console it is `+` or `-`.
[Windows and state](windows.md) has an example of each.
"""

FAILURES_TEXT = """\
An expression gives null where it cannot compute a value. It fails for a row only with
`raise_error`, with `assert_true` where the condition is not true, with `element_at` where a
computed position is 0, and at a value above `settings.max_value`. `on_error` of the step then
applies to the row: `fail` ends the job with the step, the column or condition, and the row; `skip`
leaves the row out and counts it; `{to: name}` makes it a dead letter. A call that is not reached,
as in a branch of `case` that is not taken or in a row that the `filter` of an aggregate leaves out,
fails no row. A column that may fail is computed even if nothing reads it. A row of changes that
fails deletes the row that it replaces. In `having` and in expressions over aggregates it is the
result that fails, and in the keys of a join or lookup the row of the input. In the other conditions
of an inner join it is the pair; a pair of another join, and the expressions of sources and sinks,
end the job.

`repeat`, `space`, `lpad`, `rpad`, `replace`, `regexp_replace`, `concat_ws`, `array_join` and
`array_repeat` may make a value that is far larger than their arguments. Its size is known before it
is made: a value above `settings.max_value` makes its row fail, and batches are computed in parts,
so that all values of one call in a part stay within `max_value` together. The limit is for each
call: three calls in a step may take three times as much.
"""

OTHER_FORMATS_TEXT = """\
`parquet` has columns of its own, which are read by name. `raw` is one column with the whole record:
`value string`, or the one column that `schema` declares, of type string or binary. `debezium_json`
is for Kafka sinks: an [envelope](tables.md#debezium-envelopes) for each change.
"""

VALUES_TEXT = """\
## Values

- **Durations**: a whole number and a unit: `250ms`, `10s`, `5m`, `1h`, `7d`.
- **Sizes**: a whole number and a unit: `64KB`, `256MB`, `2GB`. A KB is 1024 bytes.
- **Counts**: `1000`, `10k`, `1M`, `1G`; here a k is 1000.
- **Rates**: a count per second, minute or hour: `10000/s`, `1M/h`.
- **Expressions** are Spark SQL with [ANSI off](functions.md#what-spark-calls-ansi-off): see
  [functions](functions.md). An expression that begins with a quote, or contains `: ` or ` #`, needs
  quotes around it; inside `{...}` and `[...]` so does an expression that contains a comma or a
  bracket.
- **Lambda functions** are arguments of [functions of arrays](functions.md#lambda-functions):
  `x -> x + 1`, or `(x, y) -> x + y` with more parameters. Parameters have the type of the elements,
  and hide columns of the same name. The body is any expression: it may read columns, and call
  functions that take lambda functions again. It is computed once for a whole batch.
- **Types** are Spark SQL's: `boolean`, `tinyint`, `smallint`, `int`, `bigint`, `float`, `double`,
  `decimal(p,s)`, `string`, `binary`, `date`, `timestamp` (UTC, microseconds),
  `timestamp_ntz` (the same without a time zone), `time(p)` (of day, p digits after the second),
  `interval day to second` and `interval year to month` (also with fewer fields), `array<t>`,
  `struct<a: t, b: t>`; `not null` may follow. Spark's other names (`long`, `integer`) are accepted.

These are replaced inside values, not keys, after YAML has been read:

| | |
| --- | --- |
| `${env:NAME}` | an environment variable |
| `${env:NAME:-default}` | the same, with a default for a variable that is not set or is empty |
| `${file:path}` | the content of a file next to the pipeline, without the line end at its end |
| `${secret:NAME}` | the variable `HEADRACE_SECRET_NAME`, or a file in `HEADRACE_SECRETS` |
| `$${` | a literal `${` |

A value that is one file of SQL and nothing else, such as `sql: ${file:totals.sql}`, has its errors
at their place in that file.

A secret prints as `****`. It is allowed where only a connector needs the value, such as in a
password, but not where it would be shown or stored: in names, paths, expressions, numbers, choices.

`--set a.b=value` sets one value on the command line: `--set settings.parallelism=4`,
`--set sources.bids.nexmark.events=1M`. Items of a list are addressed by index, from 0; a key with a
dot in it is written in quotes. A key may be new.

A file has at most 1 MB, 50 levels and, with its aliases expanded, 100,000 values. Anchors,
aliases and merge keys (`<<`) are supported; tags other than YAML's own core ones are not.
"""


CLAUSE_MODELS: Mapping[str, type[DocumentModel]] = {
    "join": Join,
    "broadcast": Broadcast,
    "iterate": Iterate,
    "map": Map,
    "window": Window,
    "aggregate": PythonAggregate,
    "apply": Apply,
    "top": Top,
    "dedup": Dedup,
    "connect": Connect,
    "process": Process,
    "match": MatchClause,
}
"""Clauses of steps with keys of their own, in their order on the page."""


def build_reference(connectors: ConnectorSpecs) -> str:
    """Return the page docs/language.md."""
    return "\n".join(_page(connectors))


def _page(connectors: ConnectorSpecs) -> Iterator[str]:
    yield INTRODUCTION_TEXT
    yield from _section("## Settings", Settings, "settings")
    yield _make_sentence(
        f"Checked, but nothing acts on it yet: {_list_words(INACTIVE_SETTINGS)}",
        bool(INACTIVE_SETTINGS),
    )
    yield from _section("## Sources", SourceKeys, "")
    yield "A source has one connector next to these keys.\n"
    yield DEAD_LETTERS_TEXT
    yield from _section("### table", TableChanges, "table")
    yield from _section("### watermark", Watermark, "watermark")
    yield from _connectors(connectors, "source")
    yield from _section("## Steps", StepKeys, "")
    yield from _clause_rules()
    yield STATEFUL_STEPS_TEXT
    yield FAILURES_TEXT
    for name, part in CLAUSE_MODELS.items():
        yield from _section(f"### {name}", part, name)
    yield from _section("### ttl", Ttl, "ttl")
    yield from _section("### lookup", LookupKeys, "lookup")
    yield from _tables(connectors)
    yield from _section("## Sinks", SinkKeys, "")
    yield "A sink has one connector next to these keys.\n"
    yield from _connectors(connectors, "sink")
    yield from _formats()
    yield VALUES_TEXT
    yield from _planned_features()


def _clause_rules() -> Iterator[str]:
    """Yield the table of the clauses that need or exclude others, from the rules that are "
    "checked."""
    words = _list_words(STATEFUL_CLAUSES)
    yield f"A step has at most one of {words}; only `broadcast` and `process` go together.\n"
    yield "| clause | needs | does not go with |\n| --- | --- | --- |"
    for clause in CLAUSES:
        rules = [rule for rule in STEP_RULES if clause in rule.keys.split(", ")]
        needed = [f"`{key}`" for r in rules if not r.excludes for key in r.others.split(", ")]
        excluded = _describe_excluded([rule for rule in rules if rule.excludes])
        if rules:
            yield f"| `{clause}` | {' or '.join(needed)} | {', '.join(excluded)} |"
    yield ""


def _describe_excluded(rules: list[KeyRule]) -> list[str]:
    """Return the keys that a clause excludes, with their condition where another key decides it."""
    keys = {key for rule in rules for key in rule.others.split(", ")}
    described = dict[str, str]()
    for rule in rules:
        decisive = rule.only_with or rule.unless
        condition = f" {'with' if rule.only_with else 'without'} `{decisive}`"
        for key in rule.others.split(", "):
            described.setdefault(key, condition if decisive and decisive not in keys else "")
    return [f"`{key}`{condition}" for key, condition in described.items()]


def _section(title: str, model: type[DocumentModel], path: str) -> Iterator[str]:
    """Yield a heading, the model's description and its keys, then those of nested models."""
    yield f"{title}\n"
    yield f"{getdoc(model)}\n"
    yield from _keys(model, path)


def _keys(model: type[DocumentModel], path: str) -> Iterator[str]:
    written = model.fields_by_key()
    if not written:
        return
    yield "| key | value | default | meaning |\n| --- | --- | --- | --- |"
    for key, name in written.items():
        field = model.model_fields[name]
        default = format_default(field)
        shown = (
            "required"
            if field.is_required()
            else ""
            if default is None
            else f"`{_format_yaml(default)}`"
        )
        cells = (f"`{key}`", _describe_key_value(model, key), shown, field.description or "")
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
    yield ""
    if path:
        for key in written:
            yield from _nested_keys(model, key, f"{path}.{key}")


def _nested_keys(model: type[DocumentModel], key: str, path: str) -> Iterator[str]:
    field = model.model_fields[model.fields_by_key()[key]]
    reading, part = field.reading, field.nested
    if isinstance(reading, VariantsReading):
        for word, variant in reading.models.items():
            yield f"`{path}` with `{reading.key}: {word}`: {_lower_first(getdoc(variant) or '')}\n"
            yield from _keys(variant, path)
    elif part:
        yield f"`{path}`: {_lower_first(getdoc(part) or '')}\n"
        yield from _keys(part, path)


def _describe_key_value(model: type[DocumentModel], key: str) -> str:
    """Describe the value of a key."""
    field = model.model_fields[model.fields_by_key()[key]]
    reading = field.reading
    return reading.wanted if reading else "a mapping"


def _format_yaml(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value) or '""'


def _connectors(connectors: ConnectorSpecs, kind: str) -> Iterator[str]:
    for name, connector in connectors.items():
        side = getattr(connector, kind)
        if side is None:
            continue
        yield f"### {name}" + (f" ({kind})" if _is_source_and_sink(connector) else "") + "\n"
        text = getdoc(side.options) or ""
        repeats = text.startswith(connector.doc.rstrip("."))
        yield f"{text}\n" if repeats else f"{connector.doc} {text}\n"
        yield from _keys(side.options, name)
        if side.formats:
            yield f"Formats: {', '.join(f'`{one}`' for one in side.formats)}.\n"
        elif kind == "source":
            yield "It defines its own columns, and has no `schema` and no `format`.\n"


def _tables(connectors: ConnectorSpecs) -> Iterator[str]:
    """Yield the connectors that a lookup can query, with their keys."""
    for name, connector in connectors.items():
        if connector.lookup is not None:
            yield (
                f"`lookup.{name}`: {_lower_first(connector.doc)} "
                f"{getdoc(connector.lookup.options)}\n"
            )
            yield from _keys(connector.lookup.options, "")


def _is_source_and_sink(connector: ConnectorSpec) -> bool:
    return connector.source is not None and connector.sink is not None


def _formats() -> Iterator[str]:
    yield "## Formats\n"
    yield f"`format` is next to the connector: {', '.join(f'`{one}`' for one in FORMATS)}.\n"
    every = (
        ("json", JsonOptions),
        ("csv", CsvOptions),
        ("parquet", ParquetOptions),
        ("debezium_json", DebeziumOptions),
    )
    for key, options in every:
        yield f"### {key}\n\n{getdoc(options)}\n"
        yield from _keys(options, key)
    yield "### parquet, raw, debezium_json\n"
    yield OTHER_FORMATS_TEXT


def _planned_features() -> Iterator[str]:
    yield "## Not built yet\n"
    yield "These are planned, and rejected by name until they are built.\n"
    yield f"- Formats: {_list_words(PLANNED_FORMATS)}"
    yield ""


def _list_words(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _make_sentence(text: str, said: bool) -> str:
    return f"{text}.\n" if said else ""


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
