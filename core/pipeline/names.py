"""The names that a part gives to streams, also if the part itself could not be read.

While the part is broken, a reader of such a stream gets no problem of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.pipeline.nodes import (
    RejectedNode,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)


def list_stream_names(name: str, node: YamlNode) -> Iterator[str]:
    """Yield the part's own name, its outputs, and its streams of late and failed rows."""
    yield name
    node = unwrap_rejected(node)
    if not isinstance(node, YamlMapping):
        return
    for entry in node.entries:
        if entry.key.value in ("route", "outputs"):
            yield from _output_names(name, unwrap_rejected(entry.value))
        elif entry.key.value == "process" and isinstance(entry.value, YamlMapping):
            outputs = entry.value.get("outputs")
            yield from _output_names(name, outputs.value) if outputs else ()
    yield from list_side_stream_names(node)


def list_side_stream_names(node: YamlNode) -> Iterator[str]:
    """Yield the names of the streams of late and failed rows, and of rows without a match."""
    node = unwrap_rejected(node)
    for entry in node.entries if isinstance(node, YamlMapping) else ():
        if entry.key.value in ("join", "connect"):
            yield from _late_stream_names(unwrap_rejected(entry.value))
        if entry.key.value in ("on_error", "window", "process", "dedup", "broadcast"):
            yield from _diverted_names(unwrap_rejected(entry.value))
        if entry.key.value == "lookup" and isinstance(entry.value, YamlMapping):
            misses = entry.value.get("on_miss")
            yield from _diverted_names(unwrap_rejected(misses.value)) if misses else ()


def list_parts(section: YamlNode) -> Iterator[tuple[str, YamlNode]]:
    """Yield the parts of a section by name, also if it is rejected or written as a list."""
    section = unwrap_rejected(section)
    if isinstance(section, YamlMapping):
        yield from ((entry.key.value, entry.value) for entry in section.entries)
    for item in section.items if isinstance(section, YamlSequence) else ():
        name = item.get("name") if isinstance(item, YamlMapping) else None
        if name and isinstance(name.value, YamlScalar):
            yield name.value.value, item


def unwrap_rejected(node: YamlNode) -> YamlNode:
    """Return the node itself; for a rejected node, the node that it may mean."""
    return node.inner if isinstance(node, RejectedNode) and node.inner else node


def _output_names(name: str, node: YamlNode) -> Iterator[str]:
    if isinstance(node, YamlMapping):
        yield from (f"{name}.{entry.key.value}" for entry in node.entries)
        yield f"{name}.else"


def _late_stream_names(join: YamlNode) -> Iterator[str]:
    """Yield the streams of late rows of each input, also where one is named for both."""
    late = join.get("late_to") if isinstance(join, YamlMapping) else None
    node = unwrap_rejected(late.value) if late else None
    values = [entry.value for entry in node.entries] if isinstance(node, YamlMapping) else [node]
    yield from (each.value for each in values if isinstance(each, YamlScalar) and each.value)


def _diverted_names(node: YamlNode) -> Iterator[str]:
    if isinstance(node, YamlMapping):
        for entry in node.entries:
            to, value = entry.key.value in ("to", "late_to"), entry.value
            if to and isinstance(value, YamlScalar) and value.value:
                yield value.value
