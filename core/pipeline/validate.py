"""A model over a piece of the document: an instance, or pydantic's errors as problems of ours.

No word of pydantic's reaches a user: its errors are told apart by type, and everything said is
taken from the field's own reading and from the node at the error's location.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from headrace.core.pipeline.data import BROKEN, described
from headrace.core.pipeline.fields import KEY, Variants
from headrace.core.pipeline.nodes import Mapping, Node, Scalar
from headrace.core.pipeline.nodes import Sequence as Items
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.problems import Place, Problem, did_you_mean

P = TypeVar("P", bound=Part)


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of the document: its key, its node, what it is called, and the keys down to it."""

    key: Text
    node: Node
    subject: str
    path: tuple[str, ...] = ()


def validated(model: type[P], data: object, section: Section) -> tuple[P | None, list[Problem]]:
    """The instance if all is well; else none, and what is wrong."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        found = [
            _problem(model, line, section)
            for line in error.errors(include_url=False)
            if line["input"] is not BROKEN
        ]
        return None, [problem for problem in found if problem is not None]


def _problem(model: type[Part], line: Any, section: Section) -> Problem | None:
    at: tuple[int | str, ...] = line["loc"]
    context = line.get("ctx") or {}
    spot = find(section, tuple(part for part in at if part != KEY))
    path = _path((*section.path, *at))
    here = replace(EMPTY, place=spot.place(on_key=at[-1:] == (KEY,)), subject=section.subject)
    match line["type"]:
        case "wanted":
            message = f"wanted {context['wanted']}, got {described(line['input'])}"
        case "wrong":
            message = context["message"]
        case "missing":
            above = _path((*section.path, *at[:-1]))
            return replace(here, message=f'{above}missing key "{at[-1]}"', place=spot.key_place())
        case "extra_forbidden":
            known = list(_known(model, at[:-1]))
            hint = did_you_mean(str(at[-1]), known)
            place = spot.place(on_key=True)
            above = _path((*section.path, *at[:-1]))
            return replace(here, message=f'{above}unknown key "{at[-1]}"', hint=hint, place=place)
        case _:
            message = f"wanted a mapping, got {described(line['input'])}"
    if context.get("span") and isinstance(line["input"], Text):
        here = replace(here, place=line["input"].locate(*context["span"]))
    return replace(here, message=f"{path}{message}", hint=context.get("hint", ""))


EMPTY = Problem("")


@dataclass(frozen=True, slots=True)
class Spot:
    """The deepest node on the way to an error's location, and the key that it stands under."""

    key: Scalar | None
    node: Node
    section: Section

    def place(self, *, on_key: bool = False) -> Place:
        """Where to point: at a value that is on the key's line, or else at the key."""
        block = not isinstance(self.node, Scalar) and not getattr(self.node, "flow", True)
        if on_key or block or (isinstance(self.node, Scalar) and self.node.nothing):
            return self.key_place()
        if isinstance(self.node, Scalar):
            return Text(self.node.value, self.node).locate()
        return self.node.file.place(self.node.start, self.node.end)

    def key_place(self) -> Place:
        """The place of the key above it."""
        if self.key is None:
            return self.section.key.locate()
        return Text(self.key.value, self.key).locate()


def find(section: Section, at: Sequence[int | str]) -> Spot:
    """Follow keys and indices as far as there are nodes."""
    spot = Spot(None, section.node, section)
    for part in at:
        if isinstance(spot.node, Mapping) and isinstance(part, str):
            entry = spot.node.get(part)
            if entry is None:
                break
            spot = Spot(entry.key, entry.value, section)
        elif isinstance(spot.node, Items) and isinstance(part, int):
            spot = Spot(spot.key, spot.node.items[part], section)
    return spot


def _path(at: Sequence[int | str]) -> str:
    words = "".join(
        f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in at if part != KEY
    )
    return f"{words.removeprefix('.')}: " if words else ""


def _known(model: type[Part], at: Sequence[int | str]) -> Iterator[str]:
    """The keys that could stand at a location."""
    models: list[type[Part]] = [model]
    for part in at:
        models = [inner for outer in models for inner in models_in(outer, str(part))]
    for found in models:
        yield from found.written()


def models_in(model: type[Part], key: str) -> Iterator[type[Part]]:
    """The models that can stand under a key of a model."""
    name = model.written().get(key)
    if name is None:
        return
    info = model.model_fields[name]
    for extra in info.metadata:
        if isinstance(extra, Variants):
            yield from extra.models.values()
            return
    for candidate in (info.annotation, *getattr(info.annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, Part):
            yield candidate
