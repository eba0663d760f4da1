"""The names that a part gives to streams, also if the part itself could not be read.

While the part is broken, a reader of such a stream gets no problem of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.pipeline.nodes import Mapping, Node, Refused, Scalar, Sequence


def made_by(name: str, node: Node) -> Iterator[str]:
    """Yield the part's own name, its outputs, and its streams of late and failed rows."""
    yield name
    node = meant(node)
    if not isinstance(node, Mapping):
        return
    for entry in node.entries:
        if entry.key.value in ("route", "outputs"):
            yield from _outputs(name, meant(entry.value))
        elif entry.key.value == "process" and isinstance(entry.value, Mapping):
            outputs = entry.value.get("outputs")
            yield from _outputs(name, outputs.value) if outputs else ()
    yield from diverted(node)


def diverted(node: Node) -> Iterator[str]:
    """Yield the names of the streams of late and failed rows, and of rows without a match."""
    node = meant(node)
    for entry in node.entries if isinstance(node, Mapping) else ():
        if entry.key.value in ("join", "connect"):
            yield from _late(meant(entry.value))
        if entry.key.value in ("on_error", "window", "process", "dedup", "broadcast"):
            yield from _elsewhere(meant(entry.value))
        if entry.key.value == "lookup" and isinstance(entry.value, Mapping):
            misses = entry.value.get("on_miss")
            yield from _elsewhere(meant(misses.value)) if misses else ()


def names_in(section: Node) -> Iterator[tuple[str, Node]]:
    """Yield the parts of a section by name, also if it is rejected or written as a list."""
    section = meant(section)
    if isinstance(section, Mapping):
        yield from ((entry.key.value, entry.value) for entry in section.entries)
    for item in section.items if isinstance(section, Sequence) else ():
        name = item.get("name") if isinstance(item, Mapping) else None
        if name and isinstance(name.value, Scalar):
            yield name.value.value, item


def meant(node: Node) -> Node:
    """Return the node itself; for a rejected node, the node that it may mean."""
    return node.inner if isinstance(node, Refused) and node.inner else node


def _outputs(name: str, node: Node) -> Iterator[str]:
    if isinstance(node, Mapping):
        yield from (f"{name}.{entry.key.value}" for entry in node.entries)
        yield f"{name}.else"


def _late(join: Node) -> Iterator[str]:
    """Yield the streams of late rows of each input, also where one is named for both."""
    late = join.get("late_to") if isinstance(join, Mapping) else None
    node = meant(late.value) if late else None
    values = [entry.value for entry in node.entries] if isinstance(node, Mapping) else [node]
    yield from (each.value for each in values if isinstance(each, Scalar) and each.value)


def _elsewhere(node: Node) -> Iterator[str]:
    if isinstance(node, Mapping):
        for entry in node.entries:
            to, value = entry.key.value in ("to", "late_to"), entry.value
            if to and isinstance(value, Scalar) and value.value:
                yield value.value
