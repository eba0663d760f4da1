"""The graph of streams: topological order, cycles, unknown streams, and loops through sinks.

A source may read the output of a sink of the same pipeline. If the sink is downstream of the
source, this is a loop: the output is read again, immediately with `watch`, otherwise when the job
is resumed. Elsewhere it is undefined how much of the output is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from headrace.core.errors.problems import find_nearest_name
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.layout import get_loop
from headrace.core.plan.nodes import PlanPart, Sink, Source, Step
from headrace.core.plan.unbounded_state import find_reached_streams
from headrace.core.types.lazy_dataclass import dataclass


def check_loops(
    pipeline: Pipeline, parts: Iterable[PlanPart], folder: Path, report: PlanProblems
) -> None:
    """Report loops, and sources that read the output of other sinks.

    Both are allowed for connectors that allow feedback; a loop is then warned of.
    """
    parts = tuple(parts)
    found = [*_find_feedback(pipeline, parts, folder)]
    for feedback in found:
        source, sink = feedback.source, feedback.sink
        allowed = pipeline.sources[source.name].connector.allows_feedback
        report.subject = f'sink "{sink.name}"'
        place = pipeline.sinks[sink.name].keys_at[sink.connector].locate()
        message = f'the source "{source.name}" reads what is written here: {feedback.data}'
        is_loop = sink.input in _find_streams_below(parts, source.name, found)
        if is_loop and allowed:
            report.warn(f"{message}, so rows can go round without end", place, LOOP_HINT)
        elif is_loop:
            report.add(message, place, "its own output would be read again: write somewhere else")
        elif not allowed:
            hint = f"how much of it is read is undefined: let a step read {sink.input}"
            report.warn(message, place, hint)


LOOP_HINT = "if this is intended, a filter has to end each round; else write somewhere else"


@dataclass(frozen=True, slots=True)
class _Feedback:
    """A source that reads the output of a sink, and a description of that output."""

    source: Source
    sink: Sink
    data: str


def _find_feedback(
    pipeline: Pipeline, parts: tuple[PlanPart, ...], folder: Path
) -> Iterator[_Feedback]:
    sinks = [part for part in parts if isinstance(part, Sink)]
    for source in (part for part in parts if isinstance(part, Source)):
        connector = pipeline.sources[source.name].connector
        for sink in (each for each in sinks if each.connector == source.connector):
            format = sink.format.name if sink.format else ""
            data = connector.describe_feedback(source.options, sink.options, format, folder)
            if data:
                yield _Feedback(source, sink, data)


def _find_streams_below(
    parts: tuple[PlanPart, ...], source: str, found: Sequence[_Feedback]
) -> set[str]:
    """Return the streams that rows of a source reach, also through sinks and the heads of loops."""
    steps = (part for part in parts if isinstance(part, Step))
    heads = {step.name: loop.feedback for step in steps if (loop := get_loop(step)) is not None}
    sources, below = {source}, set[str]()
    while True:
        below |= set(find_reached_streams(parts, sources))
        fed = {each.source.name for each in found if each.sink.input in below}
        fed |= {name for name, feedback in heads.items() if feedback in below}
        if fed <= sources:
            return below
        sources |= fed


def sort_topologically(reads: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the names in topological order, inputs first; cycles are cut."""
    done: set[str] = set()
    for start in reads:
        pending: list[tuple[str, bool]] = [(start, False)]
        path: set[str] = set()
        while pending:
            name, is_done = pending.pop()
            if is_done:
                path.discard(name)
                done.add(name)
                yield name
            elif name not in done and name not in path and name in reads:
                path.add(name)
                pending.append((name, True))
                pending.extend((below, False) for below in reversed(reads[name]))


def find_cycles(reads: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return each cycle of names that read each other, once, beginning with its first in the file.

    >>> find_cycles({"a": ["b"], "b": ["a"], "c": ["a"]})
    [('a', 'b')]
    """
    cycles: dict[frozenset[str], tuple[str, ...]] = {}
    settled: set[str] = set()
    for start in reads:
        path = [start]
        choices = [iter(reads[start])]
        while choices:
            below = next(choices[-1], None)
            if below is None:
                settled.add(path.pop())
                choices.pop()
            elif below in path:
                circle = tuple(path[path.index(below) :])
                cycles.setdefault(frozenset(circle), circle)
            elif below in reads and below not in settled:
                path.append(below)
                choices.append(iter(reads[below]))
    return list(cycles.values())


def report_unknown_stream(
    name: Text, streams: Collection[str], dead_ends: Collection[str], report: PlanProblems
) -> tuple[str, ...]:
    """Report a `from` without a stream: a misspelt name, a sink, or a route without its output.

    Return the streams that were probably meant; these count as read.
    """
    if name in dead_ends:
        report.add(f'"{name}" is a sink: nothing comes out of it', name.locate())
        return ()
    outputs = tuple(sorted(stream for stream in streams if stream.startswith(f"{name}.")))
    if outputs:
        hint = f"one of {', '.join(outputs)}"
        report.add(f'"{name}" is a route and has only named outputs', name.locate(), hint)
        return outputs
    step = name.partition(".")[0]
    siblings = tuple(stream for stream in streams if stream.startswith(f"{step}."))
    if step != name and step in streams and siblings:
        hint = f'did you mean "{near}"?' if (near := find_nearest_name(name, siblings)) else ""
        if name == nodes.name_over_stream(step) and nodes.name_loop_stream(step) in siblings:
            hint = "it is there with max_rounds, for rows that have gone round so often"
        message = f'"{step}" has no output "{name.removeprefix(f"{step}.")}"'
        report.add(message, name.locate(), hint or f"it has {', '.join(siblings)}")
        return (step, *siblings)
    if step != name and step in streams:
        report.add(f'"{step}" is not a route and has no outputs', name.locate(), f"write {step}")
        return (step,)
    last = name.rpartition(".")[2]
    shown = [stream for stream in streams if "@" not in stream]  # others are inside of queries
    near = find_nearest_name(name, shown) or (last if last in streams else "")
    known = f"there are {', '.join(shown)}" if shown else "there are no sources"
    hint = f'did you mean "{near}"?' if near else known
    report.add(f'unknown source or step "{name}"', name.locate(), hint)
    return (near, *siblings) if near else siblings
