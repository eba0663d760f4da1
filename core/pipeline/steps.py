"""The reader of steps: their clauses, and whether these go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.core.connector import Connectors
from headrace.core.pipeline import keyed_rules
from headrace.core.pipeline.inputs import beside_from, read_by, two_sided
from headrace.core.pipeline.keyed_code import check_user_code
from headrace.core.pipeline.later import BESIDE, CLAUSES, LATER_CLAUSES, in_step
from headrace.core.pipeline.lookup import Lookup
from headrace.core.pipeline.lookup_reader import LookupReader
from headrace.core.pipeline.model import Function, Step, StepKeys
from headrace.core.pipeline.nodes import Mapping as MappingNode
from headrace.core.pipeline.process import Process
from headrace.core.pipeline.resolve import Resolver
from headrace.core.pipeline.rule import Rule
from headrace.core.pipeline.spots import Section, find
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.validate import Keys, validated
from headrace.core.process.declared import Declared

# Clauses that do not influence the columns of a step: an error in one hides no other error.
SPARE = ("where", "on_error", "parallelism", "trace")


def does_nothing(step: StepKeys, keys: Iterable[str]) -> bool:
    """Whether a step with these keys only forwards its input."""
    return len(step.from_) < 2 and not any(key in CLAUSES for key in keys)


class StepReader:
    """A reader of one step."""

    def __init__(
        self, section: Section, connectors: Connectors, resolver: Resolver, folder: Path
    ) -> None:
        self.section = section
        self.connectors = connectors
        self.resolver = resolver
        self.findings = resolver.findings
        self.folder = folder

    def read(self) -> Step | None:
        """Return the step, if it is valid."""
        data, later = self._written()
        two = two_sided(data)
        if two and "from" in data:
            self._broken(beside_from(two))
        elif two:
            data = {Text("from"): Text(two), **data}
        lookup, unsound = self._lookup(data)
        step = self._validated(data)
        clear = keyed_rules.shape(data, self._broken)
        if step is None or later or not clear or unsound:
            return None
        step = step.model_copy(update={"lookup": lookup})
        self._check(step, data)
        keys_at: dict[str, Text] = {key: key for key in data} | ({"from": two} if two else {})
        return Step.model_construct(
            **dict(step),
            name=self.section.key,
            keys_at=keys_at,
            reads=read_by(step),
            states={} if step.process is None else self._states(step, step.process),
        )

    def _written(self) -> tuple[dict[Text, object], bool]:
        """Return the values of its keys, and whether it has clauses that are not built yet."""
        assert isinstance(self.section.node, MappingNode)
        entries = self.resolver.entries(self.section.node, self.section.subject)
        later = [key for key in entries if key in LATER_CLAUSES]
        data = {
            key: self.resolver.value(entry.value, self.section.subject)
            for key, entry in entries.items()
            if key not in later
        }
        if later:
            self._not_built(later)
            data.setdefault(Text("from"), Text("later"))
        return data, bool(later)

    def _validated(self, data: Mapping[Text, object]) -> StepKeys | None:
        """Return the step without its lookup, which is read by itself."""
        keys = Keys(
            spare=SPARE,
            more=[*CLAUSES, *LATER_CLAUSES],
            elsewhere=lambda key: in_step(key, self.connectors),
        )
        others = {key: value for key, value in data.items() if key != "lookup"}
        return validated(StepKeys, others, self.section, self.findings, keys)

    def _states(self, step: StepKeys, process: Process) -> Mapping[str, Declared]:
        """Return the states that a class for `process` declares, and report its errors."""
        from headrace.core.pipeline import process_classes

        subject = self.section.subject
        methods: list[tuple[str, ...]] = [("on_row", "on_rows")]
        if step.connect is not None:
            methods = [("on_left",), ("on_right",)]
        elif step.broadcast is not None:
            methods = [("on_row",), ("on_rule",)]
        careful = step.on_error.action != "fail"
        return process_classes.check(
            process.python, self.folder, subject, self.findings, methods, careful=careful
        )

    def _lookup(self, data: Mapping[Text, object]) -> tuple[Lookup | None, bool]:
        """Return the lookup, if there is one, and whether it is invalid."""
        if "lookup" not in data:
            return None, False
        reader = LookupReader(self.section, self.connectors, self.findings)
        lookup = reader.read(data[Text("lookup")])
        return lookup, lookup is None

    def _not_built(self, later: list[Text]) -> None:
        shown = " and ".join(filter(None, (", ".join(later[:-1]), later[-1])))
        message = f"{shown} {'is' if len(later) == 1 else 'are'} not built yet"
        hint = f"the clauses of a step are {', '.join(CLAUSES)}"
        self.findings.add(message, later[0].locate(), hint, self.section.subject)

    def _check(self, step: StepKeys, data: Mapping[Text, object]) -> None:
        if does_nothing(step, data):
            message = 'wanted a clause in addition to "from", got none'
            alone = ", ".join(clause for clause in CLAUSES if clause not in BESIDE)
            hint = f"add one of {alone}; a sink may read the input itself"
            self._complain((), message, hint)
        for rule in keyed_rules.check(step, data):
            self._broken(rule)
        check_user_code(step, self.folder, self.section.subject, self.findings)
        if step.map is None:
            if "on_error" in data and not {"map", "lookup", "process"} & data.keys():
                hint = "expressions never fail: a value that cannot be computed is null"
                message = 'on_error is for steps with "map", "lookup" or "process"'
                self._complain(("on_error",), message, hint)
            return
        self._has_function(step.map.python)
        if step.on_error.action != "fail" and step.map.mode != "row":
            message = f"on_error: {step.on_error.action} needs a map of mode: row"
            hint = "a map of mode: batch fails with all of its rows"
            self._complain(("on_error",), message, hint)

    def _has_function(self, function: Function) -> None:
        from headrace.core.pipeline import python_files

        subject = self.section.subject
        python_files.check(function, self.folder, "map.python", subject, self.findings)

    def _broken(self, rule: Rule) -> None:
        spot = find(self.section, rule.at)
        place = spot.place() if rule.of_value else spot.key.locate()
        about = self.section.subject
        self.findings.add(rule.message, place, rule.hint, about, rule.severity)

    def _complain(self, at: tuple[str, ...], message: str, hint: str) -> None:
        place = find(self.section, at).key.locate()
        self.findings.add(message, place, hint, self.section.subject)
