"""The reader of steps: their clauses, and whether these go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.core.pipeline import clause_rules
from headrace.core.pipeline.clauses.lookup import Lookup
from headrace.core.pipeline.clauses.process import Process
from headrace.core.pipeline.connector_spec import ConnectorSpecs
from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.lookup_reader import LookupReader, read_lookups
from headrace.core.pipeline.model import Step, StepKeys
from headrace.core.pipeline.node_resolver import NodeResolver
from headrace.core.pipeline.sections import DocumentSection, find_node
from headrace.core.pipeline.stream_names import (
    find_input_clause,
    list_input_streams,
    make_from_conflict,
)
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.unsupported import (
    CLAUSE_EXAMPLES,
    CLAUSES,
    QUALIFYING_CLAUSES,
    STEP_KEY_ALIASES,
    suggest_in_step,
)
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.pipeline.user_files.window_code_checks import check_user_code
from headrace.core.pipeline.validation import SectionKeys, is_accepted, validate
from headrace.core.pipeline.yaml_document.nodes import YamlMapping as MappingNode
from headrace.core.process.declarations import Declared

# Clauses that do not influence the columns of a step: an error in one hides no other error.
IGNORABLE_CLAUSES = ("where", "on_error", "parallelism", "slot", "chain", "trace")


def is_pass_through(step: StepKeys, keys: Iterable[str]) -> bool:
    """Whether a step with these keys only forwards its input."""
    return len(step.from_) < 2 and not any(key in CLAUSES for key in keys)


class StepReader:
    """A reader of one step."""

    def __init__(
        self,
        section: DocumentSection,
        connectors: ConnectorSpecs,
        resolver: NodeResolver,
        folder: Path,
    ) -> None:
        self.section = section
        self.connectors = connectors
        self.resolver = resolver
        self.findings = resolver.findings
        self.folder = folder

    def read(self) -> Step | None:
        """Return the step, if it is valid."""
        data = self._read_clauses()
        two = find_input_clause(data)
        if two and "from" in data:
            self._report_violation(make_from_conflict(two))
        elif two:
            data = {Text("from"): Text(two), **data}
        lookup, unsound = self._read_lookup(data)
        lookups, is_broken = self._read_lookups(data)
        step = self._validate_keys(data)
        clear = clause_rules.check_shape(data, self._report_violation)
        if step is None or not clear or unsound or is_broken:
            return None
        step = step.model_copy(update={"lookup": lookup, "lookups": lookups})
        self._check_clauses(step, data)
        keys_at: dict[str, Text] = {key: key for key in data} | ({"from": two} if two else {})
        return Step.model_construct(
            **step.get_values(),
            name=self.section.key,
            keys_at=keys_at,
            input_streams=list_input_streams(step),
            states={} if step.process is None else self._read_states(step, step.process),
        )

    def _read_clauses(self) -> dict[Text, object]:
        assert isinstance(self.section.node, MappingNode)
        entries = self.resolver.resolve_entries(self.section.node, self.section.subject)
        return {
            key: self.resolver.resolve_value(entry.value, self.section.subject)
            for key, entry in entries.items()
        }

    def _validate_keys(self, data: Mapping[Text, object]) -> StepKeys | None:
        """Return the step without its lookups, which are read by themselves."""
        keys = SectionKeys(
            ignorable=IGNORABLE_CLAUSES,
            additional=CLAUSES,
            suggest=lambda key: self._suggest_key(key, data),
        )
        others = {k: value for k, value in data.items() if k not in ("lookup", "lookups")}
        return validate(StepKeys, others, self.section, self.findings, keys)

    def _suggest_key(self, key: str, data: Mapping[Text, object]) -> str:
        """Return the hint for an unknown key, with an example where its value does not fit."""
        meant = STEP_KEY_ALIASES.get(key, "")
        field = StepKeys.get_field(meant)
        value = data.get(Text(key))
        if meant in CLAUSE_EXAMPLES and field and not is_accepted(field, value, nested=True):
            return f'did you mean "{meant}", as in {meant}: {CLAUSE_EXAMPLES[meant]}?'
        return suggest_in_step(key, self.connectors)

    def _read_states(self, step: StepKeys, process: Process) -> Mapping[str, Declared]:
        """Return the states that a class for `process` declares, and report its errors."""
        from headrace.core.pipeline.user_files import process_checks

        subject = self.section.subject
        methods: list[tuple[str, ...]] = [("on_row", "on_rows")]
        if step.connect is not None:
            methods = [("on_left",), ("on_right",)]
        elif step.broadcast is not None:
            methods = [("on_row",), ("on_rule",)]
        careful = step.on_error.action != "fail"
        return process_checks.check_process_class(
            process.python, self.folder, subject, self.findings, methods, careful=careful
        )

    def _read_lookup(self, data: Mapping[Text, object]) -> tuple[Lookup | None, bool]:
        """Return the lookup, if there is one, and whether it is invalid."""
        if "lookup" not in data:
            return None, False
        reader = LookupReader(self.section, self.connectors, self.findings)
        lookup = reader.read(data[Text("lookup")])
        return lookup, lookup is None

    def _read_lookups(
        self, data: Mapping[Text, object]
    ) -> tuple[Mapping[Text, Lookup] | None, bool]:
        """Return the lookups of a query, if there are any, and whether one is invalid."""
        if "lookups" not in data:
            return None, False
        lookups = read_lookups(data[Text("lookups")], self.section, self.connectors, self.findings)
        return lookups, lookups is None

    def _check_clauses(self, step: StepKeys, data: Mapping[Text, object]) -> None:
        if is_pass_through(step, data):
            message = 'wanted a clause in addition to "from", got none'
            alone = ", ".join(clause for clause in CLAUSES if clause not in QUALIFYING_CLAUSES)
            hint = f"add one of {alone}; a sink may read the input itself"
            self._report((), message, hint)
        for rule in clause_rules.check_step(step, data):
            self._report_violation(rule)
        check_user_code(step, self.folder, self.section.subject, self.findings)
        if step.map is None:
            return
        self._check_map_function(step.map.python)
        if step.on_error.action != "fail" and step.map.mode != "row":
            message = f"on_error: {step.on_error.action} needs a map of mode: row"
            hint = "a map of mode: batch fails with all of its rows"
            self._report(("on_error",), message, hint)

    def _check_map_function(self, function: UserFunction) -> None:
        from headrace.core.pipeline.user_files import function_checks

        subject = self.section.subject
        function_checks.check_function(function, self.folder, "map.python", subject, self.findings)

    def _report_violation(self, rule: RuleViolation) -> None:
        spot = find_node(self.section, rule.at)
        place = spot.locate() if rule.is_about_value else spot.key.locate()
        about = self.section.subject
        self.findings.add(rule.message, place, rule.hint, about, rule.severity)

    def _report(self, at: tuple[str, ...], message: str, hint: str) -> None:
        place = find_node(self.section, at).key.locate()
        self.findings.add(message, place, hint, self.section.subject)
