"""The number of workers of `workers: auto`, by pipeline, input and machine."""

from pathlib import Path

import orjson
import pytest

from headrace.connectors.registry import REGISTRY
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.pipeline.model import Pipeline
from headrace.core.pipeline.parallelism import set_parallelism, set_workers
from headrace.core.pipeline.worker_choice import SMALL_INPUT_BYTES
from tests.support.cli.command_line import Headrace

AUTO = "workers: auto"
FILES = "{files: {path: in}, schema: {n: bigint}}"
FILTER = "where: n > 0"
MAP = "map: {python: 'u.py:f', returns: {n: bigint}, mode: row}"
PROCESSORS = 8


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pipeline with a large input, on a machine with many processors."""
    _set_processors(monkeypatch, PROCESSORS)
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "a.json").open("wb") as file:
        file.truncate(SMALL_INPUT_BYTES)
    (tmp_path / "u.py").write_text("def f(row):\n    return row\n")
    return tmp_path


def _set_processors(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("headrace.core.pipeline.worker_choice.count_processors", lambda: count)


def _load(folder: Path, step: str, source: str = FILES, settings: str = AUTO) -> Pipeline:
    path = folder / "p.yaml"
    path.write_text(
        "name: auto\n"
        f"settings: {{{settings}}}\n"
        f"sources:\n  n: {source}\n"
        f"steps:\n  s: {{from: n, {step}}}\n"
        "sinks:\n  out: {from: s, files: {path: out}}\n"
    )
    return load_pipeline(path, REGISTRY).pipeline


def _choose(folder: Path, step: str, source: str = FILES, settings: str = AUTO) -> tuple[int, str]:
    choice = _load(folder, step, source, settings).worker_choice
    assert choice is not None
    return choice.count, choice.reason


@pytest.mark.parametrize(
    ("settings", "counts", "wanted"),
    [
        ("workers: 2", [3, 1, 4], [2, 3, 1, 4]),
        ("workers: 1", [3], [1, 3]),
        ("workers: 2, key_groups: 3", [8], [2, 3]),
        ("workers: 2, parallelism: 6", [3, 4], [6, 6, 6]),
    ],
)
def test_a_parallelism_that_was_not_set_follows_the_workers(
    folder: Path, settings: str, counts: list[int], wanted: list[int]
) -> None:
    pipelines = [_load(folder, FILTER, settings=settings)]
    pipelines += [set_workers(pipelines[0], count) for count in counts]
    assert [each.settings.parallelism for each in pipelines] == wanted
    chosen = set_parallelism(pipelines[0], 5, {})
    assert set_workers(chosen, 2).settings.parallelism == 5


@pytest.mark.parametrize(
    ("step", "processors", "wanted"),
    [
        (FILTER, 8, (4, "8 processors; one worker uses 2 of them")),
        (FILTER, 2, (1, "2 processors; one worker uses 2 of them")),
        (MAP, 8, (8, "8 processors; s runs your Python")),
        (MAP.replace("row", "batch"), 8, (4, "8 processors; one worker uses 2 of them")),
        (MAP, 1, (1, "there is one processor")),
    ],
)
def test_python_gets_all_processors_and_expressions_half_of_them(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    processors: int,
    wanted: tuple[int, str],
) -> None:
    _set_processors(monkeypatch, processors)
    assert _choose(folder, step) == wanted


def test_a_small_input_is_read_by_one_process_unless_it_grows(folder: Path) -> None:
    (folder / "in" / "a.json").write_text('{"n": 1}\n')
    count, reason = _choose(folder, MAP)
    assert count == 1
    assert reason.startswith("the input has about 9 B")
    assert _choose(folder, MAP, FILES.replace("path: in", "path: in, watch: 1s"))[0] == PROCESSORS


def test_the_rows_of_generate_are_an_input(folder: Path) -> None:
    columns = "columns: {n: id}"
    assert _choose(folder, MAP, f"{{generate: {{{columns}, rows: 1000}}}}")[0] == 1
    assert _choose(folder, MAP, f"{{generate: {{{columns}, rows: 100M}}}}")[0] == PROCESSORS
    assert _choose(folder, MAP, f"{{generate: {{{columns}}}}}")[0] == PROCESSORS


def test_no_more_workers_than_subtasks_of_a_part(folder: Path) -> None:
    assert _choose(folder, MAP, settings=f"{AUTO}, parallelism: 3") == (
        3,
        "parallelism is at most 3",
    )
    step = f"{MAP}, parallelism: 5"
    assert _choose(folder, step, settings=f"{AUTO}, parallelism: 3")[0] == 5
    assert _choose(folder, f"{MAP}, slot: s", settings=f"{AUTO}, parallelism: 2") == (
        4,
        "parallelism is at most 4 in 2 slots together",
    )


def test_an_input_that_cannot_be_read_again_has_no_workers(folder: Path) -> None:
    count, reason = _choose(folder, MAP, "{stdin: {}, schema: {n: bigint}}")
    assert count == 1
    assert "n cannot be read again" in reason


def test_the_parallelism_follows_the_choice(folder: Path) -> None:
    settings = _load(folder, MAP).settings
    assert (settings.workers, settings.parallelism) == (PROCESSORS, PROCESSORS)
    assert _load(folder, MAP, settings="workers: 2").worker_choice is None


def test_a_missing_input_is_left_to_the_run(folder: Path) -> None:
    assert _choose(folder, MAP, FILES.replace("path: in", "path: gone"))[0] == 1


def test_explain_says_what_was_chosen_and_why(folder: Path, headrace: Headrace) -> None:
    _load(folder, MAP)
    reason = "parallelism is at most 3"
    arguments = ["explain", str(folder / "p.yaml"), "--set", "settings.parallelism=3"]
    assert f"workers: 3 (auto: {reason})" in headrace(*arguments).out
    document = orjson.loads(headrace(*arguments, "--format", "json").out)
    assert (document["workers"]["count"], document["workers"]["reason"]) == (3, reason)
