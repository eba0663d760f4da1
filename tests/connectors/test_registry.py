"""The connectors' options: what each takes, and what they bring."""

from pathlib import Path

import pytest

from headrace.connectors.registry import REGISTRY
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.pipeline.text import Text


def messages(folder: Path, source: str, sink: str = "console: {}") -> list[str]:
    """Return the problems of a pipeline with this source and this sink."""
    path = folder / "p.yaml"
    path.write_text(f"name: t\nsources:\n  s: {{{source}}}\nsinks:\n  o: {{from: s, {sink}}}\n")
    return [problem.message for problem in load_pipeline(path, REGISTRY, env={}).problems]


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("nexmark: {}", "console: "),
        ("nexmark: {events: 1M, rate: 10000/s, seed: 1, stream: auctions}", "stdout: {}"),
        ('generate: {rows: 10, rate: 1/s, columns: {x: "id % 10"}}', "stdout: , format: csv"),
        ("files: {path: in, watch: 5s, ordered: true}, schema: {a: int}", "files: {path: out}"),
        (
            "stdin: {}, format: raw",
            "files: {path: out, roll: {rows: 1k, bytes: 1MB, every: 1h}, mode: append}",
        ),
    ],
)
def test_sound_options_are_taken(source: str, sink: str, tmp_path: Path) -> None:
    assert messages(tmp_path, source, sink) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nexmark: {event: 5}", 'nexmark: unknown key "event"'),
        ("nexmark: {stream: bid}", 'nexmark.stream: wanted bids, auctions or persons, got "bid"'),
        ("generate: {rows: 5}", 'generate: missing key "columns"'),
        ("files: {}", 'files: missing key "path"'),
        ("files: {path: in, watch: 0s}", "files.watch: wanted a duration longer than 0s"),
        ("stdin: {path: x}", 'stdin: unknown key "path"'),
        ("stdin: {}, format: parquet", "format: wanted json, csv, raw or debezium_json with"),
        ("generate: {columns: {x: id}}, format: json", '"generate" has no format'),
        ("http: {topic: x}", '"http" cannot be read from'),
    ],
)
def test_a_wrong_option_is_reported(source: str, message: str, tmp_path: Path) -> None:
    said = messages(tmp_path, source)
    assert any(one.startswith(message) for one in said), said


def test_nexmark_brings_the_columns_of_its_streams() -> None:
    side = REGISTRY["nexmark"].source
    assert side is not None and side.columns is not None
    found = {
        stream: side.columns(side.options.model_validate({"stream": Text(stream)})).names
        for stream in ("bids", "auctions", "persons")
    }
    assert found == {
        "bids": ("auction", "bidder", "price", "channel", "url", "date_time", "extra"),
        "auctions": (
            *("id", "item_name", "description", "initial_bid", "reserve", "date_time"),
            *("expires", "seller", "category", "extra"),
        ),
        "persons": (
            *("id", "name", "email_address", "credit_card", "city", "state", "date_time"),
            "extra",
        ),
    }


def test_only_sources_without_columns_of_their_own_declare_them() -> None:
    declare = {
        name for name, c in REGISTRY.items() if c.source is not None and c.source.declares_columns
    }
    assert {"files", "stdin"} <= declare
    assert not {"nexmark", "generate"} & declare
