"""The reader of a whole document: its sections, and each of their parts by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from headrace.core.connector import Connectors
from headrace.core.pipeline.data import NOTHING, described
from headrace.core.pipeline.ends import EndReader
from headrace.core.pipeline.fields import OnError
from headrace.core.pipeline.joins import LateTo
from headrace.core.pipeline.later import at_top
from headrace.core.pipeline.lookup import Lookup
from headrace.core.pipeline.model import Pipeline, Sink, SinkKeys, Source, SourceKeys, Step
from headrace.core.pipeline.names import diverted, made_by, names_in
from headrace.core.pipeline.nodes import Entry, Node, Refused, Scalar
from headrace.core.pipeline.nodes import Mapping as MappingNode
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.resolve import Resolver, named
from headrace.core.pipeline.settings import LATER, NOT_ACTING, Settings
from headrace.core.pipeline.spots import Section, find
from headrace.core.pipeline.steps import StepReader
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.validate import Keys, validated
from headrace.core.pipeline.values import Name, Unfit, name
from headrace.core.problems import nearest

KINDS = {"sources": "source", "steps": "step", "sinks": "sink"}
SECTIONS = ("name", "settings", *KINDS)
REQUIRED = {
    "name": "add a line such as name: demo",
    "sources": "rows come from a source",
    "sinks": "rows go to a sink",
}
MAX_PARTS = 1000
START = "headrace new writes a pipeline to start from"

T = TypeVar("T")


class Head(Part):
    """The keys of the pipeline as a whole."""

    name: Name = Field(description="The job's name, under which its state is stored.")


def _has_steps(node: Node) -> bool:
    """Whether a section contains steps or sinks, whatever its key."""
    inner = [entry.value for entry in node.entries] if isinstance(node, MappingNode) else []
    return any(isinstance(part, MappingNode) and part.get("from") for part in inner)


def _asides(part: object) -> Iterator[Text | None]:
    """Yield the streams that a part names for rows that failed, were late, or had no match."""
    yield getattr(part, "on_error", OnError()).to
    for clause in ("window", "dedup", "process", "broadcast", "join", "connect"):
        late = getattr(getattr(part, clause, None), "late_to", None)
        yield from (late.left, late.right) if isinstance(late, LateTo) else (late,)
    lookup: Lookup | None = getattr(part, "lookup", None)
    yield lookup.on_miss.to if lookup else None


class Reader:
    """A reader of one document, which collects the names of broken parts."""

    def __init__(self, connectors: Connectors, resolver: Resolver, folder: Path) -> None:
        self.connectors = connectors
        self.resolver = resolver
        self.findings = resolver.findings
        self.folder = folder
        self.broken: set[str] = set()
        self.names_lost = False

    def pipeline(self, root: Node, default: Text) -> Pipeline:
        """Return all valid parts of the document."""
        if not isinstance(root, MappingNode):
            self.names_lost = True
            self._not_a_mapping(root)
            return Pipeline(default)
        sections = self._sections(root)
        sources = dict(self._parts(sections, "sources", self._source))
        steps = dict(self._parts(sections, "steps", self._step))
        self._keep_apart(sources, steps)
        return Pipeline(
            self._name(sections) or default,
            self._settings(sections),
            sources,
            steps,
            dict(self._parts(sections, "sinks", self._sink)),
        )

    def _not_a_mapping(self, root: Node) -> None:
        if isinstance(root, Refused):
            return
        if isinstance(root, Scalar) and root.nothing:
            return self.findings.add("there is nothing in the file", root.file.whole(), START)
        value = self.resolver.value(root, "")
        plain = isinstance(value, Text) and not value.secret
        pair = re.fullmatch(r"(\w+):(\S.*)", str(value)) if plain else None
        hint = f"a space after the colon: {pair[1]}: {pair[2]}" if pair else "as in name: demo"
        message = f"wanted a mapping with {', '.join(SECTIONS)}, got {described(value)}"
        self.findings.add(message, root.file.place(root.start, root.end), hint)

    def _sections(self, root: MappingNode) -> Mapping[str, Entry]:
        """Return the sections by name, also misspelt ones; report missing and unknown sections."""
        entries = self.resolver.entries(root, "")
        sections = {str(key): entry for key, entry in entries.items() if key in SECTIONS}
        for key, entry in entries.items():
            if key in SECTIONS:
                continue
            if self.findings.full:
                break
            hint = at_top(key, self.connectors)
            near = "" if hint else nearest(key, SECTIONS)
            if near:
                hint = f'did you mean "{near}"?'
                sections.setdefault(near, entry)
            elif not hint and _has_steps(entry.value):
                self.names_lost = True
            known = f"the keys are {', '.join(SECTIONS)}"
            self.findings.add(f"unknown key {named(key)}", key.locate(), hint or known)
        self.names_lost |= root.lost or "sources" not in sections or "sinks" not in sections
        for needed, why in REQUIRED.items():
            if needed not in sections and not root.lost:
                place = root.file.place(root.start, root.start + 1)
                self.findings.add(f'missing key "{needed}"', place, why)
        return sections

    def _name(self, sections: Mapping[str, Entry]) -> Text | None:
        entry = sections.get("name")
        if entry is None:
            return None
        key = Text(entry.key.value, entry.key)
        # A mapping with only the name, so that the location of an error leads to the name.
        node = MappingNode(entry.key.file, entry.key.start, entry.value.end, (entry,))
        data = {"name": self.resolver.value(entry.value, "")}
        head = validated(Head, data, Section(key, node), self.findings)
        return head.name if head else None

    def _settings(self, sections: Mapping[str, Entry]) -> Settings:
        entry = sections.get("settings")
        if entry is None:
            return Settings()
        section = Section(Text(entry.key.value, entry.key), entry.value, "", ("settings",))
        data = self.resolver.value(entry.value, "")
        if data is NOTHING or data == {}:
            self._empty(entry, "settings")
            return Settings()
        keys = Keys(spare=Settings.written(), spare_unknown=True, later=LATER)
        found = validated(Settings, data, section, self.findings, keys)
        self._not_acting(section)
        if found and found.parallelism > found.key_groups:
            message = f"wanted at most key_groups ({found.key_groups}), got {found.parallelism}"
            place = find(section, ("parallelism",)).place()
            self.findings.add(f"settings.parallelism: {message}", place)
        return found or Settings()

    def _not_acting(self, section: Section) -> None:
        for path in NOT_ACTING:
            keys = path.split(".")
            spot = find(section, keys)
            if spot.key == keys[-1] and spot.key is not section.key:
                message = f"settings.{path}: checked, but nothing acts on it yet"
                self.findings.add(message, spot.key.locate(), severity="warning")

    def _empty(self, entry: Entry, what: str) -> None:
        key = Text(entry.key.value, entry.key)
        hint = REQUIRED.get(what, "or remove the key")
        self.findings.add(f"{key}: wanted {what}, got nothing", key.locate(), hint)

    def _parts(
        self, sections: Mapping[str, Entry], of: str, read: Callable[[Section], T | None]
    ) -> Iterator[tuple[str, T]]:
        """Yield the valid parts of a section by name."""
        entry = sections.get(of)
        if entry is None or not self._has_parts(entry, of):
            return
        assert isinstance(entry.value, MappingNode)
        parts = list(self.resolver.entries(entry.value, "").items())
        if len(parts) > MAX_PARTS:
            self.names_lost = True
            key = Text(entry.key.value, entry.key)
            self.findings.add(f"more than {MAX_PARTS} {of} in one pipeline", key.locate())
        for key, part in parts[:MAX_PARTS]:
            section = Section(key, part.value, f"{KINDS[of]} {named(key)}")
            found = read(section) if self._is_part(section, KINDS[of]) else None
            if found is None:
                self.broken.update(made_by(key, part.value))
                continue
            # A broken key that named a stream may have been ignored; the stream is then unknown.
            self.broken.update({*diverted(part.value)} - {*_asides(found)})
            yield key, found

    def _has_parts(self, entry: Entry, of: str) -> bool:
        """Whether the section is a mapping with parts in it; only `steps` may be empty."""
        match entry.value:
            case MappingNode(entries=(_, *_), lost=lost):
                self.names_lost |= lost
                return True
            case Refused() | MappingNode(lost=True):
                pass
            case Scalar(nothing=True) | MappingNode():
                if of != "steps":
                    self._empty(entry, of)
                    self.names_lost = True
                return False
            case _:
                spot = find(Section(Text(entry.key.value, entry.key), entry.value), ())
                came = described(self.resolver.value(entry.value, ""))
                hint = f'write the name of each, as in "{of[:-1]}_name:", with its keys below'
                self.findings.add(f"{of}: wanted {of} by name, got {came}", spot.place(), hint)
        for part, node in names_in(entry.value):
            self.broken.update(made_by(part, node))
        self.names_lost = True
        return False

    def _is_part(self, section: Section, kind: str) -> bool:
        """Whether the part has a valid name and is a mapping."""
        before = len(self.findings.problems)
        try:
            name.parse(section.key)
        except Unfit as unfit:
            message = f"wanted {unfit.wanted or name.wanted}, got {named(section.key)}"
            self.findings.add(message, section.key.locate(), unfit.hint, section.subject)
        if not isinstance(section.node, MappingNode | Refused):
            came = described(self.resolver.value(section.node, section.subject))
            message = f"wanted the keys of a {kind}, got {came}"
            hint = {"source": "files: {path: ...}", "step": "from: ...", "sink": "from: ..."}[kind]
            place = find(section, ()).place()
            self.findings.add(message, place, f"such as {hint}", section.subject)
            return False
        if isinstance(section.node, Refused):
            return False
        return len(self.findings.problems) == before

    def _keep_apart(self, sources: dict[str, Source], steps: dict[str, Step]) -> None:
        """Remove the parts that share a name, and report them."""
        for key in [key for key in steps if key in sources]:
            line = sources[key].name.locate().line
            message = f'the name "{key}" is taken by the source on line {line}'
            self.findings.add(message, steps[key].name.locate(), subject=f'step "{key}"')
            self.broken.add(key)
            del steps[key], sources[key]

    def _source(self, section: Section) -> Source | None:
        before = len(self.findings.problems)
        end = EndReader("source", section, self.connectors, self.resolver).read(SourceKeys)
        self._one_watermark(section)
        if end is None:
            return None
        source = Source.model_construct(
            **dict(end.keys),
            name=section.key,
            connector=end.connector,
            options=end.options,
            keys_at=end.keys_at,
        )
        self._has_function(source, section)
        if source.event_time is None and len(self.findings.problems) > before:
            # The event time may be the error just reported; a watermark makes no sense without it.
            return source.model_copy(update={"watermark": None})
        return source

    def _has_function(self, source: Source, section: Section) -> None:
        """Check that the function that computes the watermark, if there is one, is in its file."""
        if source.watermark and source.watermark.python:
            from headrace.core.pipeline import python_files

            function = source.watermark.python
            where = (self.folder, "watermark.python", section.subject, self.findings)
            python_files.check(function, *where)

    def _one_watermark(self, section: Section) -> None:
        """Check that at most one key says how the watermark is computed."""
        node = find(section, ("watermark",)).node
        entries = node.entries if isinstance(node, MappingNode) else ()
        makers = [entry.key for entry in entries if entry.key.value in ("delay", "from", "python")]
        for key in makers[1:]:
            message = (
                f'watermark: wanted one of delay, from and python, got "{makers[0].value}" and'
            )
            place = Text(key.value, key).locate()
            self.findings.add(f'{message} "{key.value}"', place, subject=section.subject)

    def _step(self, section: Section) -> Step | None:
        return StepReader(section, self.connectors, self.resolver, self.folder).read()

    def _sink(self, section: Section) -> Sink | None:
        end = EndReader("sink", section, self.connectors, self.resolver).read(SinkKeys)
        if end is None:
            return None
        return Sink.model_construct(
            **dict(end.keys),
            name=section.key,
            connector=end.connector,
            options=end.options,
            keys_at=end.keys_at,
        )
