"""The JSON schema accepts what the language accepts, and rejects what editors should underline."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.connectors.registry import REGISTRY as REAL
from headrace.core.pipeline import build_json_schema
from tests.core.pipeline.test_loader import WHOLE
from tests.support.paths import ROOT
from tests.support.pipeline.connectors import REGISTRY
from tests.support.pipeline.json_schema import fits

SCHEMA = build_json_schema(REGISTRY)
SMALL = """
name: t
sources:
  a: {nexmark: {events: 10}}
steps:
  s: {from: a, where: x > 1}
sinks:
  o: {from: s, console: }
"""


def is_taken(text: str) -> bool:
    """Whether the schema accepts a document, read as an editor reads it."""
    return fits(yaml.safe_load(text), SCHEMA, SCHEMA)


def test_sound_documents_are_taken() -> None:
    assert is_taken(WHOLE)
    assert is_taken(SMALL)


class OnIsAWord(yaml.SafeLoader):
    """A loader with the booleans that editors know: YAML 1.2 has no `on`."""


OnIsAWord.yaml_implicit_resolvers = {
    first: [(tag, match) for tag, match in resolvers if first not in "oO" or "bool" not in tag]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_pipelines_that_ship_are_taken(path: Path) -> None:
    schema = build_json_schema(REAL)
    assert fits(yaml.load(path.read_text("utf-8"), OnIsAWord), schema, schema)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("events: 10", "events: 1M"),
        ("events: 10", 'events: "${env:EVENTS}"'),
        ("x > 1", "true"),
        ("name: t", "name: t\nsettings: {parallelism: 4, restart: {strategy: none}}"),
        ("name: t", "name: t\nsettings: {checkpoint: {every: never, mode: at_least_once}}"),
        ("name: t", "name: t\nsettings: {restart: {factor: 2}, state: {memory: 1GB}}"),
        ("from: a", "from: [a, b]"),
        ("where: x > 1", "select: [a, b]"),
        ("where: x > 1", "select: {a: 1, b: x + 1}"),
        ("where: x > 1", "explode: {item: items, outer: true}"),
        ("where: x > 1", "explode: {item: items}, on_error: {to: bad}"),
        ("from: a, where: x > 1", "from: [a, b]"),
        ("where: x > 1", "aggregate: {n: count(*)}, key: x, window: {tumble: 1m}"),
        ("where: x > 1", "aggregate: {n: count(*)}, window: global, having: n > 1"),
        ("where: x > 1", "aggregate: {n: count(*)}, key: {x: a + 1}, ttl: 1h"),
        ("where: x > 1", "aggregate: {n: 1}, window: {count: 10, every: 5, evict: {last: 3}}"),
        ("where: x > 1", "aggregate: {n: 1}, window: {session: 1s, trigger: {every: 1s}}"),
        ("where: x > 1", "top: {n: 3, by: [x desc, y]}, key: [a, b], ttl: {after: 1h}"),
        ("where: x > 1", 'aggregate: {n: 1}, ttl: "${env:TTL}", window: "${env:WINDOW}"'),
        ("where: x > 1", "dedup: {key: x, keep: last, ttl: 1h, time: processing}"),
        ("  s: {from: a, where: x > 1}\n", ""),
        ("  s: {", "  true: {"),
    ],
)
def test_what_the_language_has_is_taken(old: str, new: str) -> None:
    assert is_taken(SMALL.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: t", "nam: t"),
        ("name: t", "name: a b"),
        ("name: t", "name: t\nsettings: {parallelism: 0}"),
        ("name: t", "name: t\nsettings: {parallelism: many}"),
        ("name: t", "name: t\nsettings: {checkpoint: {every: 10}}"),
        ("name: t", "name: t\nsettings: {restart: {strategy: fixed, factor: 2}}"),
        ("name: t", "name: t\nsettings: {restart: {strategy: often}}"),
        ("name: t", "name: t\nsettings: {workers: 0}"),
        ("nexmark: {events: 10}", ""),
        ("nexmark: {events: 10}", "nexmark: {}, generate: {columns: {x: id}}"),
        ("nexmark: {events: 10}", "generate: {rows: 1}"),
        ("nexmark: {events: 10}", "console: {}"),
        ("nexmark: {events: 10}", "nexmark: {event: 10}"),
        ("nexmark: {events: 10}", "nexmark: {stream: sellers}"),
        ("nexmark: {events: 10}", "files: {path: in}, format: xml"),
        ("console: ", "files: {path: out, mode: replace}"),
        ("from: a", "form: a"),
        ("from: a", "from: []"),
        ("where: x > 1", "where: [x]"),
        ("where: x > 1", "select: {}"),
        ("where: x > 1", "window: {tumble: 1m}"),
        ("where: x > 1", "key: x"),
        ("where: x > 1", "having: x > 1"),
        ("where: x > 1", "aggregate: [n]"),
        ("where: x > 1", "aggregate: {n: count(*)}, window: 1m"),
        ("where: x > 1", "aggregate: {n: count(*)}, window: {tumble: 10}"),
        ("where: x > 1", "aggregate: {n: count(*)}, window: {tumble: 1m, slide: 2m}"),
        ("where: x > 1", "aggregate: {n: count(*)}, window: {lateness: 1m}"),
        ("where: x > 1", "aggregate: {n: count(*)}, window: {global: false}"),
        ("where: x > 1", "aggregate: {n: count(*)}, window: {tumble: 1m, trigger: {}}"),
        ("where: x > 1", "aggregate: {n: count(*)}, key: []"),
        ("where: x > 1", "aggregate: {n: count(*)}, top: {n: 1, by: x}"),
        ("where: x > 1", "top: {n: 0, by: x}"),
        ("where: x > 1", "top: {n: 1}"),
        ("where: x > 1", "dedup: {keep: last}"),
        ("where: x > 1", "dedup: {key: x, keep: newest}"),
        ("where: x > 1", "where: x > 1, on_error: ignore"),
        ("where: x > 1", "on_error: {to: bad}"),
        ("where: x > 1", "explode: {x: a, y: a}"),
        ("where: x > 1", "explode: {outer: true}"),
        ("where: x > 1", "route: {else: x > 1}"),
        ("  a: {", "  9a: {"),
    ],
)
def test_what_the_language_has_not_is_underlined(old: str, new: str) -> None:
    assert old in SMALL
    assert not is_taken(SMALL.replace(old, new))


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema nested in a schema."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def test_every_key_is_described() -> None:
    for schema in objects(build_json_schema(REAL)):
        for key, inner in schema.get("properties", {}).items():
            described = isinstance(inner, dict) and ("description" in inner or "$ref" in inner)
            assert described or "const" in inner, key


def test_defaults_are_what_one_would_write() -> None:
    settings = SCHEMA["$defs"]["settings"]["properties"]
    checkpoint = settings["checkpoint"]["properties"]
    assert (checkpoint["every"]["default"], checkpoint["timeout"]["default"]) == ("10s", "10m")
    assert settings["state"]["properties"]["memory"]["default"] == "256MB"
    assert SCHEMA["$defs"]["source"]["properties"]["on_error"]["default"] == "fail"
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
