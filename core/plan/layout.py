"""How a plan is laid out: the exchange on every edge, and which parts run as one task.

A forward edge joins parts of one parallelism; other edges are hashed by key group where the rows
are upserts (a key's changes must stay in order), and dealt out in turn (rebalance) where not. Parts
joined by a forward edge are one task when the reader reads nothing else and nobody else reads
there: rows then pass from one to the next as a function call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.core.plan.nodes import Edge, PlanPart, Sink, Source, Step, Stream, Task, Upsert


def inputs(part: PlanPart) -> tuple[str, ...]:
    """The names of the streams that a part reads."""
    match part:
        case Source():
            return ()
        case Step():
            return part.inputs
        case Sink():
            return (part.input,)


def edges(parts: Iterable[PlanPart]) -> tuple[Edge, ...]:
    """The edges between the parts, in the order of their readers."""
    parts = tuple(parts)
    writers = {s.name: part for part in parts if not isinstance(part, Sink) for s in part.outputs}
    streams = {s.name: s for part in parts if not isinstance(part, Sink) for s in part.outputs}
    return tuple(
        _edge(streams[name], writers[name], part)
        for part in parts
        for name in inputs(part)
        if name in writers
    )


def _edge(stream: Stream, writer: PlanPart, reader: PlanPart) -> Edge:
    if writer.parallelism == reader.parallelism:
        return Edge(stream.name, writer.name, reader.name, "forward")
    if isinstance(stream.kind, Upsert):
        return Edge(stream.name, writer.name, reader.name, "hash", stream.kind.key)
    return Edge(stream.name, writer.name, reader.name, "rebalance")


def tasks(parts: Iterable[PlanPart], edges: Iterable[Edge]) -> tuple[Task, ...]:
    """The parts grouped into tasks, each in the order in which rows pass."""
    edges = tuple(edges)
    parts = tuple(parts)
    readers = Counter(edge.producer for edge in edges)
    read = Counter(edge.consumer for edge in edges)
    follows: Mapping[str, str] = {
        edge.consumer: edge.producer
        for edge in edges
        if edge.exchange == "forward" and readers[edge.producer] == 1 and read[edge.consumer] == 1
    }
    chains: dict[str, list[PlanPart]] = {}
    for part in parts:
        chain = chains[follows[part.name]] if part.name in follows else []
        chain.append(part)
        chains[part.name] = chain
    distinct = {id(chain): chain for chain in chains.values()}.values()
    return tuple(
        Task(tuple(part.name for part in chain), chain[0].parallelism) for chain in distinct
    )
