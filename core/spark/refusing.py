"""Checks that a batch can run a pipeline, reported before anything starts, with file positions.

A batch reads all existing rows, possibly more than once and in no particular order. So it rejects
sources without an end, sources that cannot be read a second time, and operations that depend on the
time of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.connector import Connectors
from headrace.core.pipeline.model import Pipeline
from headrace.core.plan import nodes
from headrace.core.plan.matching import Changing, Everywhere, Matching, Within
from headrace.core.plan.windows import Ttl, Window
from headrace.core.problems import Problem, sort_problems

ONCE = "it cannot be read twice, which a batch may have to do"
FILED = "save it as a file, and read that: files: {path: rows.jsonl}"
WALL = "the result would depend on when the batch runs"
EVENT = "leave out time: processing, and set event_time in the source"
ACCUMULATE = "leave out accumulate: false: then only the last firing of a window counts"


def problems(pipeline: Pipeline, plan: nodes.Plan, connectors: Connectors) -> tuple[Problem, ...]:
    """List all problems of running a plan as a batch."""
    found: list[Problem] = []
    for part in plan:
        if isinstance(part, nodes.Source):
            found += _of_source(pipeline, part, connectors)
        elif isinstance(part, nodes.Step):
            found += _of_step(pipeline, part)
    return tuple(sort_problems(found))


def _of_source(
    pipeline: Pipeline, source: nodes.Source, connectors: Connectors
) -> Iterator[Problem]:
    side = connectors[source.connector].source
    assert side is not None
    place = pipeline.sources[source.name].keys_at[source.connector].locate()
    subject = f'source "{source.name}"'
    if not side.replays or side.pieces is None:
        message = f"--batch cannot read {source.connector}: {ONCE}"
        yield Problem(message, place, FILED, subject)
    elif not side.bounded(source.options):
        yield Problem("it has no end, but --batch reads to the end", place, side.to_end, subject)


def _of_step(pipeline: Pipeline, step: nodes.Step) -> Iterator[Problem]:
    keys, subject = pipeline.steps[step.name].keys_at, f'step "{step.name}"'
    for operation in step.operations:
        if isinstance(operation, nodes.Join) and (why := _of_join(operation.matching)):
            at = keys["join"] if "join" in keys else keys["broadcast"]
            yield Problem(why[0], at.locate(), why[1], subject)
        if (body := nodes.body_of(operation)) is not None:
            for message, hint in _of_body(body):
                yield Problem(message, keys["process"].locate(), hint, subject)
        for key in ("window", "ttl"):
            if why := _why(getattr(operation, key, None)):
                at = keys.get(key) or keys["dedup"]
                yield Problem(why[0], at.locate(), why[1], subject)


def _of_body(body: nodes.Body) -> Iterator[tuple[str, str]]:
    if not body.in_time:
        message = "--batch has no order of arrival for process to follow"
        yield message, "leave out order: arrival, and set event_time in the source"
    clocked = [name for name, said in body.states if said.processing]
    if clocked:
        message = f'--batch has no processing time, which "{clocked[0]}" uses: {WALL}'
        yield message, 'leave out time="processing" where the class declares it'


def _of_join(matching: Matching) -> tuple[str, str] | None:
    """Return why a batch rejects a join, and a hint; None if it does not."""
    match matching:
        case Within(processing=True) | Changing(ttl=Ttl(processing=True)):
            return f"--batch has no joins by processing time: {WALL}", EVENT
        case Everywhere(in_time=False):
            message = "--batch has no order of arrival for broadcast to follow"
            return message, "leave out order: arrival, and set event_time in both sources"
    return None


def _why(asked: object) -> tuple[str, str] | None:
    """Return why a batch rejects a window or ttl, and a hint; None if it does not."""
    match asked:
        case Window(processing=True):
            return f"--batch has no windows of processing time: {WALL}", EVENT
        case Window(accumulate=False, trigger=trigger) if trigger is not None:
            message = "--batch has no early firings without accumulated rows"
            return f"{message}: their rows would depend on when rows arrive", ACCUMULATE
        case Ttl(processing=True):
            return f"--batch has no ttl by processing time: {WALL}", EVENT
    return None
