"""What older versions have stored is resumed from: homes, checkpoints and savepoints of commits.

`stored/` has the working directories of jobs that were stopped or killed, as `stored/write.py` left
them with the code of that time. Nothing that is stored may depend on what is called how in the code
of today, so these run for ever; they are never written again.
"""

from __future__ import annotations

import gzip
import json
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.checkpoint.manifest import describe_parts
from headrace.core.plan.fingerprint import build_fingerprints
from headrace.core.state_reader.reader_metadata import build_reader_metadata
from tests.recovery.stored.site import (
    HERE,
    PIPELINES,
    STORED,
    Final,
    Row,
    Stored,
    drain,
    feed,
    final,
    has_read,
    lay_out,
    newest,
    parts,
)
from tests.support.cli.command_line import Headrace

KINDS = ("memory", "rocksdb", "pending", "savepoint")


def left(folder: Path, stored: Stored, kind: str) -> tuple[set[Path], Counter[str]]:
    """The job as it was left, with the input that comes then.

    Gives the parts that are visible, and how many rows each source has in the end.
    """
    with tarfile.open(HERE / stored.name / f"{kind}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    lay_out(folder, stored)
    rows: Counter[str] = Counter()
    for what in (*(what for phase in stored.before for what in phase), *stored.after):
        feed(folder, what, rows)
    return parts(folder), rows


@contextmanager
def drained_behind(has_come: Callable[[], bool], end: Callable[[], None]) -> Iterator[None]:
    """Have the run that begins now ended once that is so."""
    over = threading.Event()

    def wait() -> None:
        while not over.wait(0.02):
            if has_come():
                end()
                return

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        yield
    finally:
        over.set()
        waiting.join()


@contextmanager
def ended(folder: Path, stored: Stored, rows: Counter[str]) -> Iterator[None]:
    """Have the run that begins now drained once a checkpoint has read that many rows.

    One that reads no files ends by itself.
    """
    if not stored.sources:
        yield
        return
    with drained_behind(
        lambda: has_read(newest(folder, stored), rows), lambda: drain(folder, stored)
    ):
        yield


def sinks(stored: Stored) -> list[str]:
    """The names of the sinks."""
    return [*yaml.safe_load((PIPELINES / f"{stored.name}.yaml").read_text())["sinks"]]


def expected(stored: Stored) -> Final:
    """What the output comes to where nothing is stopped, by the code of that time."""
    found: Any = json.loads(gzip.decompress((HERE / stored.name / "expected.json.gz").read_bytes()))
    return dict(found)


def difference(found: list[Row], wanted: list[Row]) -> tuple[list[str], list[str]]:
    """The rows that are too many, and those that are missing."""
    one, other = Counter(map(repr, found)), Counter(map(repr, wanted))
    return [*(one - other).elements()], [*(other - one).elements()]


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.name)
def test_a_checkpoint_says_of_a_plan_what_it_said(tmp_path: Path, stored: Stored) -> None:
    """Byte for byte: texts, names of kinds and fields, and their order."""
    left(tmp_path, stored, "pending")
    was = newest(tmp_path, stored)
    plan = check_pipeline(str(tmp_path / f"{stored.name}.yaml"), stored.waits).plan
    assert plan is not None
    now = {
        "parts": {name: part.to_document() for name, part in describe_parts(plan).items()},
        "kept": {step: each.to_document() for step, each in build_fingerprints(plan).items()},
        "readings": build_reader_metadata(plan),
    }
    for name, texts in now.items():
        assert lines(_without(texts, stored)) == lines(_without(was[name], stored))


def _without(texts: dict[str, Any], stored: Stored) -> dict[str, Any]:
    """The texts without those of steps that are described otherwise now."""
    return {part: texts[part] for part in texts if part not in stored.described_otherwise}


def lines(texts: object) -> list[str]:
    """The texts as they are stored, for people to compare."""
    return json.dumps(json.loads(json.dumps(texts)), indent=1, ensure_ascii=False).splitlines()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.name)
def test_what_was_stored_is_resumed_from(headrace: Headrace, stored: Stored, kind: str) -> None:
    folder = Path()
    visible, rows = left(folder, stored, kind)
    backend = "memory" if kind == "memory" else "rocksdb"
    saved: tuple[str, ...] = ()
    values: tuple[str, ...] = (*stored.waits, *stored.at_once, f"settings.state.backend={backend}")
    if kind == "savepoint":
        values = (*values, *(f"sinks.{name}.files.mode=append" for name in sinks(stored)))
        saved = ("--from-savepoint", "saved")
    words = [word for value in values for word in ("--set", value)]
    with ended(folder, stored, rows):
        ran = headrace("run", f"{stored.name}.yaml", *saved, *words)
    assert ran.status == 0, ran.err
    found = json.loads(json.dumps(final(folder, stored, visible)))
    wanted = expected(stored)
    assert found.keys() == wanted.keys(), ran.err
    wrong = {sink: difference(found[sink], rows) for sink, rows in wanted.items()}
    assert not {sink: each for sink, each in wrong.items() if each != ([], [])}
