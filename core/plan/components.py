"""The connected components of a graph. Tests: tests/core/plan/test_regions.py."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def find_components(
    nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]
) -> tuple[frozenset[Node], ...]:
    """Return the components, ordered by their first nodes.

    >>> [sorted(each) for each in find_components("abcde", [("a", "c"), ("d", "c"), ("e", "e")])]
    [['a', 'c', 'd'], ['b'], ['e']]
    """
    parents: dict[Node, Node] = {node: node for node in nodes}

    def find_root(node: Node) -> Node:
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    for one, other in edges:
        parents[find_root(other)] = find_root(one)
    components: dict[Node, set[Node]] = {}
    for node in parents:
        components.setdefault(find_root(node), set()).add(node)
    return tuple(frozenset(each) for each in components.values())
