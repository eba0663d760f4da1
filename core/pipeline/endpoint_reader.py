"""Sources and sinks of the document: the connector key, its options, and the format."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeVar

from headrace.core.errors.problems import find_nearest_name
from headrace.core.pipeline.connector_spec import (
    ConnectorSpec,
    ConnectorSpecs,
    SinkSpec,
    SourceSpec,
)
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.model import SinkKeys, SourceKeys
from headrace.core.pipeline.node_resolver import NodeResolver
from headrace.core.pipeline.sections import DocumentSection, find_node
from headrace.core.pipeline.text import BROKEN, NOTHING, Text, describe_value
from headrace.core.pipeline.unsupported import suggest_connector_option, suggest_in_endpoint
from headrace.core.pipeline.validation import SectionKeys, validate
from headrace.core.pipeline.yaml_document.nodes import YamlMapping as MappingNode
from headrace.core.types.lazy_dataclass import dataclass

K = TypeVar("K", SourceKeys, SinkKeys)
EndpointKind = Literal["source", "sink"]


# Keys that do not influence the columns of a part: an error in one hides no other error.
IGNORABLE_KEYS: Mapping[EndpointKind, Collection[str]] = {
    "source": (
        *("format", "json", "csv", "parquet", "debezium_json"),
        *("event_time", "watermark", "on_error", "slot"),
    ),
    "sink": ("format", "json", "csv", "parallelism", "slot", "chain"),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A source or a sink as read: its own keys with their values, and those of its connector."""

    connector: ConnectorSpec
    side: SourceSpec | SinkSpec
    options: DocumentModel
    keys: SourceKeys | SinkKeys
    keys_at: Mapping[str, Text]


class EndpointReader:
    """A reader of one source or sink."""

    def __init__(
        self,
        kind: EndpointKind,
        section: DocumentSection,
        connectors: ConnectorSpecs,
        resolver: NodeResolver,
    ) -> None:
        self.kind = kind
        self.section = section
        self.connectors = connectors
        self.resolver = resolver
        self.findings: DocumentProblems = resolver.findings

    def read(self, model: type[K], given: Mapping[Text, object] | None = None) -> Endpoint | None:
        """Return the source or sink, if it is valid; `given` has keys that stand elsewhere."""
        assert isinstance(self.section.node, MappingNode)
        entries = self.resolver.resolve_entries(self.section.node, self.section.subject)
        data = {
            key: self.resolver.resolve_value(entry.value, self.section.subject)
            for key, entry in entries.items()
        }
        for name, value in (given or {}).items():
            self._add_given(data, name, value)
        key = self._connector_key(data, model)
        connector = None if key is None else self.connectors[key]
        side = self._side(connector) if connector else None
        options = self._options(key, side, data) if key is not None and side else None
        rest = {k: v for k, v in data.items() if not self._is_connector(k)}
        keys = validate(model, rest, self.section, self.findings, self._keys(key, data))
        if keys is None or connector is None or side is None or options is None:
            return None
        if "format" not in data or keys.format is not None:
            self._check_format(connector, side, keys)
        return Endpoint(connector, side, options, keys, {k: k for k in data})

    def _add_given(self, data: dict[Text, object], name: Text, value: object) -> None:
        """Add a key that is written elsewhere, unless it is here too, which is reported."""
        if name in data:
            message = (
                f'"{name}" does not go with a query in "sql" that inserts into this {self.kind}'
            )
            key = find_node(self.section, (name,)).key
            self.findings.add(message, key.locate(), "leave out one of them", self.section.subject)
        data.setdefault(name, value)

    def _is_connector(self, key: str) -> bool:
        return key in self.connectors

    def _connector_names(self) -> list[str]:
        """Return the connectors that have this side."""
        return [name for name, c in self.connectors.items() if getattr(c, self.kind) is not None]

    def _keys(self, connector: Text | None, data: Mapping[Text, object]) -> SectionKeys:
        own_name = "" if connector is None else str(connector)

        def elsewhere(key: str) -> str:
            hint = suggest_in_endpoint(key, self.kind, self.connectors, own_name)
            if hint or own_name or not self._looks_like_connector(key, data):
                return hint
            near = find_nearest_name(key, self._connector_names())
            return f'did you mean "{near}"?' if near else self._list_choices()

        return SectionKeys(
            ignorable=IGNORABLE_KEYS[self.kind],
            ignores_unknown=True,
            additional=() if own_name else self._connector_names(),
            suggest=elsewhere,
        )

    def _looks_like_connector(self, key: str, data: Mapping[Text, object]) -> bool:
        """Whether an unknown key looks like a connector: it has a mapping, or no value."""
        return isinstance(data.get(Text(key)), dict) or data.get(Text(key)) is NOTHING

    def _list_choices(self) -> str:
        return f"a {self.kind} has one of {', '.join(self._connector_names())}"

    def _connector_key(
        self, data: Mapping[Text, object], model: type[DocumentModel]
    ) -> Text | None:
        connector_keys = [key for key in data if self._is_connector(key)]
        for key in connector_keys[1:]:
            message = f'wanted one connector, got "{connector_keys[0]}" and "{key}"'
            hint = f"each needs a {self.kind} of its own"
            self.findings.add(message, key.locate(), hint, self.section.subject)
        if len(connector_keys) > 1:
            return None
        if not connector_keys and not self._has_misspelt_connector(data, model):
            message = "wanted a connector, got none"
            key = self.section.key
            self.findings.add(message, key.locate(), self._list_choices(), self.section.subject)
        return connector_keys[0] if connector_keys else None

    def _has_misspelt_connector(
        self, data: Mapping[Text, object], model: type[DocumentModel]
    ) -> bool:
        """Whether a key that is reported as unknown was meant to be the connector."""
        known = model.fields_by_key()
        return any(
            find_nearest_name(key, [*known, *self._connector_names()]) in self.connectors
            or suggest_connector_option(key, self.kind, self.connectors)
            or self._looks_like_connector(key, data)
            for key in data
            if key not in known
        )

    def _side(self, connector: ConnectorSpec) -> SourceSpec | SinkSpec | None:
        side = connector.source if self.kind == "source" else connector.sink
        if side is None:
            key = find_node(self.section, (connector.name,)).key
            verb = "read from" if self.kind == "source" else "written to"
            message = f'"{connector.name}" cannot be {verb}'
            near = find_nearest_name(connector.name, self._connector_names())
            hint = f'did you mean "{near}"?' if near else self._list_choices()
            self.findings.add(message, key.locate(), hint, self.section.subject)
        return side

    def _options(
        self, key: Text, side: SourceSpec | SinkSpec, data: Mapping[Text, object]
    ) -> DocumentModel | None:
        value = data[key]
        if value is BROKEN:
            return None
        section = DocumentSection(
            key, find_node(self.section, (key,)).node, self.section.subject, (key,)
        )
        written = side.options.fields_by_key()
        # An option that adds columns cannot be ignored: all readers of the columns would fail.
        source = side if isinstance(side, SourceSpec) else None
        made = source.extra_columns if source else None
        makes_all = source is not None and source.columns is not None
        spare = [k for k in written if not makes_all and (made is None or k != made.option)]
        outer = SourceKeys if self.kind == "source" else SinkKeys
        return validate(
            side.options,
            {} if value is NOTHING else value,
            section,
            self.findings,
            SectionKeys(
                ignorable=spare,
                ignores_unknown=True,
                misplaced=frozenset(k for k in data if k in written),
                suggest=lambda k: (
                    f'it belongs next to "{key}"' if k in outer.fields_by_key() else ""
                ),
            ),
        )

    def _check_format(
        self, connector: ConnectorSpec, side: SourceSpec | SinkSpec, keys: SourceKeys | SinkKeys
    ) -> None:
        """Check that the connector supports the format, and that the options belong to it."""
        chosen = keys.format
        if chosen is not None and chosen not in side.formats:
            self._report_unsupported_format(connector, side, chosen)
        elif side.formats:
            default = "json" if "json" in side.formats else side.formats[0]
            self._check_format_options(chosen or default, keys)
        else:
            for name in self._format_options(keys):
                self._report(name, f'"{connector.name}" has no format', "remove it")

    def _report_unsupported_format(
        self, connector: ConnectorSpec, side: SourceSpec | SinkSpec, chosen: str
    ) -> None:
        place = find_node(self.section, ("format",)).locate()
        if side.formats:
            wanted = " or ".join((", ".join(side.formats[:-1]), side.formats[-1]))
            message = f'format: wanted {wanted} with "{connector.name}", got "{chosen}"'
        else:
            message = f'"{connector.name}" has no format'
        self.findings.add(message, place, "", self.section.subject)

    def _check_format_options(self, chosen: str, keys: SourceKeys | SinkKeys) -> None:
        for name in self._format_options(keys):
            if name != chosen:
                message = f'"{name}" has the options of format: {name}, but the format is {chosen}'
                self._report(name, message, f"add format: {name}, or remove it")
        clash = keys.csv.find_conflict() if chosen == "csv" and keys.csv else None
        if keys.csv and keys.csv.union_by_name and isinstance(keys, SinkKeys):
            clash = "union_by_name", "false in a sink, which writes all columns"
        if clash:
            key, wanted = clash
            value = getattr(keys.csv, key)
            got = "true" if value is True else describe_value(value)
            message = f"csv.{key}: wanted {wanted}, got {got}"
            place = find_node(self.section, ("csv", key)).locate()
            self.findings.add(message, place, "", self.section.subject)

    def _format_options(self, keys: SourceKeys | SinkKeys) -> list[str]:
        options_by_name: dict[str, DocumentModel | None] = {"json": keys.json_, "csv": keys.csv}
        if isinstance(keys, SourceKeys):
            options_by_name["parquet"] = keys.parquet
            options_by_name["debezium_json"] = keys.debezium_json
        return [name for name, options in options_by_name.items() if options is not None]

    def _report(self, key: str, message: str, hint: str) -> None:
        place = find_node(self.section, (key,)).key.locate()
        self.findings.add(message, place, hint, self.section.subject)
