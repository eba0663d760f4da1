"""Committed output as what can be compared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from headrace.connectors.memory import InMemoryData
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE

Values = tuple[Any, ...]


def ended(
    memory: InMemoryData, kind: nodes.StreamKind, names: tuple[str, ...], output: str = "out"
) -> Counter[Values]:
    """Return the output after all its changes."""
    frames = memory.outputs.get(output, [])
    if isinstance(kind, nodes.Append):
        return Counter(shown(row) for frame in frames for row in frame.select(names).rows())
    if isinstance(kind, nodes.Retract):
        counts: Counter[Values] = Counter()
        for frame in frames:
            for values, deleted in zip(frame.select(names).rows(), frame[DELETE], strict=True):
                counts[shown(values)] += -1 if deleted else 1
        assert min(counts.values(), default=0) >= 0, counts
        return +counts
    table: dict[Values, Values] = {}
    for frame in frames:
        for values, deleted in zip(
            frame.select(names).rows(), frame[DELETE].to_list(), strict=True
        ):
            named = dict(zip(names, values, strict=True))
            key = shown(named[name] for name in kind.key)
            if deleted:
                table.pop(key, None)
            else:
                table[key] = shown(values)
    return Counter(table.values())


def shown(values: Iterable[Any]) -> Values:
    """Values that can be compared: NaN with itself, lists and structs."""
    return tuple(map(_comparable, values))


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        value = [*value.values()]
    return tuple(map(_comparable, value)) if isinstance(value, list) else value
