"""The reader of the clause `lookup`: its own keys, and the options of its connector."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.pipeline.clauses.lookup import LOOKUP_KEY_ALIASES, Lookup, LookupKeys
from headrace.core.pipeline.connector_spec import ConnectorSpec, ConnectorSpecs
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.formats import FORMATS
from headrace.core.pipeline.node_resolver import quote_key
from headrace.core.pipeline.sections import DocumentSection, find_node
from headrace.core.pipeline.text import BROKEN, NOTHING, Text, describe_value
from headrace.core.pipeline.validation import SectionKeys, validate
from headrace.core.pipeline.values import InvalidScalar
from headrace.core.pipeline.values import name as name_reading

STEP_KEYS = ("on_error", "parallelism", "slot", "chain", "select", "where", "from")
"""Keys of the step that users put into the lookup by mistake."""

ON_MISS_HINT = "join drops rows without a match, left join keeps them"
QUERY_KEY_HINTS = {
    **{key: ON_MISS_HINT for key, meant in LOOKUP_KEY_ALIASES.items() if meant == "on_miss"},
    **dict.fromkeys(("select", "where", "from"), "the query says it"),
    "on_error": "a step with a query has none: after its last retry a call fails the job",
}
"""Hints for keys that the lookups of a step with a query do not have."""


class LookupReader:
    """A reader of one lookup of a step, below the keys `path`; `section` is the step's."""

    def __init__(
        self,
        section: DocumentSection,
        connectors: ConnectorSpecs,
        findings: DocumentProblems,
        path: tuple[str, ...] = ("lookup",),
    ) -> None:
        spot = find_node(section, path)
        self.section = DocumentSection(spot.key, spot.node, section.subject, path)
        self.connectors = connectors
        self.findings = findings

    def read(self, value: object) -> Lookup | None:
        """Return the lookup, if it is valid."""
        if value is BROKEN:
            return None
        if not isinstance(value, dict):
            message = (
                f"{'.'.join(self.section.path)}: wanted a mapping with a table, on and add, "
                f"got {describe_value(value)}"
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
            **keys.get_values(),
            connector=connector,
            options=options,
            keys_at={key: key for key in value},
        )

    def _table_names(self) -> list[str]:
        return [name for name, each in self.connectors.items() if each.lookup is not None]

    def _list_choices(self) -> str:
        return f"a lookup has one of {', '.join(self._table_names())}"

    def _keys(self, value: Mapping[Text, object]) -> SectionKeys:
        has = any(key in self.connectors for key in value)
        is_of_query = self.section.path[0] == "lookups"

        def elsewhere(key: str) -> str:
            if key in QUERY_KEY_HINTS and is_of_query:
                return QUERY_KEY_HINTS[key]
            if key in STEP_KEYS:
                return f'it belongs next to "{self.section.path[0]}": {key}: ...'
            for name in self._table_names():
                side = self.connectors[name].lookup
                if side is not None and key in side.options.fields_by_key():
                    if key in FORMATS and isinstance(file := value[Text(key)], str):
                        return f"name the file: {name}: {{path: {file}}}"
                    return f'it belongs inside "{name}": {name}: {{{key}: ...}}'
            return ""

        return SectionKeys(
            additional=() if has else self._table_names(),
            refused=("on_miss",) if is_of_query else (),
            suggest=elsewhere,
        )

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


def read_lookups(
    value: object,
    section: DocumentSection,
    connectors: ConnectorSpecs,
    findings: DocumentProblems,
) -> Mapping[Text, Lookup] | None:
    """Return the lookups of a query by name, if all are valid; `section` is the step's."""
    if value is BROKEN:
        return None
    if not isinstance(value, dict) or not value:
        spot = find_node(section, ("lookups",))
        message = f"lookups: wanted names and lookups, got {describe_value(value)}"
        hint = "as in customers: {file: {path: customers.csv}, on: [id], add: [name]}"
        findings.add(message, spot.key.locate(), hint, section.subject)
        return None
    lookups = dict[Text, Lookup | None]()
    for key, written in value.items():
        path = ("lookups", str(key))
        lookup = LookupReader(section, connectors, findings, path).read(written)
        is_named = _has_valid_name(key, section, findings)
        has_table = lookup is not None and _is_table(lookup, section, path, findings)
        lookups[key] = lookup if is_named and has_table else None
    sound = {key: lookup for key, lookup in lookups.items() if lookup is not None}
    return sound if len(sound) == len(lookups) else None


def _has_valid_name(key: Text, section: DocumentSection, findings: DocumentProblems) -> bool:
    """Whether a lookup has the name of a table; report one that has not."""
    try:
        name_reading.parse(key)
    except InvalidScalar as unfit:
        message = f"lookups: wanted {unfit.wanted or name_reading.wanted}, got {quote_key(key)}"
        findings.add(message, key.locate(), unfit.hint, section.subject)
        return False
    return True


def _is_table(
    lookup: Lookup, section: DocumentSection, path: tuple[str, ...], findings: DocumentProblems
) -> bool:
    """Whether a lookup leaves to the query what the query says; report what it does not."""
    found = list[tuple[Text, str, str]]()
    if "on_miss" in lookup.keys_at:
        place = lookup.keys_at["on_miss"]
        found.append((place, "on_miss: the query says it", ON_MISS_HINT))
    for each in lookup.on:
        if each.expression is not None:
            hint = f"on: [{', '.join(str(key.name) for key in lookup.on)}]"
            message = f'on: the query says what "{each.name}" equals, after join ... on'
            found.append((each.name, message, hint))
    keys = {key.name for key in lookup.on}
    for column in lookup.add:
        if column.name in keys and column.name != column.column:
            message = f'add: "{column.name}" is a key, and another column of the table'
            found.append((column.name, message, "give the column another name"))
    for place, message, hint in found:
        findings.add(f"{'.'.join(path)}.{message}", place.locate(), hint, section.subject)
    return not found
