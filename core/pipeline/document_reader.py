"""The reader of a whole document: its sections, and each of their parts by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from headrace.core.errors.problems import find_nearest_name
from headrace.core.pipeline.clauses.joins import LateTo
from headrace.core.pipeline.clauses.lookup import Lookup
from headrace.core.pipeline.clauses.match import MatchClause
from headrace.core.pipeline.connector_spec import ConnectorSpecs
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.endpoint_reader import EndpointReader
from headrace.core.pipeline.fields import OnError
from headrace.core.pipeline.model import Pipeline, Sink, SinkKeys, Source, SourceKeys, Step
from headrace.core.pipeline.node_resolver import NodeResolver, quote_key
from headrace.core.pipeline.row_source import add_row_source
from headrace.core.pipeline.sections import DocumentSection, find_node
from headrace.core.pipeline.settings import INACTIVE_SETTINGS, Settings
from headrace.core.pipeline.sql_section import SqlSection, name_query, read_statements
from headrace.core.pipeline.step_reader import StepReader
from headrace.core.pipeline.stream_names import (
    list_parts,
    list_side_stream_names,
    list_stream_names,
)
from headrace.core.pipeline.text import BROKEN, NOTHING, Text, describe_value
from headrace.core.pipeline.unsupported import suggest_at_top_level, suggest_part
from headrace.core.pipeline.validation import SectionKeys, validate
from headrace.core.pipeline.values import InvalidScalar, Name, name
from headrace.core.pipeline.worker_choice import resolve_workers
from headrace.core.pipeline.yaml_document.nodes import (
    PART_KIND_BY_SECTION,
    RejectedNode,
    YamlEntry,
    YamlNode,
    YamlScalar,
)
from headrace.core.pipeline.yaml_document.nodes import YamlMapping as MappingNode

SECTIONS = ("name", "settings", *PART_KIND_BY_SECTION, "sql", "tests", "invariants")
REQUIRED_SECTIONS = {
    "name": "add a line such as name: demo",
    "sources": "rows come from a source",
    "sinks": "rows go to a sink",
}
MAX_PARTS = 1000
START_HINT = "headrace new writes a pipeline to start from"

T = TypeVar("T")


class PipelineHead(DocumentModel):
    """The keys of the pipeline as a whole."""

    name: Name = Field(description="The job's name, under which its state is stored.")


def _contains_steps(node: YamlNode) -> bool:
    """Whether a section contains steps or sinks, whatever its key."""
    inner = [entry.value for entry in node.entries] if isinstance(node, MappingNode) else []
    return any(isinstance(part, MappingNode) and part.get("from") for part in inner)


def _side_streams(part: object) -> Iterator[Text | None]:
    """Yield the streams that a part names for rows that failed, were late, or had no match."""
    yield getattr(part, "on_error", OnError()).to
    yield getattr(part, "late_to", None)
    for clause in ("window", "dedup", "process", "match", "broadcast", "join", "connect"):
        late = getattr(getattr(part, clause, None), "late_to", None)
        yield from (late.left, late.right) if isinstance(late, LateTo) else (late,)
    match: MatchClause | None = getattr(part, "match", None)
    yield match.incomplete_to if match else None
    lookup: Lookup | None = getattr(part, "lookup", None)
    yield lookup.on_miss.to if lookup else None


class DocumentReader:
    """A reader of one document, which collects the names of broken parts."""

    def __init__(self, connectors: ConnectorSpecs, resolver: NodeResolver, folder: Path) -> None:
        self.connectors = connectors
        self.resolver = resolver
        self.findings = resolver.findings
        self.folder = folder
        self.broken: set[str] = set()
        self.names_lost = False
        self.tests: YamlEntry | None = None
        """The tests, which are no part of the pipeline and are not read here."""
        self.invariants: YamlEntry | None = None
        """The invariants, which are none either."""

    def read(self, root: YamlNode, default: Text) -> Pipeline:
        """Return all valid parts of the document."""
        if not isinstance(root, MappingNode):
            self.names_lost = True
            self._report_not_a_mapping(root)
            return Pipeline(default)
        sections = self._read_sections(root)
        self.tests, self.invariants = sections.get("tests"), sections.get("invariants")
        sources = dict(self._read_parts(sections, "sources", self._read_source))
        steps = dict(self._read_parts(sections, "steps", self._read_step))
        statements = self._read_statements(sections, steps)
        self._remove_shared_names(sources, steps)
        inputs = {str(name) for step in steps.values() for name in step.input_streams}
        sources = add_row_source(sources, inputs, self.connectors)
        self._check_required(root, {*sections, *(["sources"] if sources else [])})
        pipeline = Pipeline(
            self._read_name(sections) or default,
            self._read_settings(sections),
            sources,
            steps,
            dict(self._read_parts(sections, "sinks", partial(self._read_sink, statements))),
        )
        return resolve_workers(pipeline, self.folder)

    def _report_not_a_mapping(self, root: YamlNode) -> None:
        if isinstance(root, RejectedNode):
            return
        if isinstance(root, YamlScalar) and root.is_null:
            return self.findings.add(
                "there is nothing in the file", root.file.locate_file(), START_HINT
            )
        value = self.resolver.resolve_value(root, "")
        plain = isinstance(value, Text) and not value.secret
        pair = re.fullmatch(r"(\w+):(\S.*)", str(value)) if plain else None
        hint = f"a space after the colon: {pair[1]}: {pair[2]}" if pair else "as in name: demo"
        message = f"wanted a mapping with {', '.join(SECTIONS)}, got {describe_value(value)}"
        self.findings.add(message, root.file.locate(root.start, root.end), hint)

    def _read_sections(self, root: MappingNode) -> Mapping[str, YamlEntry]:
        """Return the sections by name, also misspelt ones; report unknown sections."""
        entries = self.resolver.resolve_entries(root, "")
        sections = {str(key): entry for key, entry in entries.items() if key in SECTIONS}
        for key, entry in entries.items():
            if key in SECTIONS:
                continue
            if self.findings.is_full:
                break
            hint = suggest_at_top_level(key, self.connectors)
            near = "" if hint else find_nearest_name(key, SECTIONS)
            if near:
                hint = f'did you mean "{near}"?'
                sections.setdefault(near, entry)
            elif not hint and _contains_steps(entry.value):
                self.names_lost = True
            known = f"the keys are {', '.join(SECTIONS)}"
            self.findings.add(f"unknown key {quote_key(key)}", key.locate(), hint or known)
        self.names_lost |= (
            root.is_incomplete or "sources" not in sections or "sinks" not in sections
        )
        return sections

    def _check_required(self, root: MappingNode, known: Collection[str]) -> None:
        """Report missing sections; a pipeline of `values` needs no sources of its own."""
        for needed, why in REQUIRED_SECTIONS.items():
            if needed not in known and not root.is_incomplete:
                place = root.file.locate(root.start, root.start + 1)
                self.findings.add(f'missing key "{needed}"', place, why)

    def _read_name(self, sections: Mapping[str, YamlEntry]) -> Text | None:
        entry = sections.get("name")
        if entry is None:
            return None
        key = Text(entry.key.value, entry.key)
        # A mapping with only the name, so that the location of an error leads to the name.
        node = MappingNode(entry.key.file, entry.key.start, entry.value.end, (entry,))
        data = {"name": self.resolver.resolve_value(entry.value, "")}
        head = validate(PipelineHead, data, DocumentSection(key, node), self.findings)
        return head.name if head else None

    def _read_settings(self, sections: Mapping[str, YamlEntry]) -> Settings:
        entry = sections.get("settings")
        if entry is None:
            return Settings()
        section = DocumentSection(Text(entry.key.value, entry.key), entry.value, "", ("settings",))
        data = self.resolver.resolve_value(entry.value, "")
        if data is NOTHING or data == {}:
            self._report_empty(entry, "settings")
            return Settings()
        fields = Settings.fields_by_key()
        keys = SectionKeys(ignorable=fields, ignores_unknown=True, suggest=suggest_part)
        found = validate(Settings, data, section, self.findings, keys)
        self._warn_of_inactive(section)
        if found and found.parallelism > found.key_groups:
            message = f"wanted at most key_groups ({found.key_groups}), got {found.parallelism}"
            place = find_node(section, ("parallelism",)).locate()
            self.findings.add(f"settings.parallelism: {message}", place)
        return found or Settings()

    def _warn_of_inactive(self, section: DocumentSection) -> None:
        for path in INACTIVE_SETTINGS:
            keys = path.split(".")
            spot = find_node(section, keys)
            if spot.key == keys[-1] and spot.key is not section.key:
                message = f"settings.{path}: checked, but nothing acts on it yet"
                self.findings.add(message, spot.key.locate(), severity="warning")

    def _report_not_sql(self, entry: YamlEntry, value: object) -> None:
        if value is not BROKEN:
            key = Text(entry.key.value, entry.key)
            message = f"sql: wanted statements, got {describe_value(value)}"
            hint = "create view NAME as select ... and insert into SINK select ..., each with ;"
            self.findings.add(message, key.locate(), hint)
        self.names_lost = True

    def _report_empty(self, entry: YamlEntry, what: str) -> None:
        key = Text(entry.key.value, entry.key)
        hint = REQUIRED_SECTIONS.get(what, "or remove the key")
        self.findings.add(f"{key}: wanted {what}, got nothing", key.locate(), hint)

    def _read_parts(
        self,
        sections: Mapping[str, YamlEntry],
        of: str,
        read: Callable[[DocumentSection], T | None],
    ) -> Iterator[tuple[str, T]]:
        """Yield the valid parts of a section by name."""
        entry = sections.get(of)
        if entry is None or not self._has_parts(entry, of):
            return
        assert isinstance(entry.value, MappingNode)
        parts = list(self.resolver.resolve_entries(entry.value, "").items())
        if len(parts) > MAX_PARTS:
            self.names_lost = True
            key = Text(entry.key.value, entry.key)
            self.findings.add(f"more than {MAX_PARTS} {of} in one pipeline", key.locate())
        for key, part in parts[:MAX_PARTS]:
            section = DocumentSection(
                key, part.value, f"{PART_KIND_BY_SECTION[of]} {quote_key(key)}"
            )
            found = read(section) if self._is_part(section, PART_KIND_BY_SECTION[of]) else None
            if found is None:
                self.broken.update(list_stream_names(key, part.value))
                continue
            # A broken key that named a stream may have been ignored; the stream is then unknown.
            self.broken.update({*list_side_stream_names(part.value)} - {*_side_streams(found)})
            yield key, found

    def _has_parts(self, entry: YamlEntry, of: str) -> bool:
        """Whether the section is a mapping with parts in it; only `steps` may be empty."""
        match entry.value:
            case MappingNode(entries=(_, *_), is_incomplete=lost):
                self.names_lost |= lost
                return True
            case RejectedNode() | MappingNode(is_incomplete=True):
                pass
            case YamlScalar(is_null=True) | MappingNode():
                if of != "steps":
                    self._report_empty(entry, of)
                    self.names_lost = True
                return False
            case _:
                spot = find_node(DocumentSection(Text(entry.key.value, entry.key), entry.value), ())
                actual = describe_value(self.resolver.resolve_value(entry.value, ""))
                hint = f'write the name of each, as in "{of[:-1]}_name:", with its keys below'
                self.findings.add(f"{of}: wanted {of} by name, got {actual}", spot.locate(), hint)
        for part, node in list_parts(entry.value):
            self.broken.update(list_stream_names(part, node))
        self.names_lost = True
        return False

    def _is_part(self, section: DocumentSection, kind: str) -> bool:
        """Whether the part has a valid name and is a mapping."""
        before = len(self.findings.problems)
        try:
            name.parse(section.key)
        except InvalidScalar as unfit:
            message = f"wanted {unfit.wanted or name.wanted}, got {quote_key(section.key)}"
            self.findings.add(message, section.key.locate(), unfit.hint, section.subject)
        if not isinstance(section.node, MappingNode | RejectedNode):
            actual = describe_value(self.resolver.resolve_value(section.node, section.subject))
            message = f"wanted the keys of a {kind}, got {actual}"
            hint = {"source": "files: {path: ...}", "step": "from: ...", "sink": "from: ..."}[kind]
            place = find_node(section, ()).locate()
            self.findings.add(message, place, f"such as {hint}", section.subject)
            return False
        if isinstance(section.node, RejectedNode):
            return False
        return len(self.findings.problems) == before

    def _remove_shared_names(self, sources: dict[str, Source], steps: dict[str, Step]) -> None:
        """Remove the parts that share a name, and report them."""
        for key in [key for key in steps if key in sources]:
            line = sources[key].name.locate().line
            message = f'the name "{key}" is taken by the source on line {line}'
            self.findings.add(message, steps[key].name.locate(), subject=f'step "{key}"')
            self.broken.add(key)
            del steps[key], sources[key]

    def _read_source(self, section: DocumentSection) -> Source | None:
        before = len(self.findings.problems)
        end = EndpointReader("source", section, self.connectors, self.resolver).read(SourceKeys)
        self._check_watermark(section)
        if end is None:
            return None
        source = Source.model_construct(
            **end.keys.get_values(),
            name=section.key,
            connector=end.connector,
            options=end.options,
            keys_at=end.keys_at,
        )
        self._check_watermark_function(source, section)
        if source.event_time is None and len(self.findings.problems) > before:
            # The event time may be the error just reported; a watermark makes no sense without it.
            return source.model_copy(update={"watermark": None})
        return source

    def _check_watermark_function(self, source: Source, section: DocumentSection) -> None:
        """Check that the function that computes the watermark, if there is one, is in its file."""
        if source.watermark and source.watermark.python:
            from headrace.core.pipeline.user_files import function_checks

            function = source.watermark.python
            where = (self.folder, "watermark.python", section.subject, self.findings)
            function_checks.check_function(function, *where)

    def _check_watermark(self, section: DocumentSection) -> None:
        """Check that at most one key says how the watermark is computed."""
        node = find_node(section, ("watermark",)).node
        entries = node.entries if isinstance(node, MappingNode) else ()
        makers = [entry.key for entry in entries if entry.key.value in ("delay", "from", "python")]
        for key in makers[1:]:
            message = (
                f'watermark: wanted one of delay, from and python, got "{makers[0].value}" and'
            )
            place = Text(key.value, key).locate()
            self.findings.add(f'{message} "{key.value}"', place, subject=section.subject)

    def _read_step(self, section: DocumentSection) -> Step | None:
        self._check_watermark(section)
        return StepReader(section, self.connectors, self.resolver, self.folder).read()

    def _read_statements(
        self, sections: Mapping[str, YamlEntry], steps: dict[str, Step]
    ) -> SqlSection:
        """Read the statements of the section `sql`, and add their steps."""
        entry = sections.get("sql")
        if entry is None:
            return SqlSection()
        text = self.resolver.resolve_value(entry.value, "")
        if not isinstance(text, Text):
            self._report_not_sql(entry, text)
            return SqlSection(is_broken=True)
        found = read_statements(text, self.findings)
        self.names_lost |= found.is_broken
        self.broken.update(found.broken_names)
        for view, step in found.steps.items():
            if view in steps:
                line = steps[view].name.locate().line
                message = f'the name "{view}" is taken by the step on line {line}'
                self.findings.add(message, step.name.locate(), subject="sql")
            steps.setdefault(view, step)
        sinks = sections.get("sinks")
        known = [str(key) for key, _ in list_parts(sinks.value)] if sinks else []
        for sink in found.inputs.values():
            if sink not in known:
                near = find_nearest_name(sink, known)
                hint = f'did you mean "{near}"?' if near else f"the sinks are {', '.join(known)}"
                self.findings.add(f'there is no sink "{sink}"', sink.locate(), hint, "sql")
        return found

    def _read_sink(self, statements: SqlSection, section: DocumentSection) -> Sink | None:
        written = statements.inputs.get(section.key)
        given = {} if written is None else {Text("from"): written}
        end = EndpointReader("sink", section, self.connectors, self.resolver).read(SinkKeys, given)
        if end is None:
            return None
        keys = end.keys.get_values() | ({} if written is None else {"from_": name_query(written)})
        return Sink.model_construct(
            **keys,
            name=section.key,
            connector=end.connector,
            options=end.options,
            keys_at=end.keys_at,
        )
