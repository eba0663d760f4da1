"""The layout of a plan's graph in layers, for drawing: rows flow from each layer to the next.

A part's layer is the longest path from a source to it; a source is moved next to its first reader.
An edge over several layers has a point in each layer between. A feedback edge, which leads back,
does not count for the layers, and has a point in each layer from its start to its end. The order
within a layer is that of the mean of the neighbours, in sweeps of which the one with the fewest
crossings is taken. Then each layer's rows come as near to their neighbours as their order allows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """The points of each edge between its ends, in the direction of its rows."""
    layers: int
    rows: float


def lay_out_graph(
    parts: Sequence[str], edges: Sequence[tuple[str, str]], feedback: Collection[int] = ()
) -> GraphLayout:
    """Lay out a graph; parts stand before those that read them, but for edges of these numbers.

    >>> layout = lay_out_graph(["a", "b", "c"], [("a", "b"), ("a", "c")])
    >>> layout.positions
    {'a': (0, 0.5), 'b': (1, 0.0), 'c': (1, 1.0)}
    """
    forward = [edge for number, edge in enumerate(edges) if number not in feedback]
    layers = _assign_layers(parts, forward)
    graph = _Layers([[] for _ in range(max(layers.values(), default=-1) + 1)])
    for part in parts:
        graph.orders[layers[part]].append(part)
    crossed = [range(layers[start] + 1, layers[end]) for start, end in edges]
    for number, (start, end) in enumerate(edges):
        if number in feedback:
            crossed[number] = range(layers[start], layers[end] - 1, -1)
            graph.add_path([(number, at) for at in reversed(crossed[number])])
        else:
            graph.add_path([start, *((number, at) for at in crossed[number]), end])
    graph.sort()
    rows = graph.place()
    for number in feedback:
        graph.raise_path(rows, [(number, at) for at in crossed[number]])
    top = min(rows.values(), default=0.0)
    found = {node: round(row - top, 2) for node, row in rows.items()}
    return GraphLayout(
        {part: (layers[part], found[part]) for part in parts},
        [[(at, found[number, at]) for at in each] for number, each in enumerate(crossed)],
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

    def add_path(self, nodes: Sequence[Node]) -> None:
        """Add neighbours from layer to layer: parts, and points of an edge, which are new."""
        for node in nodes:
            if not isinstance(node, str):
                self.orders[node[1]].append(node)
        for one, other in pairwise(nodes):
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

    def raise_path(self, rows: dict[Node, float], points: Sequence[Node]) -> None:
        """Move the points of a feedback edge up together, as far as the nodes above them allow."""
        gaps = []
        for order in self.orders:
            offsets = _find_offsets(order)
            for at, node in enumerate(order[1:], 1):
                if node in points:
                    least = offsets[at] - offsets[at - 1]
                    gaps.append(rows[node] - rows[order[at - 1]] - least)
        rows |= {point: rows[point] - min(gaps, default=0.0) for point in points}

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
