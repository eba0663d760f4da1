"""The reader of a test in Python: each call becomes an event that fits the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.cli.pipeline_tests.call_nodes import CallSite
from headrace.cli.pipeline_tests.checked_tests import check_records
from headrace.core.errors.problems import Problem, suggest_name
from headrace.core.errors.rendering import format_count, render_problem
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.interpolation import Interpolator
from headrace.core.pipeline.loader import LoadedPipeline
from headrace.core.pipeline.node_resolver import NodeResolver
from headrace.core.pipeline.pipeline_tests.model import Event, GivenRows, PipelineTest
from headrace.core.pipeline.pipeline_tests.reader import DAY, PipelineTestReader
from headrace.core.pipeline.pipeline_tests.section_nodes import SectionNodes
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import BoundEvent, BoundTest, PlanBinder
from headrace.core.testing.fed_streams import GIVEN_SUFFIX
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.plan.nodes import Plan


__tracebackhide__ = True
"""Mistakes in pytest are shown at the call of the test."""


@dataclass(slots=True)
class CallReader:
    """Reads the calls of one test; `given` are the steps whose rows it gives."""

    loaded: LoadedPipeline
    plan: Plan
    given: Collection[str]
    test: BoundTest = field(init=False)
    _binder: PlanBinder = field(init=False)

    def read_test(
        self, call: CallSite, day: object, tables: object, splits: Mapping[str, int]
    ) -> BoundTest:
        """Read the call that begins the test. Raises ValueError."""
        self._check_names(call, splits)
        reader = self._build_reader(call)
        date = call.build_entry("date", day)
        found = PipelineTest(
            Text(call.function),
            call.location,
            None if day is None else reader.nodes.read_scalar(date, DAY),
            (),
            reader.read_tables(call.build_entry("tables", tables)),
        )
        raise_problems(call, reader.nodes.resolver.findings.problems)
        counts = {self._name_source(name): count for name, count in splits.items()}
        self._binder = PlanBinder(found, self.plan, frozenset(self.given), counts)
        self.test = self._binder.bind()
        raise_problems(call, self._binder.problems)
        return self.test

    def list_streams(self) -> list[str]:
        """Return the streams whose rows may be compared."""
        return sorted(name for name in self._binder.plan.streams if "@" not in name)

    def read_events(self, call: CallSite, word: str, value: object) -> list[BoundEvent]:
        """Read a call as an event of a test file. Raises ValueError."""
        reader = self._build_reader(call)
        events = [e for e in reader.read_event(call.build_entry(word, value)) if e is not None]
        raise_problems(call, reader.nodes.resolver.findings.problems)
        bound = list[BoundEvent]()
        for event in events:
            raise_problems(call, self._check_fed(event))
            one = self._binder.bind_event(event)
            problems, self._binder.problems = self._binder.problems, []
            raise_problems(call, problems)
            assert one is not None, "there was no problem"
            bound.append(one)
        test = replace(self.test, events=tuple((call.location, each) for each in bound))
        raise_problems(call, check_records([test], self._binder.plan))
        return bound

    def _build_reader(self, call: CallSite) -> PipelineTestReader:
        inputs = self.loaded.inputs
        interpolator = Interpolator(self.loaded.folder, inputs.env, inputs.files)
        reader = SectionNodes(NodeResolver(interpolator, DocumentProblems()))
        reader.subject = f'test "{call.function}"'
        return PipelineTestReader(reader)

    def _name_source(self, name: str) -> str:
        return f"{name}{GIVEN_SUFFIX}" if name in self.given else name

    def _list_outputs(self, kind: type[nodes.Source] | type[nodes.Step]) -> list[str]:
        return [s.name for part in self.plan if isinstance(part, kind) for s in part.outputs]

    def _check_names(self, call: CallSite, splits: Iterable[str]) -> None:
        steps, sources = self._list_outputs(nodes.Step), self._list_outputs(nodes.Source)
        wrong = [
            (f'given: there is no step "{name}"', suggest_name(name, steps))
            for name in self.given
            if name not in steps
        ]
        wrong += [
            (f'splits: there is no source "{name}"', suggest_name(name, sources))
            for name in splits
            if name not in (*sources, *self.given)
        ]
        raise_problems(call, (Problem(message, None, hint) for message, hint in wrong))

    def _check_fed(self, event: Event) -> Iterable[Problem]:
        """Yield why a test does not give rows that the call which began it has not named."""
        if not isinstance(event, GivenRows):
            return
        name, count = str(event.source), len(event.splits)
        if name in self._list_outputs(nodes.Step) and name not in self.given:
            hint = f'name it first, as in PipelineTrial(..., given=["{name}"])'
            yield Problem(f'"{name}" is a step, and its rows are not given', None, hint)
        known = self._binder.splits.get(self._name_source(name), 1)
        if count > known:
            hint = f'as in PipelineTrial(..., splits={{"{name}": {count}}})'
            yield Problem(f'"{name}" has {format_count(known, "split")}, got {count}', None, hint)


def raise_problems(call: CallSite, problems: Iterable[Problem]) -> None:
    """Raise ValueError if there are problems, with their places: those of the call are here."""
    found = [
        render_problem(replace(each, location=call.place(each.location)))
        for each in problems
        if each.severity == "error"
    ]
    if found:
        raise ValueError("\n".join(dict.fromkeys(found)))
