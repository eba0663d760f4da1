"""A checkpoint that is not as it was written: which file, what instead, and nothing is changed."""

import hashlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from headrace.core.api.snapshots import find_blobs
from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import stop_behind

ROWS = 60_000
PIPELINE = f"""\
name: damaged
settings: {{checkpoint: {{every: 100ms}}, state: {{backend: BACKEND}}}}
sources:
  numbers: {{generate: {{rows: {ROWS}, rate: 10000/s, columns: {{x: id}}}}}}
steps:
  totals: {{from: numbers, key: {{k: x % 11}}, window: {{count: 10000}}, aggregate: {{n: sum(x)}}}}
sinks:
  kept: {{from: numbers, files: {{path: kept}}}}
  totals_out: {{from: totals, files: {{path: totals}}}}
"""
HERE = Path()
CHECKPOINTS = Path(".headrace/damaged/checkpoints")
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")


@pytest.fixture(scope="module", params=["memory", "rocksdb"])
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that was stopped on its way, with several checkpoints."""
    folder = tmp_path_factory.mktemp(str(request.param))
    (folder / "p.yaml").write_text(PIPELINE.replace("BACKEND", str(request.param)))
    stop_with_new_rows(folder)
    return folder


def stop_with_new_rows(folder: Path) -> None:
    """Stop a job on its way, with several checkpoints, of which the newest has new rows."""
    stop_behind(folder, 5)
    # It may have been stopped before any row came after the checkpoint.
    while not own_blobs(folder):
        stop_behind(folder, numbers(folder)[-1] + 1)


def numbers(folder: Path = HERE) -> list[int]:
    """Of which checkpoints there are manifests."""
    return sorted(int(path.stem) for path in (folder / CHECKPOINTS / "manifests").iterdir())


def blobs(number: int, folder: Path = HERE) -> set[str]:
    """The names of all blobs of a checkpoint."""
    path = folder / CHECKPOINTS / "manifests" / f"{number}.json"
    return {blob.hash for blob in find_blobs(json.loads(path.read_bytes()))}


def own_blobs(folder: Path = HERE) -> set[str]:
    """Return the names of the blobs that only the newest checkpoint needs."""
    older, newest = numbers(folder)[-2:]
    return blobs(newest, folder) - blobs(older, folder)


def bytes_of_all() -> dict[str, str]:
    """A hash of every file, but for the lock."""
    paths = (path for path in Path().rglob("*") if path.is_file() and path.name != "lock")
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flipped(path: Path) -> None:
    """One bit of it is another."""
    data = bytearray(path.read_bytes())
    at = Random(len(data)).randrange(len(data))
    data[at] ^= 1 << at % 8
    path.write_bytes(data)


def counted() -> Counter[int]:
    """How often each number was written."""
    parts = Path("kept").glob("part-*")
    return Counter(json.loads(line)["x"] for p in parts for line in p.read_text().splitlines())


@pytest.mark.parametrize("damage", [cut_short, flipped, Path.unlink])
@pytest.mark.parametrize("kind", ["manifest", "blob"])
def test_what_is_damaged_is_named_and_a_whole_checkpoint_offered(
    job: Headrace, kind: str, damage: object
) -> None:
    if kind == "manifest" and damage is Path.unlink:
        pytest.skip("then that checkpoint is simply not there")
    older, newest = numbers()[-2:]
    path = CHECKPOINTS / "manifests" / f"{newest}.json"
    if kind == "blob":
        path = CHECKPOINTS / "blobs" / min(own_blobs())
    assert callable(damage)
    damage(path)
    before = bytes_of_all()
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert f"{path} is damaged: " in ran.err
    assert f"--from-checkpoint {older} resumes from it" in ran.err
    assert bytes_of_all() == before


def test_the_offered_checkpoint_resumes_and_reports_repeated_output(job: Headrace) -> None:
    older, newest = numbers()[-2:]
    written = sum(counted().values())
    cut_short(CHECKPOINTS / "blobs" / min(own_blobs()))
    ran = job("run", "p.yaml", "--from-checkpoint", str(older), *AT_ONCE)
    assert ran.status == 0, ran.err
    warning = re.search(
        rf"checkpoint {newest} is removed; .* second time: up to ([\d,]+) of kept", ran.err
    )
    assert warning, ran.err
    twice = int(warning[1].replace(",", ""))
    assert counted() == Counter(range(ROWS)) + Counter(range(written - twice, written))
    assert not list(CHECKPOINTS.rglob("*.json"))


def test_one_that_is_damaged_itself_takes_no_newer_one_with_it(job: Headrace) -> None:
    older, newest = numbers()[0], numbers()[-1]
    own = blobs(older) - blobs(newest)  # memory may keep all of it
    path = CHECKPOINTS / "blobs" / min(own) if own else CHECKPOINTS / f"manifests/{older}.json"
    cut_short(path)
    before = bytes_of_all()
    ran = job("run", "p.yaml", "--from-checkpoint", str(older))
    assert ran.status == 3, ran.err
    assert f"--from-checkpoint {newest} resumes from it" in ran.err
    assert bytes_of_all() == before
    assert job("run", "p.yaml", *AT_ONCE).status == 0
    assert counted() == Counter(range(ROWS))


def test_a_checkpoint_that_is_not_there_is_refused_with_those_that_are(job: Headrace) -> None:
    ran = job("run", "p.yaml", "--from-checkpoint", "1000")
    assert ran.status == 3
    assert "there is no checkpoint 1000" in ran.err
    assert f"the checkpoints are {', '.join(map(str, numbers()))}" in ran.err


def test_fresh_starts_whatever_is_damaged(job: Headrace) -> None:
    for path in CHECKPOINTS.rglob("*"):
        if path.is_file():
            cut_short(path)
    assert job("run", "p.yaml").status == 3
    shutil.rmtree("kept")
    ran = job("run", "p.yaml", "--fresh", *AT_ONCE)
    assert ran.status == 0, ran.err
    assert counted() == Counter(range(ROWS))
