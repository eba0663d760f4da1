"""Batches reject what they cannot do, with its position and a hint, before Spark is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace

LINES = "schema: {id: int not null, t: timestamp}, event_time: t"
TEXT = """\
name: small
sources:
  s: {SOURCE}
steps:
  t: {from: s, STEP}
sinks:
  out: {from: t, files: {path: out}}
"""
WATCHED = f"files: {{path: in/*, watch: 10s}}, {LINES}"
TOPIC = f"kafka: {{brokers: 'localhost:9092', topic: bids}}, {LINES}"
BOUNDED = f"files: {{path: in/*}}, {LINES}"
NO_END = 'source "s": it has no end, but --batch reads to the end'
TWICE = 'source "s": --batch cannot read stdin: it cannot be read twice'
TRIGGER = """\
from headrace import Trigger, timer


class Own:
    def on_row(self, row, state, window):
        return True


class Waiting(Trigger):
    wake = timer(time="processing")

    def on_row(self, row, state, window):
        return True

    def on_timer(self, at, state, window):
        return True
"""
COUNT = "key: id, aggregate: {n: count(*)}"


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cannot be started, nor is it asked for."""
    monkeypatch.setitem(sys.modules, "pyspark", None)


def refused(headrace: Headrace, folder: Path, source: str, step: str) -> str:
    """Return the message for a rejected pipeline."""
    text = TEXT.replace("SOURCE", source).replace("STEP", step)
    (folder / "p.yaml").write_text(text, "utf-8")
    ran = headrace("run", "p.yaml", "--batch", "--quiet")
    assert ran.status == 2, ran.err
    assert not ran.out and not (folder / "out").exists()
    return ran.err


@pytest.mark.parametrize(
    ("source", "said", "add"),
    [
        ("generate: {columns: {id: id}}", NO_END, "add rows, as in rows: 1000"),
        ("nexmark: {stream: auctions}", NO_END, "add events, as in events: 1000000"),
        (WATCHED, NO_END, "remove watch"),
        (TOPIC, NO_END, "add stop: latest"),
        (f"stdin: {{}}, {LINES}", TWICE, "read that: files: {path: rows.jsonl}"),
    ],
)
def test_a_source_that_cannot_be_read_whole_is_refused_at_its_connector(
    headrace: Headrace, tmp_path: Path, source: str, said: str, add: str
) -> None:
    err = refused(headrace, tmp_path, source, "where: id > 1")
    assert f"p.yaml:3:7: {said}" in err
    assert f"^ {add}" in err or f"^ save it as a file, and {add}" in err


@pytest.mark.parametrize(
    ("step", "at", "said", "add"),
    [
        (
            f"{COUNT}, window: {{tumble: 1m, time: processing}}",
            "window:",
            "--batch has no windows of processing time",
            "leave out time: processing",
        ),
        (
            f"{COUNT}, window: {{tumble: 1m, trigger: {{count: 2}}, accumulate: false}}",
            "window:",
            "--batch has no early firings without accumulated rows",
            "leave out accumulate: false",
        ),
        (
            f"{COUNT}, window: {{tumble: 1m, trigger: {{count: 2, at_end: false}}}}",
            "window:",
            "--batch has no windows that do not fire at their end",
            "leave out at_end: false",
        ),
        (
            f"{COUNT}, ttl: {{after: 1h, time: processing}}",
            "ttl:",
            "--batch has no ttl by processing time",
            "leave out time: processing",
        ),
        (
            "dedup: {key: id, ttl: 1h, time: processing}",
            "dedup:",
            "--batch has no ttl by processing time",
            "leave out time: processing",
        ),
    ],
)
def test_what_depends_on_when_rows_come_is_refused_at_its_key(
    headrace: Headrace, tmp_path: Path, step: str, at: str, said: str, add: str
) -> None:
    err = refused(headrace, tmp_path, BOUNDED, step)
    column = TEXT.splitlines()[4].index("STEP") + 1 + step.index(at)
    assert f'p.yaml:5:{column}: step "t": {said}' in err
    assert f"^ {add}" in err


@pytest.mark.parametrize(
    "window",
    [
        "global: true, trigger: {count: 2}",
        "session: 1m, trigger: {count: 2}",
        "slide: 2m, every: 1m, trigger: {every: 10s}",
        "tumble: 1m, trigger: {python: w.py:Own, of: id}",
        "session: 1m, trigger: {python: w.py:Own, of: id}",
        "global: true, trigger: {python: w.py:Waiting, of: id}",
    ],
)
def test_firings_that_depend_on_arrival_are_refused_whatever_fires(
    headrace: Headrace, tmp_path: Path, window: str
) -> None:
    (tmp_path / "w.py").write_text(TRIGGER, "utf-8")
    err = refused(headrace, tmp_path, BOUNDED, f"{COUNT}, window: {{{window}, accumulate: false}}")
    assert 'step "t": --batch has no early firings without accumulated rows' in err


@pytest.mark.parametrize(
    ("state", "what"),
    [("timer()", "timers"), ('value("bigint", ttl="1m")', "states with a ttl")],
)
def test_a_class_of_changes_whose_state_goes_by_time_is_refused(
    headrace: Headrace, tmp_path: Path, state: str, what: str
) -> None:
    code = f"from headrace import Process, timer, value\n\nclass C(Process):\n    s = {state}\n"
    methods = "".join(f"    def {name}: pass\n" for name in ("on_row(*_)", "on_timer(*_)"))
    (tmp_path / "c.py").write_text(code + methods, "utf-8")
    process = "process: {python: c.py:C, order: arrival, changes: true, returns: {id: int}}"
    err = refused(headrace, tmp_path, f"{BOUNDED}, table: {{key: id}}", f"key: id, {process}")
    assert (
        f"--batch passes the final table without the times of its changes, which {what} use" in err
    )
    assert f"^ run it without --batch, or leave the {what} out of the class" in err


def test_all_is_refused_at_once(headrace: Headrace, tmp_path: Path) -> None:
    err = refused(headrace, tmp_path, TOPIC, f"{COUNT}, ttl: {{after: 1h, time: processing}}")
    assert [line[:8] for line in err.splitlines() if line.startswith("p.yaml:")] == [
        "p.yaml:3",
        "p.yaml:5",
    ]


@pytest.mark.parametrize(
    "step",
    [
        f"{COUNT}, window: {{tumble: 1m, trigger: {{count: 2}}, lateness: 1h}}",
        f"{COUNT}, ttl: 1h",
        "dedup: {key: id}",
    ],
)
def test_what_goes_by_event_time_is_not_refused(
    headrace: Headrace, tmp_path: Path, step: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_text("{}\n")
    assert "pyspark is not installed" in refused(headrace, tmp_path, BOUNDED, step)
