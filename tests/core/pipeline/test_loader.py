"""The result of loading a valid document."""

import cProfile
import os
import pickle
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.core.pipeline.fields import Assignment, Explode, OnError
from headrace.core.pipeline.loader import load_pipeline, reload_pipeline
from headrace.core.pipeline.settings import FixedRestart, Settings
from headrace.core.pipeline.values import Rate
from tests.support.pipeline.broken_documents import loaded
from tests.support.pipeline.connectors import REGISTRY

WHOLE = """\
# everything that the language has so far
name: every-thing
settings:
  parallelism: 2
  key_groups: 64
  checkpoint: {every: never, retain: 2}
  restart: {strategy: fixed, attempts: 5}
sources:
  bids: &bids
    nexmark: {events: 1M, rate: 10000/s, stream: bids}
    event_time: date_time
    watermark: {delay: 2s, idle: 30s}
  more:
    <<: *bids
  orders:
    files: {path: "${env:TOPIC}/*.csv", watch: 5s}
    format: csv
    csv: {delimiter: ";"}
    schema:
      id: bigint not null
      items: array<string>
      price: decimal(10,2)
    on_error: {to: rejected}
steps:
  cleaned:
    from: [bids, more]
    where: >-
      price > 0
      and auction is not null
    with: {eur: price * 0.908}
    trace: true
  split:
    from: orders
    explode: {item: items, outer: true}
    route: {cheap: price < 10, dear: price >= 10}
  scored:
    from: split.cheap
    map: {python: scoring.py:score, returns: {id: bigint}, mode: row}
    on_error: skip
    parallelism: 3
  few: {from: scored, select: [id], drop: id}
sinks:
  out: {from: cleaned, console: }
  dear: {from: split.dear, files: {path: out, roll: {rows: 1000, every: 1h}, mode: append}}
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sound_document_has_no_problems() -> None:
    found = loaded(WHOLE)
    assert found.is_valid
    assert not found.broken_names
    assert not found.problems


def test_settings_are_typed() -> None:
    settings = loaded(WHOLE).pipeline.settings
    assert (settings.parallelism, settings.key_groups) == (2, 64)
    assert settings.checkpoint.every is None
    assert settings.checkpoint.timeout == timedelta(minutes=10)
    assert isinstance(settings.restart, FixedRestart)
    assert settings.restart.attempts == 5
    assert settings.state.memory == 256 * 2**20


def test_the_defaults_are_those_of_the_design() -> None:
    settings = Settings()
    assert (settings.parallelism, settings.key_groups) == (1, 128)
    checkpoint = settings.checkpoint
    assert (checkpoint.every, checkpoint.retain) == (timedelta(seconds=10), 3)
    assert (checkpoint.mode, checkpoint.min_pause) == ("aligned", timedelta())
    assert (checkpoint.timeout, checkpoint.tolerable_failures) == (timedelta(minutes=10), 3)
    assert settings.restart.get_values() == {
        **{"strategy": "exponential", "factor": 1.5, "jitter": 0.1},
        **{"first": timedelta(seconds=1), "max": timedelta(seconds=60)},
        "healthy_after": timedelta(minutes=10),
    }
    assert (settings.buffer.rows, settings.buffer.timeout) == (65536, timedelta())


def test_sources_are_typed() -> None:
    sources = loaded(WHOLE).pipeline.sources
    bids, orders = sources["bids"], sources["orders"]
    assert bids.connector.name == "nexmark"
    assert (bids.options.events, bids.options.seed) == (1_000_000, 0)
    assert bids.options.rate == Rate(10_000, timedelta(seconds=1))
    assert bids.watermark is not None
    assert (bids.watermark.delay, bids.watermark.max_drift) == (timedelta(seconds=2), None)
    assert orders.options.path == "bids/*.csv"
    assert orders.csv is not None
    assert (orders.format, orders.csv.delimiter, orders.csv.quote) == ("csv", ";", '"')
    assert orders.columns is not None
    schema = "id bigint not null, items array<string>, price decimal(10,2)"
    assert str(orders.columns.schema) == schema
    assert orders.on_error == OnError("to", sources["orders"].on_error.to)
    assert orders.on_error.to == "rejected"
    assert sources["more"].event_time == "date_time"


def test_steps_are_typed() -> None:
    steps = loaded(WHOLE).pipeline.steps
    cleaned, split, scored, few = steps.values()
    assert cleaned.from_ == ("bids", "more")
    assert cleaned.where == "price > 0 and auction is not null"
    assert cleaned.with_ is not None
    assert [(a.name, a.expression) for a in cleaned.with_] == [("eur", "price * 0.908")]
    assert (cleaned.trace, cleaned.parallelism) == (True, None)
    assert isinstance(split.explode, Explode)
    assert (split.explode.name, split.explode.array, split.explode.outer) == ("item", "items", True)
    assert split.route is not None
    assert [branch.name for branch in split.route] == ["cheap", "dear"]
    assert scored.map is not None
    assert (scored.map.python.file, scored.map.python.name) == ("scoring.py", "score")
    assert (scored.map.mode, scored.on_error.action, scored.parallelism) == ("row", "skip", 3)
    assert few.select is not None
    assert isinstance(few.select[0], Assignment)
    assert (few.select[0].name, few.select[0].expression, few.drop) == ("id", None, ("id",))


def test_sinks_are_typed() -> None:
    sinks = loaded(WHOLE).pipeline.sinks
    assert (sinks["out"].from_, sinks["out"].connector.name) == ("cleaned", "console")
    dear = sinks["dear"].options
    assert (dear.path, dear.mode, dear.roll.rows) == ("out", "append", 1000)
    assert (dear.roll.every, dear.roll.bytes) == (timedelta(hours=1), None)


def test_everything_knows_its_place() -> None:
    pipeline = loaded(WHOLE).pipeline
    cleaned = pipeline.steps["cleaned"]
    assert cleaned.where is not None
    place = cleaned.where.locate(14, 21)
    assert (place.line, place.column, place.length) == (29, 11, 7)
    assert place.text == "      and auction is not null"
    assert cleaned.from_[1].locate().column == 18
    assert cleaned.name.locate().line == 25
    assert cleaned.keys_at["trace"].locate().line == 31
    assert pipeline.name.locate().line == 2
    columns = pipeline.sources["orders"].columns
    assert columns is not None
    assert columns.types[2].locate().text == "      price: decimal(10,2)"
    # The value of an alias has the position of its anchor.
    assert pipeline.sources["more"].keys_at["event_time"].locate().line == 11


def test_overrides_are_put_in() -> None:
    overrides = (
        "settings.parallelism=7",
        "steps.cleaned.from.1=bids2",
        "steps.few.where=id > ${env:LIMIT:-3}",
        "sources.orders.schema.'a.b'=date",
        "settings.buffer.rows=5",
    )
    found = loaded(WHOLE, overrides)
    assert found.is_valid
    assert found.pipeline.settings.parallelism == 7
    assert found.pipeline.settings.buffer.rows == 5
    assert found.pipeline.steps["cleaned"].from_ == ("bids", "bids2")
    assert found.pipeline.steps["few"].where == "id > 3"
    columns = found.pipeline.sources["orders"].columns
    assert columns is not None
    assert columns.schema.names[-1] == "a.b"


def test_a_key_with_a_dot_is_found_without_quotes() -> None:
    text = WHOLE.replace("price: decimal(10,2)", "the.price: int")
    found = loaded(text, ("sources.orders.schema.the.price=date",))
    columns = found.pipeline.sources["orders"].columns
    assert columns is not None
    assert str(columns.schema.fields[-1].type) == "date"


def test_valid_steps_are_loaded_despite_broken_ones() -> None:
    text = WHOLE.replace("event_time: date_time", "event_tim: x", 1)
    text = text.replace("route: {cheap", "rout: x\n    route: {cheap")
    found = loaded(text)
    assert [*found.pipeline.steps] == ["cleaned", "scored", "few"]
    assert found.broken_names == {"split", "split.cheap", "split.dear", "split.else"}
    assert not found.is_valid


def test_a_part_is_loaded_without_broken_keys_that_do_not_affect_columns() -> None:
    text = WHOLE.replace("event_time: date_time", "event_tim: x", 1)
    text = text.replace("{to: rejected}", "{to: 9x}").replace("trace: true", "trace: maybe")
    text = text.replace("mode: append}", "mode: replace}").replace("rows: 1000", "rows: 0")
    found = loaded(text)
    pipeline = found.pipeline
    assert not found.is_valid
    assert pipeline.sources["bids"].event_time is None
    assert pipeline.sources["bids"].watermark is None
    assert pipeline.sources["orders"].on_error == OnError()
    assert pipeline.steps["cleaned"].where == "price > 0 and auction is not null"
    assert not pipeline.steps["cleaned"].trace
    assert pipeline.sinks["dear"].options.mode == "error"
    assert found.broken_names == {"9x"}


def test_a_schema_is_loaded_without_its_broken_columns() -> None:
    text = WHOLE.replace("id: bigint not null", "id: bigin").replace("decimal(10,2)", "[]")
    columns = loaded(text).pipeline.sources["orders"].columns
    assert columns is not None
    assert str(columns.schema) == "items array<string>"
    assert columns.names == ("items",)
    assert columns.broken_names == {"id", "price"}


def test_names_that_a_broken_part_would_have_made_are_known() -> None:
    text = (
        "name: t\nsources:\n  a: {http: {}, on_error: {to: bad}}\nsteps:\n"
        "  w: {from: a, window: {late_to: late}}\n"
        "  p: {from: a, process: {outputs: {audit: {}}}}\n"
        "  c: {from: [], route: {x: f(a, b)}, on_error: {to: worse}}\n"
        "sinks:\n  - name: s\n    from: a\n"
    )
    found = loaded(text)
    expected = {"a", "bad", "w", "late", "p", "p.audit", "p.else", "c", "c.x", "c.else", "worse"}
    assert found.broken_names == expected | {"s"}
    assert found.has_unknown_names


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/p.yaml").write_text(
        "name: t\nsources:\n  a: {nexmark: {}}\nsteps:\n"
        "  s: {from: a, map: {python: f.py:f, returns: {a: int}}}\n"
        "  t: {from: a, where: '${file:w.sql}'}\nsinks:\n  o: {from: s, console: {}}\n"
    )
    (tmp_path / "inner/f.py").write_text("def f(rows): return rows\n")
    (tmp_path / "inner/w.sql").write_text("a > 0\n")
    found = load_pipeline("inner/p.yaml", REGISTRY, env={})
    assert found.is_valid, found.problems
    assert found.folder == Path("inner")
    assert found.pipeline.steps["t"].where == "a > 0"


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(WHOLE)
    monkeypatch.setitem(os.environ, "TOPIC", "outside")
    assert (
        load_pipeline("p.yaml", REGISTRY).pipeline.sources["orders"].options.path == "outside/*.csv"
    )


def test_nothing_that_is_loaded_prints_a_secret() -> None:
    text = WHOLE.replace("${env:TOPIC}/*.csv", "in/${secret:TOKEN}")
    found = loaded(text)
    assert found.is_valid
    assert found.pipeline.sources["orders"].options.path.reveal() == "in/hunter2"
    assert "hunter2" not in f"{found!r}{found}{found.pipeline}"
    assert "path='****'" in repr(found)


def count_calls(steps: int) -> int:
    """Return the number of calls that the loading of a pipeline takes."""
    texts = "".join(
        f"  s{n}:\n    from: {f's{n - 1}' if n else 'a'}\n    where: price > {n} and x > 3\n"
        "    with: {eur: price * 0.9, day: to_date(at)}\n    select: {price: price, eur: eur}\n"
        for n in range(steps)
    )
    head = "name: t\nsources:\n  a: {nexmark: {}}\nsteps:\n"
    text = f"{head}{texts}sinks:\n  o: {{from: s{steps - 1}, console: }}\n"
    loaded(text)
    profile = cProfile.Profile()
    assert profile.runcall(loaded, text).is_valid
    return sum(each.callcount for each in profile.getstats())


def test_loading_takes_as_many_calls_as_there_are_steps() -> None:
    assert count_calls(60) < 2.2 * count_calls(30)


def test_a_pipeline_is_loaded_again_from_its_inputs_alone(tmp_path: Path) -> None:
    (tmp_path / "where.sql").write_text("n > 1")
    file = tmp_path / "shop.yaml"
    file.write_text(
        "sources:\n  numbers: {generate: {rows: 3}, schema: {n: bigint}}\n"
        "steps:\n  some: {from: numbers, where: '${file:where.sql}'}\n"
        "sinks:\n  out: {from: some, files: {path: '${env:TARGET}'}}\n"
    )
    loaded = load_pipeline(file, REGISTRY, env={"TARGET": "there"}, overrides=["settings.seed=7"])
    inputs = pickle.loads(pickle.dumps(loaded.inputs))
    file.unlink()
    (tmp_path / "where.sql").unlink()
    again = reload_pipeline(inputs, REGISTRY)
    assert again.pipeline == loaded.pipeline
    assert again.pipeline.settings.seed == 7
    assert again.problems == loaded.problems


def test_workers_without_a_parallelism_set_it(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = "sources:\n  n: {generate: {rows: 3}}\nsinks:\n  out: {from: n, files: {path: out}}\n"
    file.write_text(text)
    for given, wanted in (
        (["settings.workers=3"], (3, 3)),
        (["settings.workers=3", "settings.parallelism=2"], (3, 2)),
        ([], (1, 1)),
    ):
        settings = load_pipeline(file, REGISTRY, overrides=given).pipeline.settings
        assert (settings.workers, settings.parallelism) == wanted
