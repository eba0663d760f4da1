"""The reader of the clause `lookup`: its own keys, and the options of its connector."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.connector import Connector, Connectors
from headrace.core.pipeline.data import BROKEN, NOTHING, described
from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.lookup import Lookup, LookupKeys
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.spots import Section, find
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.validate import Keys, validated

BESIDE = ("on_error", "parallelism", "select", "where", "from")
"""Keys of the step that users put into the lookup by mistake."""


class LookupReader:
    """A reader of the lookup of one step; `section` is the step's."""

    def __init__(self, section: Section, connectors: Connectors, findings: Findings) -> None:
        spot = find(section, ("lookup",))
        self.section = Section(spot.key, spot.node, section.subject, ("lookup",))
        self.connectors = connectors
        self.findings = findings

    def read(self, value: object) -> Lookup | None:
        """Return the lookup, if it is valid."""
        if value is BROKEN:
            return None
        if not isinstance(value, dict):
            message = f"lookup: wanted a mapping with a table, on and add, got {described(value)}"
            self._complain((), message, self._choices())
            return None
        connector = self._connector(value)
        options = self._options(connector, value) if connector else None
        rest = {key: said for key, said in value.items() if key not in self.connectors}
        keys = validated(LookupKeys, rest, self.section, self.findings, self._keys(value))
        if connector is None or options is None or keys is None:
            return None
        self._remembered(connector, keys)
        return Lookup.model_construct(
            **dict(keys), connector=connector, options=options, keys_at={key: key for key in value}
        )

    def _names(self) -> list[str]:
        return [name for name, each in self.connectors.items() if each.lookup is not None]

    def _choices(self) -> str:
        return f"a lookup has one of {', '.join(self._names())}"

    def _keys(self, value: Mapping[Text, object]) -> Keys:
        has = any(key in self.connectors for key in value)

        def elsewhere(key: str) -> str:
            if key in BESIDE:
                return f'it belongs next to "lookup": {key}: ...'
            for name in self._names():
                side = self.connectors[name].lookup
                if side is not None and key in side.options.written():
                    return f'it belongs inside "{name}": {name}: {{{key}: ...}}'
            return ""

        return Keys(more=() if has else self._names(), elsewhere=elsewhere)

    def _connector(self, value: Mapping[Text, object]) -> Connector | None:
        found = [key for key in value if key in self.connectors]
        for key in found[1:]:
            message = f'wanted one table, got "{found[0]}" and "{key}"'
            self._complain((key,), message, "each needs a lookup, and a step, of its own")
        if len(found) > 1:
            return None
        if not found:
            if not any(key not in LookupKeys.written() for key in value):
                self._complain((), "wanted a table, got none", self._choices())
            return None
        connector = self.connectors[found[0]]
        if connector.lookup is None:
            self._complain((found[0],), f'"{found[0]}" has no lookup', self._choices())
            return None
        return connector

    def _options(self, connector: Connector, value: Mapping[Text, object]) -> Part | None:
        side, said = connector.lookup, value[Text(connector.name)]
        if side is None or said is BROKEN:
            return None
        spot = find(self.section, (connector.name,))
        path = (*self.section.path, connector.name)
        section = Section(spot.key, spot.node, self.section.subject, path)
        outer = LookupKeys.written()
        keys = Keys(
            meant=frozenset(key for key in value if key in side.options.written()),
            elsewhere=lambda key: f'it belongs next to "{connector.name}"' if key in outer else "",
        )
        data = {} if said is NOTHING else said
        return validated(side.options, data, section, self.findings, keys)

    def _remembered(self, connector: Connector, keys: LookupKeys) -> None:
        if keys.cache is not None and connector.lookup is not None and connector.lookup.whole:
            message = f'"{connector.name}" holds all of its rows in memory, and has no cache'
            self._complain(("cache",), message, "remove it")

    def _complain(self, at: tuple[str, ...], message: str, hint: str = "") -> None:
        place = find(self.section, at).key.locate()
        self.findings.add(message, place, hint, self.section.subject)
