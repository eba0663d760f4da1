"""Validation of a section of the document by a model; pydantic's errors become problems.

No text of pydantic reaches a user: its errors are distinguished by type, and messages are built
from the field's reading and from the node at the error's location.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from headrace.core.pipeline.complaints import KEY, Complaint, Unread
from headrace.core.pipeline.data import BROKEN, NOTHING, described
from headrace.core.pipeline.fields import Variants
from headrace.core.pipeline.findings import MAX_PROBLEMS, Findings
from headrace.core.pipeline.nodes import Mapping as MappingNode
from headrace.core.pipeline.nodes import Node, Scalar
from headrace.core.pipeline.part import Part, part_of, reading_of
from headrace.core.pipeline.resolve import named
from headrace.core.pipeline.spots import Section, find
from headrace.core.pipeline.text import Text
from headrace.core.problems import Place, nearest

P = TypeVar("P", bound=Part)
Location = tuple[int | str, ...]

EMPTY = '""'
TYPOGRAPHIC = ("\u201c", "\u201d", "\u201e", "\u2018", "\u2019", "\u00ab")


def validated(
    model: type[P],
    data: object,
    section: Section,
    findings: Findings,
    keys: Keys | None = None,
) -> P | None:
    """Return the instance of a model, and report all errors.

    If the only errors are in keys that can be ignored, return an instance without these keys.
    """
    keys = keys or Keys()
    try:
        return model.model_validate(data)
    except ValidationError as error:
        report = Report(model, section, findings, keys)
        report.all_of(error)
        misspelt = report.meant - {(key,) for key in (*keys.spare, *keys.meant)}
        if misspelt:
            return None
        rest = spared(model, data, error, keys) if isinstance(data, dict) else None
        return partial(model, error) if rest is None else remade(model, rest)


def partial(model: type[P], error: ValidationError) -> P | None:
    """Return the instance if its only error is that its keys do not go together."""
    for line in error.errors(include_url=False):
        unread = line.get("ctx", {}).get("error")
        if not line["loc"] and isinstance(unread, Unread) and isinstance(unread.partial, model):
            return unread.partial
    return None


def remade(model: type[P], rest: Mapping[str, object]) -> P | None:
    """Return the instance of the remaining keys, which may need the ignored ones to go together."""
    try:
        return model.model_validate(rest)
    except ValidationError as error:
        return partial(model, error)


def spared(
    model: type[Part], data: Mapping[str, object], error: ValidationError, keys: Keys
) -> dict[str, object] | None:
    """Return the data without the invalid keys, if the part is still meaningful then."""
    rest = dict(data)
    for line in error.errors(include_url=False):
        if not line["loc"]:
            return None
        key = str(line["loc"][0])
        field = model.field(key)
        unread = line.get("ctx", {}).get("error")
        unknown = field is None and keys.spare_unknown
        if len(line["loc"]) == 1 and isinstance(unread, Unread) and unread.partial is not None:
            rest[key] = unread.partial
        elif unknown or (field is not None and not field.is_required() and key in keys.spare):
            rest.pop(key, None)
        else:
            return None
    return rest


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys at the top of a section that its model does not have.

    `more` are valid there too, `later` are planned, `meant` are present but in a wrong place, and
    `elsewhere` returns the hint for a key that belongs to another part of the document. Without the
    keys of `spare`, and without unknown keys if `spare_unknown` is set, the part is still
    meaningful: the columns that it reads or produces are the same.
    """

    spare: Collection[str] = ()
    spare_unknown: bool = False
    more: Sequence[str] = ()
    meant: frozenset[str] = frozenset()
    later: Sequence[str] = ()
    elsewhere: Callable[[str], str] = lambda key: ""


class Report:
    """A report of the errors in one section of the document."""

    def __init__(
        self,
        model: type[Part],
        section: Section,
        findings: Findings,
        keys: Keys,
    ) -> None:
        self.model = model
        self.section = section
        self.findings = findings
        self.keys = keys
        self.meant: set[Location] = {(key,) for key in keys.meant}

    def all_of(self, error: ValidationError) -> None:
        """Report every error; unknown keys first, because a misspelt key is not also missing."""
        lines = error.errors(include_url=False)
        for line in sorted(lines, key=lambda line: line["type"] != "extra_forbidden"):
            if self.findings.full:
                break
            unread = line.get("ctx", {}).get("error")
            if isinstance(unread, Unread):
                for complaint in unread.complaints[:MAX_PROBLEMS]:
                    self._complain(replace(complaint, at=(*line["loc"], *complaint.at)))
            else:
                self._one(line["type"], line["loc"], line["input"])

    def _one(self, kind: str, at: Location, value: object) -> None:
        if kind == "extra_forbidden":
            self._unknown(at)
        elif kind == "missing":
            spot = find(self.section, at[:-1])
            lost = isinstance(spot.node, MappingNode) and spot.node.lost
            if at not in self.meant and not lost:
                message = f'missing key "{at[-1]}"'
                self._add(at[:-1], message, spot.key.locate(), self._needed(at))
        elif value is not BROKEN:
            message = f"wanted {self._mapping(at)}, got {described(value)}"
            place = find(self.section, at).place()
            self._add(at, message, place, self._longer(at, value))

    def _complain(self, complaint: Complaint) -> None:
        if complaint.value is BROKEN:
            return
        at, message, hint = complaint.at, complaint.message, complaint.hint
        if not message:
            message = f"wanted {complaint.wanted}, got {described(complaint.value)}"
            hint = hint or self._hint(at, complaint.value)
        self._add(at, message, self._place(complaint), hint)

    def _unknown(self, at: Location) -> None:
        key = str(at[-1])
        models = self._models(at[:-1])
        known = [word for model in models for word in model.written()]
        later = self.keys.later if len(at) == 1 else [w for m in models for w in m.later]
        if key in later:
            place = find(self.section, at).key.locate()
            return self._add(at[:-1], f"{named(key)} is not built yet", place)
        if len(at) == 1:
            known += self.keys.more
        hint = self.keys.elsewhere(key) if len(at) == 1 else self._variant(at)
        habit = next((m.habits[key] for m in models if key in m.habits), "")
        near = "" if hint else habit or nearest(key, known)
        if near:
            self.meant.add((*at[:-1], near))
        hint = hint or (f'did you mean "{near}"?' if near else self._outside(at) or _listed(known))
        place = find(self.section, at).key.locate()
        self._add(at[:-1], f"unknown key {named(key)}", place, hint)

    def _variant(self, at: Location) -> str:
        """Return the hint for a key that belongs to another variant, as to another strategy."""
        for model in self._models(at[:-2]):
            variants = variants_in(model, str(at[-2]))
            for word, other in variants.models.items() if variants else ():
                if at[-1] in other.written():
                    return f'"{at[-1]}" belongs to {variants.key}: {word}' if variants else ""
        return ""

    def _outside(self, at: Location) -> str:
        """Return the hint for a key of the part itself that is inside one of its clauses."""
        of_part = len(at) == 2 and at[1] != "from" and at[1] in self.model.written()
        return f'it belongs next to "{at[0]}": {at[1]}: ...' if of_part else ""

    def _needed(self, at: Location) -> str:
        """Return the first sentence of the description of a missing key."""
        for model in self._models(at[:-1]):
            field = model.field(str(at[-1]))
            text = (field.description or "") if field else ""
            first = re.split(r"[.;](?:\s|$)| \(", text, maxsplit=1)[0].replace("`", "")
            return f"{at[-1]}: {first[:1].lower()}{first[1:]}" if first else ""
        return ""

    def _longer(self, at: Location, value: object) -> str:
        """Return the hint for a plain value that is short for a mapping."""
        if not isinstance(value, Text) or value.secret:
            return ""
        for model in self._models(at):
            for key, name in model.written().items():
                if accepts(model.model_fields[name], value):
                    return f"write {at[-1] if at else self.section.key}: {{{key}: {value}}}"
        return ""

    def _hint(self, at: Location, value: object) -> str:
        node = find(self.section, at).node
        if value is NOTHING and isinstance(node, Scalar) and node.value:
            return f'in quotes it is a word: "{node.value}"'
        if isinstance(value, Text) and not value.secret and value.startswith(TYPOGRAPHIC):
            return "these are typographic quotes, and part of the value: use \" or '"
        return ""

    def _place(self, complaint: Complaint) -> Place:
        if complaint.at and complaint.at[-1] == KEY:
            return find(self.section, complaint.at[:-1]).key.locate()
        if isinstance(complaint.value, Text):
            return complaint.value.locate(*complaint.span or (0, None))
        return find(self.section, complaint.at).place()

    def _mapping(self, at: Location) -> str:
        keys = [word for model in self._models(at) for word in model.written()]
        return f"a mapping with {', '.join(keys)}" if keys else "a mapping"

    def _add(self, at: Location, message: str, place: Place, hint: str = "") -> None:
        path = shown_path((*self.section.path, *at))
        self.findings.add(path + message, place, hint, self.section.subject)

    def _models(self, at: Location) -> list[type[Part]]:
        models: list[type[Part]] = [self.model]
        for depth, part in enumerate(at):
            node = find(self.section, at[: depth + 1]).node
            models = [inner for outer in models for inner in models_in(outer, str(part), node)]
        return models


def _listed(keys: Sequence[str]) -> str:
    return f"the keys are {', '.join(dict.fromkeys(keys))}" if keys else "there are no options"


def shown_path(at: Sequence[int | str]) -> str:
    """Return the path of keys to a value, for the beginning of a message.

    >>> shown_path(("checkpoint", "every")), shown_path(("from", 0)), shown_path(())
    ('checkpoint.every: ', 'from[0]: ', '')
    """
    words = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part or EMPTY}" for part in at if part != KEY
    )
    words = words.removeprefix(".")
    return f"{words if len(words) <= 60 else words[:57] + '...'}: " if words else ""


def accepts(field: FieldInfo, value: Text) -> bool:
    """Whether a field accepts a value."""
    reading = reading_of(field)
    if reading is None:
        return False
    try:
        reading.read(value)
    except (Unread, ValidationError):
        return False
    return True


def variants_in(model: type[Part], key: str) -> Variants | None:
    """Return the variants of a key's field, if it has any."""
    field = model.field(key)
    reading = reading_of(field) if field else None
    return reading if isinstance(reading, Variants) else None


def models_in(model: type[Part], key: str, node: Node) -> Iterator[type[Part]]:
    """Yield the model of the value of a key, if it has one."""
    variants = variants_in(model, key)
    field = model.field(key)
    if variants:
        entry = node.get(variants.key) if isinstance(node, MappingNode) else None
        word = entry.value.value if entry and isinstance(entry.value, Scalar) else ""
        yield variants.model(word)
    elif field:
        part = part_of(field)
        yield from (part,) if part else ()
