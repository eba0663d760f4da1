"""The reader of the clause `lookup`: its own keys, and the options of its connector."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.pipeline.clauses.lookup import Lookup, LookupKeys
from headrace.core.pipeline.connector_spec import ConnectorSpec, ConnectorSpecs
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.formats import FORMATS
from headrace.core.pipeline.sections import DocumentSection, find_node
from headrace.core.pipeline.text import BROKEN, NOTHING, Text, describe_value
from headrace.core.pipeline.validation import SectionKeys, validate

STEP_KEYS = ("on_error", "parallelism", "slot", "chain", "select", "where", "from")
"""Keys of the step that users put into the lookup by mistake."""


class LookupReader:
    """A reader of the lookup of one step; `section` is the step's."""

    def __init__(
        self, section: DocumentSection, connectors: ConnectorSpecs, findings: DocumentProblems
    ) -> None:
        spot = find_node(section, ("lookup",))
        self.section = DocumentSection(spot.key, spot.node, section.subject, ("lookup",))
        self.connectors = connectors
        self.findings = findings

    def read(self, value: object) -> Lookup | None:
        """Return the lookup, if it is valid."""
        if value is BROKEN:
            return None
        if not isinstance(value, dict):
            message = (
                f"lookup: wanted a mapping with a table, on and add, got {describe_value(value)}"
            )
            self._report((), message, self._list_choices())
            return None
        connector = self._connector(value)
        options = self._options(connector, value) if connector else None
        rest = {key: option for key, option in value.items() if key not in self.connectors}
        keys = validate(LookupKeys, rest, self.section, self.findings, self._keys(value))
        if connector is None or options is None or keys is None:
            return None
        self._check_cache(connector, keys)
        return Lookup.model_construct(
            **dict(keys), connector=connector, options=options, keys_at={key: key for key in value}
        )

    def _table_names(self) -> list[str]:
        return [name for name, each in self.connectors.items() if each.lookup is not None]

    def _list_choices(self) -> str:
        return f"a lookup has one of {', '.join(self._table_names())}"

    def _keys(self, value: Mapping[Text, object]) -> SectionKeys:
        has = any(key in self.connectors for key in value)

        def elsewhere(key: str) -> str:
            if key in STEP_KEYS:
                return f'it belongs next to "lookup": {key}: ...'
            for name in self._table_names():
                side = self.connectors[name].lookup
                if side is not None and key in side.options.fields_by_key():
                    if key in FORMATS and isinstance(file := value[Text(key)], str):
                        return f"name the file: {name}: {{path: {file}}}"
                    return f'it belongs inside "{name}": {name}: {{{key}: ...}}'
            return ""

        return SectionKeys(additional=() if has else self._table_names(), suggest=elsewhere)

    def _connector(self, value: Mapping[Text, object]) -> ConnectorSpec | None:
        connector_keys = [key for key in value if key in self.connectors]
        for key in connector_keys[1:]:
            message = f'wanted one table, got "{connector_keys[0]}" and "{key}"'
            self._report((key,), message, "each needs a lookup, and a step, of its own")
        if len(connector_keys) > 1:
            return None
        if not connector_keys:
            if not any(key not in LookupKeys.fields_by_key() for key in value):
                self._report((), "wanted a table, got none", self._list_choices())
            return None
        connector = self.connectors[connector_keys[0]]
        if connector.lookup is None:
            self._report(
                (connector_keys[0],), f'"{connector_keys[0]}" has no lookup', self._list_choices()
            )
            return None
        return connector

    def _options(
        self, connector: ConnectorSpec, value: Mapping[Text, object]
    ) -> DocumentModel | None:
        side, options = connector.lookup, value[Text(connector.name)]
        if side is None or options is BROKEN:
            return None
        spot = find_node(self.section, (connector.name,))
        path = (*self.section.path, connector.name)
        section = DocumentSection(spot.key, spot.node, self.section.subject, path)
        outer = LookupKeys.fields_by_key()
        keys = SectionKeys(
            misplaced=frozenset(key for key in value if key in side.options.fields_by_key()),
            suggest=lambda key: f'it belongs next to "{connector.name}"' if key in outer else "",
        )
        data = {} if options is NOTHING else options
        return validate(side.options, data, section, self.findings, keys)

    def _check_cache(self, connector: ConnectorSpec, keys: LookupKeys) -> None:
        if (
            keys.cache is not None
            and connector.lookup is not None
            and connector.lookup.is_in_memory
        ):
            message = f'"{connector.name}" holds all of its rows in memory, and has no cache'
            self._report(("cache",), message, "remove it")

    def _report(self, at: tuple[str, ...], message: str, hint: str = "") -> None:
        place = find_node(self.section, at).key.locate()
        self.findings.add(message, place, hint, self.section.subject)
