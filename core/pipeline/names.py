"""The names that a part gives to streams, also if the part itself could not be read.

Whatever reads one of these gets no complaint of its own while the part is broken.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.pipeline.nodes import Mapping, Node, Scalar


def made_by(name: str, node: Node) -> Iterator[str]:
    """The part's own name, its outputs, and the streams for what is late or failed."""
    yield name
    if not isinstance(node, Mapping):
        return
    for entry in node.entries:
        if entry.key.value in ("route", "outputs"):
            yield from _outputs(name, entry.value)
        elif entry.key.value == "process" and isinstance(entry.value, Mapping):
            outputs = entry.value.get("outputs")
            yield from _outputs(name, outputs.value) if outputs else ()
        elif entry.key.value in ("on_error", "window"):
            yield from _elsewhere(entry.value)


def _outputs(name: str, node: Node) -> Iterator[str]:
    if isinstance(node, Mapping):
        yield from (f"{name}.{entry.key.value}" for entry in node.entries)
        yield f"{name}.else"


def _elsewhere(node: Node) -> Iterator[str]:
    if isinstance(node, Mapping):
        for entry in node.entries:
            to, value = entry.key.value in ("to", "late_to"), entry.value
            if to and isinstance(value, Scalar) and value.value:
                yield value.value
