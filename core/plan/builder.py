"""The build of a plan from a document: names are resolved, columns typed, all errors reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.core.errors.problems import find_nearest_name
from headrace.core.pipeline.clauses.iterate import Iterate
from headrace.core.pipeline.connector_spec import SinkInput
from headrace.core.pipeline.loader import LoadedPipeline, PlanVersion
from headrace.core.pipeline.model import (
    DEFAULT_SLOT,
    Pipeline,
    Sink,
    Source,
    Step,
    TableChanges,
)
from headrace.core.pipeline.stream_names import get_input_aliases
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.changelog import ChangelogNotSupported, list_change_inputs
from headrace.core.plan.columns import UNKNOWN_COLUMNS, KnownColumns, PlanProblems
from headrace.core.plan.connected_inputs import build_connected_inputs
from headrace.core.plan.conversions import ConversionSteps
from headrace.core.plan.document_checks import (
    check_cycles,
    check_locations,
    check_on_error,
    check_parallelism,
    check_readers,
    check_sink_names,
    find_producers,
    format_subject,
    list_unrepeatable_sources,
)
from headrace.core.plan.endpoints import (
    DEAD_LETTER_SCHEMA,
    add_debezium_columns,
    build_sink,
    build_source,
    check_sink,
    get_format,
    resolve_source_columns,
    suggest_timestamp,
)
from headrace.core.plan.event_times import build_source_times
from headrace.core.plan.fallible_results import split_results
from headrace.core.plan.join_conditions import JoinInput
from headrace.core.plan.joins import BroadcastJoinBuilder, JoinBuilder, report_ambiguous_columns
from headrace.core.plan.loops import PlanLoops
from headrace.core.plan.nodes.matching import AsOfMatch
from headrace.core.plan.operations import OperationsBuilder
from headrace.core.plan.output_streams import (
    DEAD_LETTER_COLUMNS,
    build_dead_letter_stream,
    build_incomplete_stream,
    build_late_streams,
    build_main_streams,
)
from headrace.core.plan.random_calls import assign_keys
from headrace.core.plan.repeated_lateness import warn_of_late_again
from headrace.core.plan.step_kinds import infer_step_kinds
from headrace.core.plan.step_times import StepTimes, build_row_time
from headrace.core.plan.stream_graph import (
    check_loops,
    report_unknown_stream,
    sort_topologically,
)
from headrace.core.plan.table_sources import build_source_table, build_table_step
from headrace.core.plan.unbounded_state import warn_of_growth, warn_of_waiting
from headrace.core.plan.unions import unite_columns
from headrace.core.plan.unordered_tables import warn_of_unordered_tables
from headrace.core.plan.unread_parts import drop_unread_parts
from headrace.core.plan.versions import VersionSteps


class PlanBuilder:
    """A single pass over a document; `known` has the columns of every stream seen so far."""

    def __init__(
        self,
        loaded: LoadedPipeline,
        *,
        is_lasting: bool = True,
        keyless_joins: frozenset[str] = frozenset(),
        untimed_loops: frozenset[str] = frozenset(),
    ) -> None:
        """`keyless_joins` are the steps whose joins emit rows without a key.

        `untimed_loops` are the heads of loops whose rows lose their event time inside.
        """
        self.loaded = loaded
        self.is_lasting = is_lasting
        self.keyless_joins = keyless_joins
        self.regrouped_joins: set[str] = set()
        """The full joins whose rows steps store by their key, although two may have the same."""
        self.pipeline: Pipeline = drop_unread_parts(loaded.pipeline)
        limit = self.pipeline.settings.max_value
        self.report = PlanProblems(folder=loaded.folder, max_value=limit)
        self.known_columns: dict[str, KnownColumns] = {
            name: UNKNOWN_COLUMNS for name in loaded.broken_names
        }
        self.streams: dict[str, nodes.Stream] = {}
        self.parts: dict[str, nodes.Source | nodes.Step] = {}
        """The sources and steps built so far."""
        self.misspelt_streams: set[str] = set()
        """Streams that a misspelt name probably refers to; they count as read."""
        self.producers = find_producers(self.pipeline, self.report)
        self.conversions = ConversionSteps(
            self.streams, self.known_columns, self.parts, self.producers
        )
        self.loops = PlanLoops(
            self.parts,
            self.streams,
            self.known_columns,
            self.conversions,
            self.report,
            untimed_loops,
        )
        self.versions = VersionSteps(self.streams, self.parts, self.producers)

    def build_parts(self) -> tuple[nodes.PlanPart, ...]:
        """Return the sources, the steps in topological order, and the sinks."""
        reads = {name: self._list_upstream(step) for name, step in self.pipeline.steps.items()}
        cycles = check_cycles(self.pipeline, reads, self.report)
        check_sink_names(self.pipeline, self.report)
        check_locations(self.pipeline, self.report)
        for source in self.pipeline.sources.values():
            self._build_source(source)
        for name in sort_topologically(reads):
            step = self.pipeline.steps[name]
            if step.sql is None:
                self.parts[str(name)] = self._build_step(step)
            else:
                self._build_query(step)
        self.loops.check(self.pipeline)
        sinks = [self._build_sink(sink) for sink in self.pipeline.sinks.values()]
        sources = [part for part in self.parts.values() if isinstance(part, nodes.Source)]
        steps = [*self.versions.list_needed_steps(sinks)]
        if not (self.loaded.broken_names or self.loaded.has_unknown_names or cycles):
            check_readers(self.pipeline, self.misspelt_streams, self.report)
        if self.is_lasting:
            warn_of_growth(self.pipeline, (*sources, *steps), self.report)
            warn_of_waiting(self.pipeline, (*sources, *steps), self.report)
        warn_of_late_again(self.pipeline, steps, self.report)
        warn_of_unordered_tables(self.pipeline, steps, self.report)
        parts: tuple[nodes.PlanPart, ...] = (*sources, *steps, *sinks)
        check_loops(self.pipeline, parts, self.loaded.folder, self.report)
        return parts

    def _list_upstream(self, step: Step) -> list[str]:
        """Return the parts that a step reads from."""
        return [self.producers[name] for name in step.input_streams if name in self.producers]

    def _build_source(self, source: Source) -> None:
        self.report.subject = format_subject(source)
        rows = resolve_source_columns(source, self.report)
        known = add_debezium_columns(source, rows, self.report)
        times = build_source_times(source, known, suggest_timestamp, self.report)
        table = build_source_table(source, rows, known, self.report)
        part = build_source(source, known, times, table, self.pipeline.settings)
        known = replace(known, has_row_place=True)
        if table is not None:
            known = replace(known, schema=table.remove_metadata(known.schema))
        self._add_streams(
            (s, DEAD_LETTER_COLUMNS if s.schema is DEAD_LETTER_SCHEMA else known)
            for s in part.outputs
        )
        self.parts[part.name] = part
        if source.table is not None and not self.report.has_errors_of_subject:
            self._add_table_step(source, source.table, part)

    def _add_table_step(self, source: Source, table: TableChanges, part: nodes.Source) -> None:
        """Add the step that passes on the newest changes of a table, which all readers read."""
        side = source.connector.source
        assert side is not None, "the document checked it"
        orders_rows = self.loaded.inputs.plan_version > PlanVersion.EVENT_TIME_ORDER
        step = build_table_step(
            part, table, keeps_order=side.keeps_key_order, orders_rows=orders_rows
        )
        self.parts[step.name] = step
        self.producers[step.name] = step.name
        self.streams[part.name] = self.streams[step.name] = step.outputs[0]
        self.known_columns[step.name] = self.known_columns[part.name]

    def _add_streams(self, streams: Iterable[tuple[nodes.Stream, KnownColumns]]) -> None:
        for stream, known in streams:
            self.streams[stream.name] = stream
            self.known_columns[stream.name] = known

    def _build_query(self, step: Step) -> None:
        """Build the steps of a query, which take the place of its step in the pipeline."""
        # Pipelines without SQL start without these modules, which take 30 ms to import.
        from headrace.core.plan.sql.expansion import expand_query
        from headrace.core.plan.sql.steps import StreamTable

        self.report.subject = format_subject(step)
        lookups = tuple(step.lookups or ())
        for name in lookups:
            if name in self.producers:
                message = f'the name "{name}" is taken by a source or step'
                self.report.add(message, name.locate(), "give the lookup another name")
        for name in step.input_streams:
            self._get_columns(name, lookups)
        built: dict[str, Step] = {}

        def build(model: Step) -> None:
            built[str(model.name)] = model
            self.producers[str(model.name)] = str(model.name)
            self.parts[str(model.name)] = self._build_step(model)

        table = StreamTable(self.streams, self.known_columns, self.parts)
        if not expand_query(step, table, build, self.report):
            self.known_columns.setdefault(str(step.name), UNKNOWN_COLUMNS)
            return
        steps = dict[str, Step]()
        for key, each in self.pipeline.steps.items():
            steps.update(built if each is step else {key: each})
        self.pipeline = replace(self.pipeline, steps=steps)

    def _build_step(self, step: Step) -> nodes.Step:
        self.report.subject = format_subject(step)
        check_parallelism(step, self.pipeline, self.report)
        inputs = [(name, self._get_columns(name)) for name in step.input_streams]
        if step.iterate is not None:
            if step.iterate.last_step is not None:
                self._get_columns(step.iterate.last_step)  # reports a name that there is not
            return self._build_loop_head(step, step.iterate, inputs)
        # With a broadcast, rows keep the event time of the first input.
        of_time = step.input_streams[:1] if step.broadcast else step.input_streams
        timed = all(self.streams[n].has_event_time for n in of_time if n in self.streams)
        known, begins = self._combine_inputs(step, inputs)
        operations = OperationsBuilder(step, known, timed, self.report, begins)
        done = operations.build()
        check_on_error(step, done, self.report)
        report_ambiguous_columns(operations.known_columns, step, self.report)
        kind, done, input_names = self._infer_kinds(step, done)
        is_timed_here = step.event_time is not None and not isinstance(kind, nodes.Append)
        if is_timed_here:
            times = build_row_time(step, operations.known_columns, self.report, timed=timed)
            kind, done, input_names = self._infer_kinds(step, (*done, *times))
        done = assign_keys(done, step.name, f"{self.pipeline.name} {self.pipeline.settings.seed}")
        moved = not is_timed_here and self._move_event_time(step, done, operations.known_columns)
        rows = build_main_streams(
            step, operations.known_columns, kind, timed=moved or operations.has_event_time
        )
        sources = [(known, timed), *map(self._get_input, inputs)]
        asides = [
            *build_late_streams(step, sources, self.report, of_changes=list_change_inputs(done)),
            *build_incomplete_stream(done, timed=timed),
            *build_dead_letter_stream(step),
        ]
        self._add_streams((*rows, *asides))
        to = step.on_error.to
        return nodes.Step(
            name=str(step.name),
            inputs=input_names,
            operations=done,
            on_error=str(to) if to else step.on_error.action,
            outputs=tuple(stream for stream, _ in (*rows, *asides)),
            parallelism=step.parallelism or self.pipeline.settings.parallelism,
            side_outputs=frozenset(stream.name for stream, _ in asides),
            slot=self._find_slot(step, step.input_streams),
            may_chain=step.chain,
        )

    def _build_loop_head(
        self, step: Step, iterate: Iterate, inputs: Sequence[tuple[Text, KnownColumns]]
    ) -> nodes.Step:
        head, known = self.loops.build_head(step, iterate, inputs)
        self._add_streams((stream, known) for stream in head.outputs)
        parallelism = step.parallelism or self.pipeline.settings.parallelism
        if iterate.kind != "from":
            parallelism = 1  # it compares whole tables
        return replace(
            head, parallelism=parallelism, slot=self._find_slot(step, step.input_streams)
        )

    def _find_slot(self, part: Step | Sink, inputs: Iterable[Text]) -> str:
        """Return the slot of a part: its own, else that of its inputs if they are in one slot."""
        if part.slot is not None:
            return str(part.slot)
        producers = {self.producers.get(name, "") for name in inputs}
        slots = {self.parts[name].slot for name in producers if name in self.parts}
        return slots.pop() if len(slots) == 1 else DEFAULT_SLOT

    def _move_event_time(
        self, step: Step, operations: tuple[nodes.Operation, ...], known: KnownColumns
    ) -> bool:
        """Move the event time of a step to its source; return whether it has one."""
        if step.event_time is None:
            return False
        times = StepTimes(self.pipeline, self.parts, self.report)
        for part in times.move_to_source(step, operations, known):
            self.parts[part.name] = part
            self.streams.update({stream.name: stream for stream in part.outputs})
        return True

    def _combine_inputs(
        self, step: Step, inputs: Sequence[tuple[Text, KnownColumns]]
    ) -> tuple[KnownColumns, tuple[nodes.Operation, ...]]:
        """Return the columns of the input rows, and the operation that combines two inputs."""
        rules = step.broadcast
        if step.connect is not None or (rules is not None and (step.process or rules.on is None)):
            names = (
                str(name or stream[0])
                for name, stream in zip(get_input_aliases(step), inputs, strict=True)
            )
            sides = [(n, *self._get_input(stream)) for n, stream in zip(names, inputs, strict=True)]
            found = (self.streams.get(name) for name, _ in inputs)
            is_append = all(isinstance(s.kind, nodes.Append) for s in found if s is not None)
            return build_connected_inputs(step, sides, self.report, is_append=is_append)
        if step.join is not None or step.broadcast is not None:
            return self._build_join(step, inputs)
        if step.match is not None and step.match.rules is not None:
            # Loading all aggregates takes time, which other pipelines need not spend.
            from headrace.core.plan.rule_matches import build_rule_match

            sides = [(str(stream[0]), *self._get_input(stream)) for stream in inputs]
            return build_rule_match(step, sides, self.report)
        return unite_columns(inputs, self.report), ()

    def _get_input(self, stream: tuple[Text, KnownColumns]) -> tuple[KnownColumns, bool]:
        """Return the known columns of an input, and whether its rows have an event time."""
        name, known = stream
        return known, name not in self.streams or self.streams[name].has_event_time

    def _build_join(
        self, step: Step, inputs: Sequence[tuple[Text, KnownColumns]]
    ) -> tuple[KnownColumns, tuple[nodes.Operation, ...]]:
        """Return the output columns of a join, and the join itself if it is valid."""
        kinds = (self.streams[n].kind if n in self.streams else nodes.Append() for n, _ in inputs)
        left, right = (
            JoinInput(str(name or stream[0]), kind, *self._get_input(stream))
            for name, stream, kind in zip(get_input_aliases(step), inputs, kinds, strict=True)
        )
        clause: JoinBuilder = (
            JoinBuilder(step, step.join, left, right, self.report)
            if step.join is not None
            else BroadcastJoinBuilder(step, left, right, self.report)
        )
        found = clause.build()
        return clause.known_columns, () if found is None else split_results(found)

    def _infer_kinds(
        self, step: Step, operations: tuple[nodes.Operation, ...]
    ) -> tuple[nodes.StreamKind, tuple[nodes.Operation, ...], tuple[str, ...]]:
        """Return the kind of the output, the operations with the kinds of their inputs, and the
        input streams. An operation that does not accept its input is reported.
        """
        names = tuple(map(self._get_stream_name, step.input_streams))
        kinds = tuple(self.streams[n].kind for n in step.input_streams if n in self.streams)
        try:
            match operations:
                case (nodes.Join(matching=AsOfMatch()) as join, *others) if len(kinds) == 2:
                    versions = self.versions.find(names[1])
                    names = (names[0], versions.stream.name)
                    kinds = (kinds[0], versions.stream.kind)
                    operations = (versions.read_in(join), *others)
            found = infer_step_kinds(step, operations, kinds, self.keyless_joins)
        except ChangelogNotSupported as refused:
            self.report.add(refused.message, step.keys_at[refused.clause].locate(), refused.hint)
            return nodes.Append(), operations, names
        self.regrouped_joins |= found.regrouped_joins
        if found.reads_retractions:
            names = tuple(map(self.conversions.to_retractions, step.input_streams))
        if found.reads_upserts:
            names = tuple(map(self.conversions.to_upserts, step.input_streams))
        return found.kind, found.operations, names

    def _get_stream_name(self, name: str) -> str:
        """Return the stream that is read under a name: of a table, its newest changes."""
        return self.streams[name].name if name in self.streams else str(name)

    def _build_sink(self, sink: Sink) -> nodes.Sink:
        self.report.subject = format_subject(sink)
        check_parallelism(sink, self.pipeline, self.report)
        known = self._get_columns(sink.from_)
        input_name = str(sink.from_)
        stream = self.streams.get(input_name)
        if stream is not None:
            input_name = self.conversions.convert_for_sink(sink, stream, self.report)
            stream, known = self.streams[input_name], self.known_columns[input_name]
        kind = stream.kind if stream else nodes.Append()
        outgoing = SinkInput(
            known.schema,
            kind,
            stream is not None and stream.has_event_time,
            self.pipeline.settings.checkpoint,
            tuple(list_unrepeatable_sources(self.pipeline)),
            str(get_format(sink) or ""),
        )
        check_sink(sink, known, outgoing, self.report)
        slot = self._find_slot(sink, (sink.from_,))
        node = build_sink(sink, kind, self.pipeline.settings, slot)
        return replace(node, input=input_name)

    def _get_columns(self, name: Text, tables: Iterable[str] = ()) -> KnownColumns:
        """Return the known columns of a stream; report a name that no stream has.

        `tables` are other names that may be meant.
        """
        if name in self.known_columns:
            return self.known_columns[name]
        owner = name.partition(".")[0]
        broken = self.loaded.broken_names
        lost = self.loaded.has_unknown_names or owner in broken or find_nearest_name(name, broken)
        if name not in self.producers and not lost:
            streams = (*self.producers, *tables)
            self.misspelt_streams.update(
                report_unknown_stream(name, streams, self.pipeline.sinks, self.report)
            )
        return UNKNOWN_COLUMNS
