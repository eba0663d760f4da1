"""Validation of a section of the document by a model; its errors become problems.

Messages are built from the field's reading and from the node at the error's location.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, get_args

from headrace.core.errors.problems import Location, find_nearest_name
from headrace.core.pipeline.diagnostics import (
    KEY,
    MAX_PROBLEMS,
    DocumentProblems,
    InvalidValue,
    ValueProblem,
)
from headrace.core.pipeline.document_model import (
    DocumentModel,
    InvalidSection,
    KeyPath,
    ModelField,
)
from headrace.core.pipeline.fields import VariantsReading
from headrace.core.pipeline.node_resolver import quote_key
from headrace.core.pipeline.sections import DocumentSection, find_node
from headrace.core.pipeline.text import BROKEN, NOTHING, Text, describe_value
from headrace.core.pipeline.yaml_document.nodes import YamlMapping as MappingNode
from headrace.core.pipeline.yaml_document.nodes import YamlNode, YamlScalar
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

P = TypeVar("P", bound=DocumentModel)

SUGGESTION = compile_pattern('did you mean "(.+?)"')
CLOSE_SPELLING = 0.75
EMPTY_KEY = '""'
SWITCHES = ("true", "false")

TYPOGRAPHIC_QUOTES = ("\u201c", "\u201d", "\u201e", "\u2018", "\u2019", "\u00ab")


def validate(
    model: type[P],
    data: object,
    section: DocumentSection,
    findings: DocumentProblems,
    keys: SectionKeys | None = None,
) -> P | None:
    """Return the instance of a model, and report all errors.

    If the only errors are in keys that can be ignored, return an instance without these keys.
    """
    keys = keys or SectionKeys()
    try:
        return model.model_validate(data)
    except InvalidSection as error:
        report = ValidationReport(model, section, findings, keys)
        report.report_errors(error)
        misspelt = report.meant - {(key,) for key in (*keys.ignorable, *keys.misplaced)}
        if misspelt:
            return None
        rest = drop_ignorable_keys(model, data, error, keys) if isinstance(data, dict) else None
        return get_partial_instance(model, error) if rest is None else revalidate(model, rest)


def get_partial_instance(model: type[P], error: InvalidSection) -> P | None:
    """Return the instance if its only error is that its keys do not go together."""
    for each in error.errors:
        unread = each.cause
        if not each.at and isinstance(unread, InvalidValue) and isinstance(unread.partial, model):
            return unread.partial
    return None


def revalidate(model: type[P], rest: Mapping[str, object]) -> P | None:
    """Return the instance of the remaining keys, which may need the ignored ones to go together."""
    try:
        return model.model_validate(rest)
    except InvalidSection as error:
        return get_partial_instance(model, error)


def drop_ignorable_keys(
    model: type[DocumentModel],
    data: Mapping[str, object],
    error: InvalidSection,
    keys: SectionKeys,
) -> dict[str, object] | None:
    """Return the data without the invalid keys, if the part is still meaningful then."""
    rest = dict(data)
    for each in error.errors:
        if not each.at:
            return None
        key = str(each.at[0])
        field = model.get_field(key)
        unread = each.cause
        unknown = field is None and keys.ignores_unknown
        partial = unread.partial if isinstance(unread, InvalidValue) else None
        if len(each.at) == 1 and partial is not None:
            rest[key] = partial
        elif unknown or (field is not None and not field.is_required() and key in keys.ignorable):
            rest.pop(key, None)
        else:
            return None
    return rest


@dataclass(frozen=True, slots=True)
class SectionKeys:
    """Keys at the top of a section that its model does not have.

    `additional` are valid there too, `misplaced` are present but in a wrong place, `refused` are
    keys of the model that are rejected there, and `suggest` returns the hint for a key that belongs
    to another part of the document. Without the keys of `ignorable`, and without unknown keys if
    `ignores_unknown` is set, the part is still meaningful: the columns that it reads or produces
    are the same.
    """

    ignorable: Collection[str] = ()
    ignores_unknown: bool = False
    additional: Sequence[str] = ()
    misplaced: frozenset[str] = frozenset()
    refused: Collection[str] = ()
    suggest: Callable[[str], str] = lambda key: ""


class ValidationReport:
    """A report of the errors in one section of the document."""

    def __init__(
        self,
        model: type[DocumentModel],
        section: DocumentSection,
        findings: DocumentProblems,
        keys: SectionKeys,
    ) -> None:
        self.model = model
        self.section = section
        self.findings = findings
        self.keys = keys
        self.meant: set[KeyPath] = {(key,) for key in keys.misplaced}

    def report_errors(self, error: InvalidSection) -> None:
        """Report every error; unknown keys first, because a misspelt key is not also missing."""
        for each in sorted(error.errors, key=lambda each: each.kind != "unknown"):
            if self.findings.is_full:
                break
            if isinstance(each.cause, InvalidValue):
                for complaint in each.cause.problems[:MAX_PROBLEMS]:
                    self._report_value_problem(replace(complaint, at=(*each.at, *complaint.at)))
            else:
                self._report_section_error(each.kind, each.at, each.value)

    def _report_section_error(self, kind: str, at: KeyPath, value: object) -> None:
        if kind == "unknown":
            self._report_unknown_key(at)
        elif kind == "missing":
            spot = find_node(self.section, at[:-1])
            lost = isinstance(spot.node, MappingNode) and spot.node.is_incomplete
            if at not in self.meant and not lost:
                message = f'missing key "{at[-1]}"'
                self._add_problem(
                    at[:-1], message, spot.key.locate(), self._describe_missing_key(at)
                )
        elif value is not BROKEN:
            message = f"wanted {self._describe_mapping(at)}, got {describe_value(value)}"
            place = find_node(self.section, at).locate()
            self._add_problem(at, message, place, self._suggest_mapping(at, value))

    def _report_value_problem(self, complaint: ValueProblem) -> None:
        if complaint.value is BROKEN:
            return
        at, message, hint = complaint.at, complaint.message, complaint.hint
        if not message:
            message = f"wanted {complaint.wanted}, got {describe_value(complaint.value)}"
            hint = hint or self._suggest_quotes(at, complaint.value)
        self._add_problem(at, message, self._locate(complaint), hint)

    def _report_unknown_key(self, at: KeyPath) -> None:
        key = str(at[-1])
        models = self._find_models(at[:-1])
        known = [word for model in models for word in model.fields_by_key()]
        if len(at) == 1:
            known = [word for word in known if word not in self.keys.refused]
            known += self.keys.additional
        hint = self.keys.suggest(key) if len(at) == 1 else self._suggest_variant(at)
        alias = next((m.key_aliases[key] for m in models if key in m.key_aliases), "")
        given = self._list_given_keys(at[:-1])
        hint = hint or _suggest_inside(models, alias, key)
        near = "" if hint else alias or _find_meant_key(key, known, given)
        if near:
            self.meant.add((*at[:-1], near))
        hint = hint or (
            f'did you mean "{near}"?' if near else self._suggest_outer_key(at) or _list_keys(known)
        )
        if (meant := SUGGESTION.match(hint)) and meant[1] in given:
            hint = f'"{meant[1]}" is given already'
        place = find_node(self.section, at).key.locate()
        self._add_problem(at[:-1], f"unknown key {quote_key(key)}", place, hint)

    def _list_given_keys(self, at: KeyPath) -> Collection[str]:
        """Return the keys that a mapping has."""
        node = find_node(self.section, at).node
        return {str(e.key.value) for e in node.entries} if isinstance(node, MappingNode) else ()

    def _suggest_variant(self, at: KeyPath) -> str:
        """Return the hint for a key that belongs to another variant, as to another strategy."""
        for model in self._find_models(at[:-2]):
            variants = find_variants(model, str(at[-2]))
            for word, other in variants.models.items() if variants else ():
                if at[-1] in other.fields_by_key():
                    return f'"{at[-1]}" belongs to {variants.key}: {word}' if variants else ""
        return ""

    def _suggest_outer_key(self, at: KeyPath) -> str:
        """Return the hint for a key of the part itself that is inside one of its clauses."""
        of_part = len(at) == 2 and at[1] != "from" and at[1] in self.model.fields_by_key()
        return f'it belongs next to "{at[0]}": {at[1]}: ...' if of_part else ""

    def _describe_missing_key(self, at: KeyPath) -> str:
        """Return the first sentence of the description of a missing key."""
        for model in self._find_models(at[:-1]):
            field = model.get_field(str(at[-1]))
            text = (field.description or "") if field else ""
            first = re.split(r"[.;](?:\s|$)| \(", text, maxsplit=1)[0].replace("`", "")
            return f"{at[-1]}: {first[:1].lower()}{first[1:]}" if first else ""
        return ""

    def _suggest_mapping(self, at: KeyPath, value: object) -> str:
        """Return the hint for a plain value that is short for a mapping."""
        if not isinstance(value, Text) or value.secret:
            return ""
        outer, is_switch = at[-1] if at else self.section.key, str(value) in SWITCHES
        for model in self._find_models(at):
            for key, name in model.fields_by_key().items():
                field = model.model_fields[name]
                if is_accepted(field, value) and (not is_switch or _takes_switch(field)):
                    return f"write {outer}: {_format_mapping(model, key, value)}"
            if is_switch and (required := _list_required_keys(model)):
                return f"write {outer}: {{{': ..., '.join(required)}: ...}}"
        return ""

    def _suggest_quotes(self, at: KeyPath, value: object) -> str:
        node = find_node(self.section, at).node
        if value is NOTHING and isinstance(node, YamlScalar) and node.value:
            return f'in quotes it is a word: "{node.value}"'
        if isinstance(value, Text) and not value.secret and value.startswith(TYPOGRAPHIC_QUOTES):
            return "these are typographic quotes, and part of the value: use \" or '"
        return ""

    def _locate(self, complaint: ValueProblem) -> Location:
        if complaint.at and complaint.at[-1] == KEY:
            return find_node(self.section, complaint.at[:-1]).key.locate()
        if isinstance(complaint.value, Text):
            return complaint.value.locate(*complaint.span or (0, None))
        return find_node(self.section, complaint.at).locate()

    def _describe_mapping(self, at: KeyPath) -> str:
        keys = [word for model in self._find_models(at) for word in model.fields_by_key()]
        return f"a mapping with {', '.join(keys)}" if keys else "a mapping"

    def _add_problem(self, at: KeyPath, message: str, place: Location, hint: str = "") -> None:
        path = format_key_path((*self.section.path, *at))
        self.findings.add(path + message, place, hint, self.section.subject)

    def _find_models(self, at: KeyPath) -> list[type[DocumentModel]]:
        models: list[type[DocumentModel]] = [self.model]
        for depth, part in enumerate(at):
            node = find_node(self.section, at[: depth + 1]).node
            models = [inner for outer in models for inner in find_models(outer, str(part), node)]
        return models


def _find_meant_key(key: str, known: Collection[str], given: Collection[str]) -> str:
    """Return the nearest key; one that is given already only if its spelling is close."""
    near = find_nearest_name(key, known)
    if near in given and not find_nearest_name(key, [near], CLOSE_SPELLING):
        return find_nearest_name(key, [word for word in known if word not in given])
    return near


def _suggest_inside(models: Sequence[type[DocumentModel]], outer: str, key: str) -> str:
    """Return the hint for a key that belongs inside the mapping of another key."""
    for field in filter(None, (model.get_field(outer) for model in models)):
        if field.nested is not None and key in field.nested.fields_by_key():
            return f'it belongs inside "{outer}": {outer}: {{{key}: ...}}'
    return ""


def _format_mapping(model: type[DocumentModel], key: str, value: Text) -> str:
    """Return a mapping of one key and its value, and of the other keys that it needs."""
    others = (f", {other}: ..." for other in _list_required_keys(model) if other != key)
    return f"{{{key}: {value}{''.join(others)}}}"


def _list_required_keys(model: type[DocumentModel]) -> list[str]:
    if model.usual_keys:
        return [*model.usual_keys]
    return [k for k, n in model.fields_by_key().items() if model.model_fields[n].is_required()]


def _takes_switch(field: ModelField) -> bool:
    """Whether a field is true or false."""
    return bool in (field.annotation, *get_args(field.annotation))


def _list_keys(keys: Sequence[str]) -> str:
    return f"the keys are {', '.join(dict.fromkeys(keys))}" if keys else "there are no options"


def format_key_path(at: Sequence[int | str]) -> str:
    """Return the path of keys to a value, for the beginning of a message.

    >>> format_key_path(("checkpoint", "every")), format_key_path(("from", 0)), format_key_path(())
    ('checkpoint.every: ', 'from[0]: ', '')
    """
    words = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part or EMPTY_KEY}"
        for part in at
        if part != KEY
    )
    words = words.removeprefix(".")
    return f"{words if len(words) <= 60 else words[:57] + '...'}: " if words else ""


def is_accepted(field: ModelField, value: object, *, nested: bool = False) -> bool:
    """Whether a field accepts a value; a nested model does only if `nested` is set."""
    if field.reading is None and not (nested and field.nested):
        return False
    try:
        field.read(value)
    except (InvalidValue, InvalidSection):
        return False
    return True


def find_variants(model: type[DocumentModel], key: str) -> VariantsReading | None:
    """Return the variants of a key's field, if it has any."""
    field = model.get_field(key)
    reading = field.reading if field else None
    return reading if isinstance(reading, VariantsReading) else None


def find_models(
    model: type[DocumentModel], key: str, node: YamlNode
) -> Iterator[type[DocumentModel]]:
    """Yield the model of the value of a key, if it has one."""
    variants = find_variants(model, key)
    field = model.get_field(key)
    if variants:
        entry = node.get(variants.key) if isinstance(node, MappingNode) else None
        word = entry.value.value if entry and isinstance(entry.value, YamlScalar) else ""
        yield variants.get_model(word)
    elif field:
        yield from (field.nested,) if field.nested else ()
