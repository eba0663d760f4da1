"""The connectors of a process's standard streams: `console`, `stdin` and `stdout`.

`console` prints a table of the rows for people to read; the other two are for a shell's pipe.
"""

from __future__ import annotations

from functools import partial

from headrace.connectors.thread_adapters import SimpleReaderFactory, ThreadedSource
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.api.sources import ReaderFactory, SourceCoordinator
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SinkSide, SourceSide
from headrace.core.types.data_types import Schema


class ConsoleSink(DocumentModel):
    """The options of the console sink: none."""


def _open_console(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkCoordinator:
    # Loaded when a pipeline runs, so that help and completion stay fast.
    from headrace.connectors.print_sinks import build_console_sink

    return build_console_sink(schema, run_context)


def _open_console_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    from headrace.connectors.print_sinks import build_console_writers

    return build_console_writers(schema, run_context, link)


CONSOLE = Connector(
    "console",
    "Rows on the terminal, to be read by people.",
    sink=SinkSide(
        ConsoleSink,
        open=_open_console,
        open_writers=_open_console_writers,
        prints_rows=True,
        takes_removed_rows=True,
    ),
)


TEXT_FORMATS = ("json", "csv", "raw")


class StdinSource(DocumentModel):
    """The options of the stdin source: none."""


class StdoutSink(DocumentModel):
    """The options of the stdout sink: none."""


def _open_stdin(source: nodes.Source, run_context: RunContext) -> SourceCoordinator:
    # Loaded when a pipeline runs, so that help and completion stay fast.
    from headrace.connectors.stdin import StandardInput

    return ThreadedSource(StandardInput(source.name), run_context.kernel_executor)


def _open_stdin_readers(
    source: nodes.Source, run_context: RunContext, link: CoordinatorLink
) -> ReaderFactory:
    from headrace.connectors.stdin import StdinSplitReader

    return SimpleReaderFactory(partial(StdinSplitReader, source, run_context))


def _open_stdout(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkCoordinator:
    from headrace.connectors.print_sinks import build_stdout_sink

    return build_stdout_sink(sink, schema, run_context)


def _open_stdout_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    from headrace.connectors.print_sinks import build_stdout_writers

    return build_stdout_writers(sink, schema, run_context, link)


STDIN = Connector(
    "stdin",
    "Records from standard input, one a line.",
    source=SourceSide(
        StdinSource,
        (*TEXT_FORMATS, "debezium_json"),
        open=_open_stdin,
        open_readers=_open_stdin_readers,
        describe_exclusive=lambda _: "standard input",
        is_bounded=lambda _: False,
        is_replayable=False,
        keeps_key_order=True,
    ),
)


STDOUT = Connector(
    "stdout",
    "Records on standard output, one a line.",
    sink=SinkSide(
        StdoutSink,
        TEXT_FORMATS,
        open=_open_stdout,
        open_writers=_open_stdout_writers,
        takes_removed_rows=True,
        prints_rows=True,
    ),
)
