"""The layout of a plan's graph in layers, for drawing: rows flow from each layer to the next.

A part's layer is the longest path from a source to it; a source is moved next to its first reader.
An edge over several layers has a point in each layer between. The order within a layer is that of
the mean of the neighbours, in sweeps of which the one with the fewest crossings is taken. Then each
layer's rows come as near to their neighbours as their order allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from headrace.core.types.lazy_dataclass import dataclass

SWEEPS = 8
POINT_HEIGHT = 0.5
"""The height of a point of an edge, in that of a part."""

Node = str | tuple[int, int]
"""The name of a part, or the number of an edge and a layer that it crosses."""


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Positions as layer and row; both begin at 0, and neighbours in a layer are one row apart."""

    positions: Mapping[str, tuple[int, float]]
    paths: Sequence[Sequence[tuple[int, float]]]
    """The points of each edge between its ends."""
    layers: int
    rows: float


def lay_out_graph(parts: Sequence[str], edges: Sequence[tuple[str, str]]) -> GraphLayout:
    """Lay out an acyclic graph; parts stand before those that read them.

    >>> layout = lay_out_graph(["a", "b", "c"], [("a", "b"), ("a", "c")])
    >>> layout.positions
    {'a': (0, 0.5), 'b': (1, 0.0), 'c': (1, 1.0)}
    """
    layers = _assign_layers(parts, edges)
    graph = _Layers([[] for _ in range(max(layers.values(), default=-1) + 1)])
    for part in parts:
        graph.orders[layers[part]].append(part)
    for number, (start, end) in enumerate(edges):
        graph.add_edge(number, start, end, range(layers[start] + 1, layers[end]))
    graph.sort()
    rows = graph.place()
    top = min(rows.values(), default=0.0)
    found = {node: round(row - top, 2) for node, row in rows.items()}
    return GraphLayout(
        {part: (layers[part], found[part]) for part in parts},
        [
            [(at, found[number, at]) for at in range(layers[start] + 1, layers[end])]
            for number, (start, end) in enumerate(edges)
        ],
        len(graph.orders),
        round(max(found.values(), default=0.0) + 1, 2),
    )


def _assign_layers(parts: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    layers: dict[str, int] = {}
    inputs = {part: [start for start, end in edges if end == part] for part in parts}
    for part in parts:
        layers[part] = max((layers[each] + 1 for each in inputs[part]), default=0)
    for part in parts:
        readers = [layers[end] for start, end in edges if start == part]
        if not inputs[part] and readers:
            layers[part] = min(readers) - 1
    return layers


@dataclass(slots=True)
class _Layers:
    """The nodes of each layer in their order, and their neighbours."""

    orders: list[list[Node]]
    before: dict[Node, list[Node]] = field(default_factory=dict)
    after: dict[Node, list[Node]] = field(default_factory=dict)

    def add_edge(self, number: int, start: str, end: str, between: range) -> None:
        """Add an edge, with a point in each layer between its ends."""
        points: list[Node] = [(number, at) for at in between]
        for at, point in zip(between, points, strict=True):
            self.orders[at].append(point)
        for one, other in pairwise([start, *points, end]):
            self.after.setdefault(one, []).append(other)
            self.before.setdefault(other, []).append(one)

    def sort(self) -> None:
        """Order the nodes of each layer so that few edges cross."""
        best, fewest = self.orders, self.count_crossings()
        for sweep in range(SWEEPS):
            self.orders = [[*order] for order in self.orders]
            towards = self.after if sweep % 2 else self.before
            numbers = range(len(self.orders))
            for at in reversed(numbers) if sweep % 2 else numbers:
                self._sort_layer(at, towards)
            crossings = self.count_crossings()
            if crossings < fewest:
                best, fewest = self.orders, crossings
        self.orders = best

    def count_crossings(self) -> int:
        """Count the pairs of edges that cross."""
        found = 0
        for one, other in pairwise(self.orders):
            places = {node: at for at, node in enumerate(other)}
            ends = [sorted(places[each] for each in self.after.get(node, ())) for node in one]
            flat = [end for each in ends for end in each]
            found += sum(
                first > second for at, first in enumerate(flat) for second in flat[at + 1 :]
            )
        return found

    def place(self) -> dict[Node, float]:
        """Return the row of each node."""
        rows: dict[Node, float] = {}
        for order in self.orders:
            rows |= dict(zip(order, _find_offsets(order), strict=True))
        for sweep in range(SWEEPS):
            towards = self.after if sweep % 2 == 0 else self.before
            for order in self.orders:
                wanted = [_mean(rows, towards.get(node, ()), rows[node]) for node in order]
                rows |= dict(zip(order, _space_out(order, wanted), strict=True))
        return rows

    def _sort_layer(self, at: int, towards: Mapping[Node, Sequence[Node]]) -> None:
        places = {node: float(row) for order in self.orders for row, node in enumerate(order)}
        self.orders[at].sort(key=lambda node: _mean(places, towards.get(node, ()), places[node]))


def _mean(rows: Mapping[Node, float], nodes: Sequence[Node], default: float) -> float:
    return sum(rows[node] for node in nodes) / len(nodes) if nodes else default


def _find_offsets(order: Iterable[Node]) -> list[float]:
    """Return the rows of nodes that stand as close together as they can."""
    offsets, row, last = list[float](), 0.0, 0.0
    for node in order:
        height = 1.0 if isinstance(node, str) else POINT_HEIGHT
        row += (last + height) / 2 if offsets else 0.0
        last = height
        offsets.append(row)
    return offsets


def _space_out(order: Sequence[Node], wanted: Sequence[float]) -> list[float]:
    """Return the rows nearest to the wanted ones, by least squares, in this order and apart."""
    offsets = _find_offsets(order)
    blocks: list[tuple[float, int]] = []  # the sum and the number of shifts that are made alike
    for row, offset in zip(wanted, offsets, strict=True):
        total, count = row - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    shifts = [total / count for total, count in blocks for _ in range(count)]
    return [shift + offset for shift, offset in zip(shifts, offsets, strict=True)]
