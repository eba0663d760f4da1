"""Going on from a savepoint: in the home of the job, in another one, and from an old one."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import stop_behind
from tests.support.paths import SAVEPOINT_V1

ROWS = 30_000
PIPELINE = f"""\
name: stopped
settings: {{parallelism: 2, key_groups: 16, checkpoint: {{every: 100ms}}}}
sources:
  numbers: {{generate: {{rows: {ROWS}, rate: 10000/s, columns: {{x: id}}}}}}
steps:
  totals: {{from: numbers, key: {{k: x % 7}}, aggregate: {{n: count(*), s: sum(x)}}}}
sinks:
  out: {{from: numbers, files: {{path: out}}}}
  totals_out: {{from: totals, files: {{path: totals}}}}
"""
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")
FINAL = {k: (len(range(k, ROWS, 7)), sum(range(k, ROWS, 7))) for k in range(7)}
HOME = Path(".headrace/stopped")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that was stopped on its way, and a savepoint of an older checkpoint of it, moved."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "p.yaml").write_text(PIPELINE)
    stop_behind(folder, 4)
    return folder


def rows(folder: str) -> Iterator[dict[str, object]]:
    """What is visible there, part by part."""
    for part in sorted(Path(folder).glob("part-*")):
        yield from map(json.loads, part.read_text().splitlines())


def numbers() -> Counter[object]:
    """How often each number was written."""
    return Counter(row["x"] for row in rows("out"))


def last_totals(*folders: str) -> dict[object, tuple[object, object]]:
    """The greatest total of each key."""
    found: dict[object, tuple[object, object]] = {}
    for row in (row for folder in folders for row in rows(folder)):
        total = (row["n"], row["s"])
        found[row["k"]] = max(found.get(row["k"], total), total)
    return found


def checkpoints() -> list[int]:
    """The job's checkpoints."""
    return sorted(int(path.stem) for path in HOME.glob("checkpoints/manifests/*.json"))


def exported(job: Headrace, what: str = "stopped", *, to: str = "moved/savepoint") -> str:
    """A savepoint, moved to a path of its own."""
    ran = job("state", "export", what)
    assert ran.status == 0, ran.err
    path = Path(ran.out.strip())
    assert path.parent == Path(".headrace/@savepoints/stopped")
    Path(to).parent.mkdir(exist_ok=True)
    path.rename(to)
    return to


def test_a_checkpoint_is_exported_by_all_its_names(job: Headrace, tmp_path: Path) -> None:
    oldest, *_, newest = checkpoints()
    whats = {"stopped": newest, "p.yaml": newest, f"p.yaml@{oldest}": oldest}
    for place, (what, number) in enumerate(whats.items()):
        ran = job("state", "export", what, "--to", f"in/{place}")
        assert (ran.status, ran.out) == (0, f"in/{place}\n"), ran.err
        assert json.loads(Path(f"in/{place}/savepoint.json").read_bytes())["number"] == number
    ran = job("state", "export", "stopped", "--to", "in/0")
    assert (ran.status, "in/0 is a savepoint" in ran.err) == (3, True)
    ran = job("state", "export", "stopped", "--to", "p.yaml")
    assert (ran.status, "p.yaml is a file\n" in ran.err) == (3, True)
    assert sorted(path.name for path in Path("in").iterdir()) == ["0", "1", "2"]


@pytest.mark.parametrize("to", ["", "foo://x/y"])
def test_a_place_that_is_none_is_a_wrong_command_line(job: Headrace, to: str) -> None:
    ran = job("state", "export", "stopped", "--to", to)
    assert (ran.status, ran.out, "wanted " in ran.err) == (2, "", True), ran.err


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nothing", 'there is no job "nothing" in .headrace'),
        ("stopped@99", "stopped has no checkpoint 99\n      the checkpoints are "),
        ("moved/savepoint", "moved/savepoint is a savepoint already"),
    ],
)
def test_failed_exports_are_reported(job: Headrace, what: str, message: str) -> None:
    exported(job)
    ran = job("state", "export", what)
    assert (ran.status, ran.out, message in ran.err) == (2, "", True), ran.err


@pytest.mark.parametrize("parallelism", ["1", "3"])
def test_another_home_resumes_from_a_moved_savepoint(job: Headrace, parallelism: str) -> None:
    path, before = exported(job), numbers()
    assert 0 < len(before) < ROWS
    shutil.rmtree(".headrace")
    for folder in ("out", "totals"):
        Path(folder).rename(f"before-{folder}")
    ran = job("run", "p.yaml", "--from-savepoint", path, "--parallelism", parallelism, *AT_ONCE)
    assert ran.status == 0, ran.err
    assert f"resumed from savepoint {path} of 20" in ran.err
    assert "removed" not in ran.err
    assert before + numbers() == Counter(range(ROWS))
    assert last_totals("totals", "before-totals") == FINAL


def test_the_same_home_goes_back(job: Headrace) -> None:
    oldest, *newer = checkpoints()
    path, before = exported(job, f"stopped@{oldest}"), numbers()
    ran = job("run", "p.yaml", "--from-savepoint", path, *AT_ONCE)
    assert ran.status == 0, ran.err
    gone = ", ".join(map(str, newer))
    assert f"checkpoint{'s' * (len(newer) > 1)} {gone} " in ran.err
    twice = {number for number, times in numbers().items() if times == 2}
    assert f"rows are written a second time: up to {len(twice):,} of out, " in ran.err
    assert set(numbers().values()) == {1, 2}
    assert twice < before.keys()
    assert last_totals("totals") == FINAL


def test_a_home_of_another_job_is_taken_over(job: Headrace) -> None:
    path = exported(job)
    document = Path(path, "savepoint.json").read_text()
    there = json.loads((HOME / "checkpoints/job.json").read_text())["job"]
    # As if the home were that of another job of that name.
    shutil.rmtree(".headrace")
    Path("out").rename("before-out")
    shutil.rmtree("totals")
    Path("p.yaml").rename("q.yaml")
    stop_behind_of_another_job()
    shutil.rmtree("out")
    shutil.rmtree("totals")
    count = len(checkpoints())
    ran = job("run", "q.yaml", "--from-savepoint", path, *AT_ONCE)
    assert ran.status == 0, ran.err
    assert f"this is a new job: the {count} checkpoints of the previous job are removed" in ran.err
    assert there in document
    assert last_totals("totals") == FINAL


def stop_behind_of_another_job() -> None:
    """A job of the same name, stopped in this folder."""
    Path("p.yaml").write_text(PIPELINE)
    stop_behind(Path.cwd(), 2)


def modes(mode: str) -> tuple[str, ...]:
    """The arguments that give all sinks this mode."""
    sinks = ("out", "totals_out")
    return tuple(each for s in sinks for each in ("--set", f"sinks.{s}.files.mode={mode}"))


def test_what_was_written_before_a_savepoint_is_never_replaced(job: Headrace) -> None:
    path = exported(job)
    shutil.rmtree(".headrace")
    before, shown = tree(), numbers()
    ran = job("run", "p.yaml", "--from-savepoint", path, *modes("overwrite"), *AT_ONCE)
    assert (ran.status, "out: out holds output of another run: part-" in ran.err) == (3, True)
    assert "--set sinks.out.files.mode=append writes next to it" in ran.err
    assert tree() == before
    # Other files in its folder stay, although the file says overwrite when the job resumes.
    stop_behind(Path.cwd(), 3, "--from-savepoint", path, *modes("append"))
    assert shown < numbers() < Counter(range(ROWS))
    ran = job("run", "p.yaml", *modes("overwrite"), *AT_ONCE)
    assert ran.status == 0, ran.err
    assert numbers() == Counter(range(ROWS))
    assert last_totals("totals") == FINAL


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (("x % 7", "x % 6"), 3, "savepoint moved/savepoint is not compatible: the state of totals"),
        (("key_groups: 16", "key_groups: 8"), 3, "it has 16 key groups, and the pipeline 8"),
        (("path: out", "path: totals/x"), 0, ""),
    ],
)
def test_a_savepoint_that_does_not_fit_leaves_the_home_as_it_is(
    job: Headrace, change: tuple[str, str], status: int, message: str
) -> None:
    path, before = exported(job), tree()
    Path("p.yaml").write_text(PIPELINE.replace(*change))
    ran = job("run", "p.yaml", "--from-savepoint", path, *AT_ONCE)
    assert (ran.status, message in ran.err) == (status, True), ran.err
    assert "--fresh" not in ran.err.partition("does not fit")[2]
    if status:
        assert tree() == before


def tree() -> dict[str, bytes]:
    """All that the home and the output have, but for the lock."""
    found = [*HOME.rglob("*"), *Path("out").rglob("*")]
    files = (path for path in found if path.is_file() and path.name != "lock")
    return {str(path): path.read_bytes() for path in files}


def test_a_damaged_savepoint_leaves_the_home_as_it_is(job: Headrace) -> None:
    path = exported(job)
    file = next(Path(path).rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[::-1])
    before = tree()
    ran = job("run", "p.yaml", "--from-savepoint", path, *AT_ONCE)
    assert (ran.status, f"{file} is damaged" in ran.err) == (3, True), ran.err
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 0, ran.err
    assert set(before) - set(tree()) <= {name for name in before if name.startswith(str(HOME))}
    assert numbers() == Counter(range(ROWS))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from-savepoint", "nothing"), "there is no savepoint nothing"),
        (("--from-savepoint", "p.yaml"), "p.yaml: wanted the folder of a savepoint, got a file\n"),
        (("--from-savepoint", "http://x/y"), "az://container/path, got http://x/y\n"),
        (("--from-savepoint", "moved", "--fresh"), "got --from-savepoint and --fresh"),
        (("--from-savepoint", "moved", "--from-checkpoint", "1"), "and --from-checkpoint"),
        (("--from-savepoint", "moved", "--limit", "1"), "a run with --limit or of standard input"),
    ],
)
def test_wrong_arguments_are_refused(
    job: Headrace, arguments: tuple[str, ...], message: str
) -> None:
    before = tree()
    ran = job("run", "p.yaml", *arguments)
    assert (ran.status, message in ran.err) == (2, True), ran.err
    assert tree() == before


def test_a_file_of_a_savepoint_is_refused_with_a_hint_of_its_folder(headrace: Headrace) -> None:
    shutil.copy(SAVEPOINT_V1 / "v1.yaml", "v1.yaml")
    file = SAVEPOINT_V1 / "v1" / "savepoint.json"
    ran = headrace("run", "v1.yaml", "--from-savepoint", str(file))
    assert (ran.status, f"it is in the savepoint {SAVEPOINT_V1 / 'v1'}\n" in ran.err) == (
        2,
        True,
    ), ran.err


def test_an_old_savepoint_can_be_resumed_from(headrace: Headrace) -> None:
    shutil.copy(SAVEPOINT_V1 / "v1.yaml", "v1.yaml")
    rate = ("--set", "sources.orders.generate.rate=10000000/s")
    ran = headrace("run", "v1.yaml", "--from-savepoint", str(SAVEPOINT_V1 / "v1"), *rate)
    assert ran.status == 0, ran.err
    assert "orders: 0/2x20 from 960, 1/2x20 from 980\n" in ran.err
    totals = {row["shop"]: (row["n"], row["revenue"]) for row in rows("totals")}
    assert totals == {f"shop {shop}": (400, sum(range(shop, 2000, 5)) / 100) for shop in range(5)}
    minutes = {(r["window_start"], r["shop"]): (r["n"], r["ids"]) for r in rows("minutes")}
    assert minutes == {
        (f"2026-01-01T00:0{minute}:00.000000Z", id % 3): (len(ids), ids)
        for minute in (1, 2, 3)
        for id in range(600 * minute, 600 * minute + 3)
        for ids in [list(range(id, min(600 * minute + 600, 2000), 3))]
    }
    best = sorted((str(row["id"]), row["rank"]) for row in rows("best"))
    ends = (end for last in (1000, 1500, 2000) for end in range(last - 4, last))
    assert best == sorted((str(id), 2 if id % 4 < 2 else 1) for id in ends)
    assert sorted(row["ten"] for row in rows("firsts")) == list(range(96, 200))  # type: ignore[type-var]


@pytest.mark.parametrize(
    "place", ["stopped", "stopped/state", "stopped/state/a/b", "stopped/mine", "other/renewed/a"]
)
def test_a_savepoint_in_a_home_is_refused(job: Headrace, place: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    ran = job("state", "export", "stopped", "--to", f".headrace/{place}")
    assert ran.status == 3, ran.err
    assert f".headrace/{place} is in the home of a job" in ran.err
    assert "without a name the savepoint is in .headrace/@savepoints/stopped" in ran.err
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
    assert job("state", "export", "stopped", "--to", "elsewhere/mine").status == 0
    assert job("state", "export", "stopped").status == 0


def test_a_link_into_a_home_is_refused_too(job: Headrace) -> None:
    Path("link").symlink_to(HOME / "state")
    assert job("state", "export", "stopped", "--to", "link/mine").status == 3


@pytest.mark.parametrize("name", ["state", "checkpoints"])
def test_a_job_called_savepoints_removes_no_savepoint(job: Headrace, name: str) -> None:
    """Neither of those of today, nor of those that an earlier version wrote there."""
    text = Path("p.yaml").read_text()
    Path("s.yaml").write_text(text.replace("name: stopped", "name: savepoints"))
    Path(f"{name}.yaml").write_text(text.replace("name: stopped", f"name: {name}"))
    limited = (*AT_ONCE, "--set", "sources.numbers.generate.rows=20")
    others = [f"--set=sinks.{sink}.files.path=other/{sink}" for sink in ("out", "totals_out")]
    HOME.rename(f".headrace/{name}")
    ran = job("state", "export", name)
    assert ran.status == 0, ran.err
    taken = Path(ran.out.strip())
    assert taken.parent == Path(f".headrace/@savepoints/{name}")
    assert job("run", "s.yaml", *limited, *others).status == 0
    assert (taken / "savepoint.json").exists()

    former = Path(f".headrace/savepoints/{name}")
    former.mkdir(parents=True, exist_ok=True)
    former = taken.rename(former / taken.name)
    ran = job("run", "s.yaml", *limited, *others)
    assert ran.status == 3, ran.err
    assert f"{former.absolute()} is a savepoint, and this run would remove it" in ran.err
    assert f"move it away: mv {former.absolute()} {Path.cwd()}/;" in ran.err
    assert job("state", "ls", str(former)).status == 0
    assert str(former) in job("state", "ls").out
    former.rename(former.name)
    ran = job("run", "s.yaml", *limited, "--set=sinks.out.files.mode=append", "--fresh")
    assert "is a savepoint" not in ran.err
    assert job("state", "ls", former.name).status == 0


def test_an_old_home_of_a_job_called_savepoints_is_resumed(job: Headrace) -> None:
    text = Path("p.yaml").read_text()
    Path("p.yaml").write_text(text.replace("name: stopped", "name: savepoints"))
    HOME.rename(".headrace/savepoints")
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 0, ran.err
    assert numbers() == Counter(range(ROWS))
