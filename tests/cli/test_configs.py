"""Every pipeline that ships runs, and gives the same rows at any parallelism."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from docs.snippets import ROOT
from tests.cli.ran import Headrace

CONFIGS = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))

Rows = Counter[tuple[object, ...]]


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    """A copy of the folder, because pipelines write beside it."""
    copied = tmp_path / "site" / "configs"
    shutil.copytree(ROOT / "configs", copied)
    return copied


def rows_of(headrace: Headrace, configs: Path, name: str, parallelism: int) -> Rows:
    ran = headrace("run", str(configs / name), "--parallelism", str(parallelism))
    assert ran.status == 0, ran.err
    rows: Rows = Counter(("console", *line.split()) for line in ran.out.splitlines())
    output = configs.parent / "build"
    for path in output.rglob("*"):
        if path.is_file():
            folder = path.parent.relative_to(output).as_posix()
            rows.update((folder, *row) for row in written(path))
    return rows


def written(path: Path) -> Iterator[tuple[object, ...]]:
    """The rows of a file; when a dead letter was written is not part of it."""
    match path.suffix:
        case ".jsonl":
            for line in path.read_text("utf-8").splitlines():
                row = json.loads(line)
                if "raw" in row:
                    del row["at"]
                yield tuple(row.items())
        case ".csv":
            yield from ((line,) for line in path.read_text("utf-8").splitlines()[1:])
        case ".parquet":
            yield from pl.read_parquet(path).rows()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_gives_the_same_rows_at_any_parallelism(
    headrace: Headrace, configs: Path, name: str
) -> None:
    rows = rows_of(headrace, configs, name, 1)
    assert rows.total() > 5
    assert rows_of(headrace, configs, name, 3) == rows
