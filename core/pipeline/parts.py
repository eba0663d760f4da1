"""From the document's root to a Pipeline: sections, sources, steps and sinks, each on its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.core.contracts import Connectors
from headrace.core.pipeline.data import NOTHING
from headrace.core.pipeline.model import (
    Pipeline,
    Sink,
    SinkKeys,
    Source,
    SourceKeys,
    Step,
    StepKeys,
)
from headrace.core.pipeline.nodes import Mapping, Node, Scalar
from headrace.core.pipeline.resolve import Resolver
from headrace.core.pipeline.settings import Settings
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.validate import Section, validated
from headrace.core.problems import Problem


class Reader:
    """Reads one document; gathers problems and the names of what is broken."""

    def __init__(self, connectors: Connectors, resolver: Resolver, folder: Path) -> None:
        self.connectors = connectors
        self.resolver = resolver
        self.folder = folder
        self.problems: list[Problem] = []
        self.broken: set[str] = set()

    def pipeline(self, root: Node, file: Text, default: Text) -> tuple[Pipeline, set[str]]:
        """All that is sound."""
        if not isinstance(root, Mapping):
            self.problems.append(Problem("a pipeline is a mapping", file.locate()))
            return Pipeline(default), self.broken
        sections = {entry.key.value: entry.value for entry in root.entries}
        name = sections.get("name")
        pipeline = Pipeline(
            Text(name.value, name) if isinstance(name, Scalar) else default,
            self.settings(sections.get("settings"), file),
            {source.name: source for source in self.sources(sections.get("sources"))},
            {step.name: step for step in self.steps(sections.get("steps"))},
            {sink.name: sink for sink in self.sinks(sections.get("sinks"))},
        )
        return pipeline, self.broken

    def settings(self, node: Node | None, file: Text) -> Settings:
        if node is None:
            return Settings()
        section = Section(file, node, "", ("settings",))
        found, problems = validated(Settings, self.resolver.value(node, ""), section)
        self.problems += problems
        return found or Settings()

    def each(self, node: Node | None, kind: str) -> Iterator[tuple[Section, dict[Text, object]]]:
        for entry in node.entries if isinstance(node, Mapping) else ():
            key = Text(entry.key.value, entry.key)
            section = Section(key, entry.value, f'{kind} "{key}"')
            if isinstance(entry.value, Mapping):
                yield section, self.resolver.entries(entry.value, section.subject)

    def sources(self, node: Node | None) -> Iterator[Source]:
        for section, data in self.each(node, "source"):
            name = next(key for key in data if key in self.connectors)
            connector = self.connectors[name]
            assert connector.source is not None
            options, problems = validated(
                connector.source.options, self.options(data[name]), section
            )
            keys = {key: value for key, value in data.items() if key != name}
            source, more = validated(SourceKeys, keys, section)
            self.problems += [*problems, *more]
            if source is None or options is None:
                self.broken.add(section.key)
                continue
            yield Source.model_construct(
                **dict(source),
                name=section.key,
                connector=connector,
                options=options,
                keys_at={key: key for key in data},
            )

    def options(self, value: object) -> object:
        return {} if value is NOTHING else value

    def steps(self, node: Node | None) -> Iterator[Step]:
        for section, data in self.each(node, "step"):
            step, problems = validated(StepKeys, data, section)
            self.problems += problems
            if step is None:
                self.broken.add(section.key)
                continue
            yield Step.model_construct(
                **dict(step), name=section.key, keys_at={key: key for key in data}
            )

    def sinks(self, node: Node | None) -> Iterator[Sink]:
        for section, data in self.each(node, "sink"):
            name = next(key for key in data if key in self.connectors)
            connector = self.connectors[name]
            assert connector.sink is not None
            options, problems = validated(connector.sink.options, self.options(data[name]), section)
            keys = {key: value for key, value in data.items() if key != name}
            sink, more = validated(SinkKeys, keys, section)
            self.problems += [*problems, *more]
            if sink is None or options is None:
                self.broken.add(section.key)
                continue
            yield Sink.model_construct(
                **dict(sink),
                name=section.key,
                connector=connector,
                options=options,
                keys_at={key: key for key in data},
            )
