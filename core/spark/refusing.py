"""What a batch does not do: said of a pipeline before anything starts, at its places in the file.

A batch reads all there is, once or again, and in no order of its own; so it cannot do what has no
end, what cannot be read a second time, or what depends on when rows come.
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
FILED = "put it into a file, and read that: files: {path: rows.jsonl}"
WALL = "which depends on when it runs"
EVENT = "leave out time: processing, and say event_time of the source"
ACCUMULATE = "leave out accumulate: false: then the last time that a window fires counts"


def problems(pipeline: Pipeline, plan: nodes.Plan, connectors: Connectors) -> tuple[Problem, ...]:
    """All that stands in the way of running a plan as a batch."""
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
        yield Problem("it has no end, and --batch reads all there is", place, side.to_end, subject)


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
        message = "process in the order of arrival, which a batch has not, is not for --batch"
        yield message, "leave out order: arrival, and say event_time of the source"
    clocked = [name for name, said in body.states if said.processing]
    if clocked:
        message = f'"{clocked[0]}" goes by processing time, {WALL}, and is not for --batch'
        yield message, 'leave out time="processing" where the class declares it'


def _of_join(matching: Matching) -> tuple[str, str] | None:
    """Why a join is refused, and what to do."""
    match matching:
        case Within(processing=True) | Changing(ttl=Ttl(processing=True)):
            return f"a join by processing time, {WALL}, is not for --batch", EVENT
        case Everywhere(in_time=False):
            message = "broadcast in the order of arrival, which a batch has not, is not for --batch"
            return message, "leave out order: arrival, and say event_time of both sources"
    return None


def _why(asked: object) -> tuple[str, str] | None:
    """Why a window or ttl is refused, and what to do."""
    match asked:
        case Window(processing=True):
            return f"a window of processing time, {WALL}, is not for --batch", EVENT
        case Window(accumulate=False, trigger=trigger) if trigger is not None:
            message = "windows that fire early without their earlier rows are not for --batch"
            return f"{message}: what each of them has depends on when rows come", ACCUMULATE
        case Ttl(processing=True):
            return f"a ttl of processing time, {WALL}, is not for --batch", EVENT
    return None
