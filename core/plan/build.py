"""The build of a plan from a document: names are resolved, columns typed, all errors reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.core.connector import Outgoing
from headrace.core.pipeline.inputs import called
from headrace.core.pipeline.load import Loaded
from headrace.core.pipeline.model import Pipeline, Sink, Source, Step
from headrace.core.pipeline.steps import does_nothing
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.broadcasts import BroadcastClause
from headrace.core.plan.changes import Refused, after, joined, reading, united
from headrace.core.plan.columns import UNKNOWN, Known, Report
from headrace.core.plan.ends import (
    DEAD_LETTERS,
    check_event_time,
    check_sink,
    sink_part,
    source_columns,
    source_part,
)
from headrace.core.plan.growth import warn_of_growth, warn_of_waiting
from headrace.core.plan.joins import JoinClause, unresolved
from headrace.core.plan.joins_on import Joined
from headrace.core.plan.lateness import warn_of_late_again
from headrace.core.plan.layout import edges, tasks
from headrace.core.plan.loops import check_loops
from headrace.core.plan.operations import Operations
from headrace.core.plan.order import circles, in_order, missing
from headrace.core.plan.ordering import with_order
from headrace.core.plan.processes import connected
from headrace.core.plan.pushdown import push_down
from headrace.core.plan.streams import (
    FAILED,
    dead_letters,
    declared,
    late_streams,
    outputs,
    streams_of_rows,
)
from headrace.core.plan.unions import united_columns
from headrace.core.problems import Problem, nearest, sort_problems


def build(loaded: Loaded) -> tuple[nodes.Plan | None, tuple[Problem, ...]]:
    """Return the plan if there is no error, and every problem of the file in any case."""
    builder = Builder(loaded)
    parts = builder.parts()
    problems = tuple(sort_problems([*loaded.problems, *builder.report.problems]))
    if any(problem.severity == "error" for problem in problems):
        return None, problems
    parts = with_order(push_down(parts))
    between = edges(parts)
    pipeline = loaded.pipeline
    laid_out = tasks(parts, between)
    groups = pipeline.settings.key_groups
    return nodes.Plan(str(pipeline.name), groups, parts, between, laid_out), problems


class Builder:
    """A single pass over a document; `known` has the columns of every stream seen so far."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.pipeline: Pipeline = loaded.pipeline
        self.report = Report(folder=loaded.folder)
        self.known: dict[str, Known] = {name: UNKNOWN for name in loaded.broken}
        self.streams: dict[str, nodes.Stream] = {}
        self.circular: list[tuple[str, ...]] = []
        self.meant: set[str] = set()
        """Streams that a misspelt name probably refers to; they count as read."""
        self.owners = self._owners()

    def parts(self) -> tuple[nodes.PlanPart, ...]:
        """Return the sources, the steps in topological order, and the sinks."""
        self._check_circles()
        self._check_sinks()
        self._check_places()
        sources = [self._source(source) for source in self.pipeline.sources.values()]
        reads = {name: self._below(step) for name, step in self.pipeline.steps.items()}
        steps = [self._step(self.pipeline.steps[name]) for name in in_order(reads)]
        sinks = [self._sink(sink) for sink in self.pipeline.sinks.values()]
        self._check_readers()
        warn_of_growth(self.pipeline, (*sources, *steps), self.report)
        warn_of_waiting(self.pipeline, (*sources, *steps), self.report)
        warn_of_late_again(self.pipeline, steps, self.report)
        parts: tuple[nodes.PlanPart, ...] = (*sources, *steps, *sinks)
        check_loops(self.pipeline, parts, self.loaded.folder, self.report)
        return parts

    def _owners(self) -> Mapping[str, str]:
        """Return the part that produces each stream; report names that two parts define."""
        owners: dict[str, str] = {}
        for part, stream in declared(self.pipeline):
            self.report.about = _subject(part)
            of_a_part = stream != part.name and stream in self._parts()
            if stream in owners or of_a_part:
                other = f'a stream of "{owners[stream]}"' if stream in owners else "another part"
                hint = "every stream needs a name of its own; from: [a, b] unites two"
                self.report.add(f'the name "{stream}" is taken by {other}', stream.locate(), hint)
            if not of_a_part:
                owners.setdefault(stream, part.name)
        return owners

    def _parts(self) -> frozenset[str]:
        pipeline = self.pipeline
        return frozenset((*pipeline.sources, *pipeline.steps, *pipeline.sinks))

    def _check_sinks(self) -> None:
        """Check that no sink shares its name: state, metrics and messages refer to names."""
        for sink in self.pipeline.sinks.values():
            if sink.name in self.pipeline.sources or sink.name in self.pipeline.steps:
                self.report.about = _subject(sink)
                kind = "source" if sink.name in self.pipeline.sources else "step"
                message = f'the name "{sink.name}" is taken by a {kind}'
                self.report.add(message, sink.name.locate(), "give the sink another name")

    def _check_places(self) -> None:
        """Check that no two sinks write into one folder, and no two sources read standard input."""
        taken: dict[tuple[str, str], str] = {}
        ends: list[Source | Sink] = [*self.pipeline.sources.values()]
        for end in (*ends, *self.pipeline.sinks.values()):
            is_source = isinstance(end, Source)
            side = end.connector.source if is_source else end.connector.sink
            if side is None or side.place is None:
                continue
            self.report.about = _subject(end)
            place = side.place(end.options)
            other = taken.setdefault((_kind(end), place), end.name)
            if other != end.name:
                message = f'{place} is taken by the {_kind(end)} "{other}"'
                hint = "several steps can read one source" if is_source else "a step can unite both"
                self.report.add(message, end.name.locate(), hint)

    def _below(self, step: Step) -> list[str]:
        """Return the parts that a step reads from."""
        return [self.owners[name] for name in step.reads if name in self.owners]

    def _check_circles(self) -> None:
        reads = {name: self._below(step) for name, step in self.pipeline.steps.items()}
        steps = {name: [b for b in below if b in reads] for name, below in reads.items()}
        self.circular = circles(steps)
        for circle in self.circular:
            step = self.pipeline.steps[circle[0]]
            self.report.about = _subject(step)
            shown = " from ".join((*circle, circle[0]))
            message = f"steps read each other in a cycle: {shown}"
            self.report.add(message, step.keys_at["from"].locate(), "start from a source")

    def _source(self, source: Source) -> nodes.Source:
        self.report.about = _subject(source)
        known = source_columns(source, self.report)
        check_event_time(source, known, self.report)
        part = source_part(source, known, self.pipeline.settings.parallelism)
        self._opens((s, FAILED if s.schema is DEAD_LETTERS else known) for s in part.outputs)
        return part

    def _opens(self, streams: Iterable[tuple[nodes.Stream, Known]]) -> None:
        for stream, known in streams:
            self.streams[stream.name] = stream
            self.known[stream.name] = known

    def _step(self, step: Step) -> nodes.Step:
        self.report.about = _subject(step)
        self._check_parallelism(step)
        inputs = [(name, self._input(name)) for name in step.reads]
        # With a broadcast, rows keep the event time of the first input.
        of_time = step.reads[:1] if step.broadcast else step.reads
        timed = all(self.streams[n].timed for n in of_time if n in self.streams)
        known, begins = self._began(step, inputs)
        operations = Operations(step, known, timed, self.report, begins)
        done = operations.build()
        unresolved(operations.known, step, self.report)
        kind, done = self._kind(step, done)
        rows = streams_of_rows(step, operations.known, kind, timed=operations.timed)
        sources = [(known, timed), *map(self._of_input, inputs)]
        asides = [*late_streams(step, sources), *dead_letters(step)]
        self._opens((*rows, *asides))
        to = step.on_error.to
        return nodes.Step(
            name=str(step.name),
            inputs=tuple(map(str, step.reads)),
            operations=done,
            on_error=str(to) if to else step.on_error.action,
            outputs=tuple(stream for stream, _ in (*rows, *asides)),
            parallelism=step.parallelism or self.pipeline.settings.parallelism,
            asides=frozenset(stream.name for stream, _ in asides),
        )

    def _began(
        self, step: Step, inputs: Sequence[tuple[Text, Known]]
    ) -> tuple[Known, tuple[nodes.Operation, ...]]:
        """Return the columns of the input rows, and the operation that combines two inputs."""
        rules = step.broadcast
        if step.connect is not None or (rules is not None and (step.process or rules.on is None)):
            names = (str(name or came[0]) for name, came in zip(called(step), inputs, strict=True))
            sides = [(n, *self._of_input(came)) for n, came in zip(names, inputs, strict=True)]
            return connected(step, sides, self.report)
        if step.join is not None or step.broadcast is not None:
            return self._joined(step, inputs)
        return united_columns(inputs, self.report), ()

    def _of_input(self, came: tuple[Text, Known]) -> tuple[Known, bool]:
        """Return the known columns of an input, and whether its rows have an event time."""
        name, known = came
        return known, name not in self.streams or self.streams[name].timed

    def _joined(
        self, step: Step, inputs: Sequence[tuple[Text, Known]]
    ) -> tuple[Known, tuple[nodes.Operation, ...]]:
        """Return the output columns of a join, and the join itself if it is valid."""
        kinds = (self.streams[n].kind if n in self.streams else nodes.Append() for n, _ in inputs)
        left, right = (
            Joined(str(name or came[0]), kind, *self._of_input(came))
            for name, came, kind in zip(called(step), inputs, kinds, strict=True)
        )
        clause: JoinClause = (
            JoinClause(step, step.join, left, right, self.report)
            if step.join is not None
            else BroadcastClause(step, left, right, self.report)
        )
        found = clause.build()
        return clause.known, () if found is None else (found,)

    def _kind(
        self, step: Step, operations: tuple[nodes.Operation, ...]
    ) -> tuple[nodes.Kind, tuple[nodes.Operation, ...]]:
        """Return the kind of the output, and the operations with the kinds of their inputs.

        An operation that does not accept its input is reported.
        """
        inputs = tuple(self.streams[n].kind for n in step.reads if n in self.streams)
        typed: list[nodes.Operation] = []
        try:
            match operations:
                case (nodes.Join() as join, *_) if len(inputs) == 2:
                    kind = joined(join, *inputs)
                    typed.append(join)
                case _ if step.join or step.broadcast or step.connect:
                    return nodes.Append(), operations
                case _:
                    kind = united(inputs)
            for operation in operations[len(typed) :]:
                typed.append(reading(operation, kind))
                kind = after(operation, kind)
        except Refused as refused:
            self.report.add(refused.message, step.keys_at[refused.clause].locate(), refused.hint)
            return nodes.Append(), operations
        return kind, tuple(typed)

    def _check_parallelism(self, part: Step | Sink) -> None:
        groups = self.pipeline.settings.key_groups
        if part.parallelism and part.parallelism > groups:
            message = f"parallelism {part.parallelism} is more than the {groups} key groups"
            self.report.add(message, part.keys_at["parallelism"].locate())

    def _sink(self, sink: Sink) -> nodes.Sink:
        self.report.about = _subject(sink)
        self._check_parallelism(sink)
        known = self._input(sink.from_)
        stream = self.streams.get(sink.from_)
        kind = stream.kind if stream else nodes.Append()
        outgoing = Outgoing(
            known.schema,
            kind,
            stream is not None and stream.timed,
            self.pipeline.settings.checkpoint,
            tuple(self._unrepeatable()),
        )
        check_sink(sink, known, outgoing, self.report)
        return sink_part(sink, kind, self.pipeline.settings.parallelism)

    def _unrepeatable(self) -> Iterator[str]:
        """Yield the sources that cannot be read again from a position."""
        for name, source in self.pipeline.sources.items():
            side = source.connector.source
            if side is not None and not side.replays:
                yield name

    def _input(self, name: Text) -> Known:
        """Return the known columns of a stream; report a name that no stream has."""
        if name in self.known:
            return self.known[name]
        owner = name.partition(".")[0]
        broken = self.loaded.broken
        lost = self.loaded.names_lost or owner in broken or nearest(name, broken)
        if name not in self.owners and not lost:
            streams = tuple(self.owners)
            self.meant.update(missing(name, streams, self.pipeline.sinks, self.report))
        return UNKNOWN

    def _check_readers(self) -> None:
        """Report streams without a reader; with a broken part, readers are not known.

        A step that does nothing is rejected already, and needs no reader.
        """
        if self.loaded.broken or self.loaded.names_lost or self.circular:
            return
        steps, sinks = self.pipeline.steps.values(), self.pipeline.sinks.values()
        read = {
            *self.meant,
            *(n for step in steps for n in step.reads),
            *(sink.from_ for sink in sinks),
        }
        for part, stream in declared(self.pipeline):
            if stream in read or (isinstance(part, Step) and does_nothing(part, part.keys_at)):
                continue
            self.report.about = _subject(part)
            named = isinstance(part, Step) and stream.startswith(f"{part.name}.")
            of_rows = named or stream == part.name
            siblings = outputs(part) if isinstance(part, Step) and of_rows else ()
            if any(name in read for name in siblings):
                message = f'nothing reads "{stream}": its rows are dropped'
                self.report.warn(message, stream.locate())
            elif not named or stream.endswith(".else"):
                hint = f"add a sink with from: {stream}"
                self.report.add(f'nothing reads "{stream}"', stream.locate(), hint)


def _subject(part: Source | Step | Sink) -> str:
    """Return the subject of a problem of that part: `step "totals"`."""
    return f'{_kind(part)} "{part.name}"'


def _kind(part: Source | Step | Sink) -> str:
    match part:
        case Source():
            return "source"
        case Step():
            return "step"
        case Sink():
            return "sink"
