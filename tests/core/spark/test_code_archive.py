"""Code archives for executors on other machines."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from headrace.connectors.registry import REGISTRY
from headrace.core.api.user_code import SHIPPED_PACKAGE, UserCodeError, load_function, locate_file
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.spark.code_archive import find_own_files, find_user_files, write_archive

PIPELINE = """\
name: p
sources:
  ids: {generate: {rows: 3, columns: {x: id}}}
steps:
  mapped: {from: ids, map: {python: code/f.py:f, returns: {x: bigint}}}
sinks:
  out: {from: mapped, files: {path: out}}
"""


def test_headrace_is_imported_from_its_archive(tmp_path: Path) -> None:
    archive = tmp_path / "headrace.zip"
    write_archive(archive, find_own_files())
    code = "import headrace.core.errors.problems as p, headrace.connectors as c; print(p.__file__)"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith(f"{archive}/")


def test_public_names_are_imported_from_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "headrace.zip"
    write_archive(archive, find_own_files())
    code = "from headrace import Aggregate, Process; import headrace; print(headrace.__file__)"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{archive}{os.pathsep}{sysconfig.get_path('purelib')}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"{archive}/headrace/__init__.py\n"


def test_a_users_file_comes_with_what_it_can_import_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    for name in ("f.py", "beside.py", "pkg/__init__.py", "pkg/data.json", "no/g.py", "big.csv"):
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("def f(rows): return rows\n")
    (tmp_path / "other.py").write_text("")
    plan, _ = build_plan(load_pipeline(str(tmp_path / "p.yaml"), REGISTRY))
    assert plan is not None
    found = {
        path.relative_to(tmp_path / "code").as_posix()
        for _, path in find_user_files(plan, tmp_path)
    }
    assert found == {"f.py", "beside.py", "pkg/__init__.py", "pkg/data.json"}


def test_a_file_that_is_not_there_is_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there" / "f.py"
    copy = tmp_path / "files" / SHIPPED_PACKAGE / there.relative_to("/")
    copy.parent.mkdir(parents=True)
    copy.write_text("def f(): return 7\n")
    assert locate_file(there) == there
    monkeypatch.syspath_prepend(tmp_path / "files")
    assert locate_file(there) == copy and load_function(there, "f")() == 7
    with pytest.raises(UserCodeError, match="has no function"):
        load_function(there, "g")


def test_an_archive_holds_each_file_once(tmp_path: Path) -> None:
    archive = tmp_path / "headrace.zip"
    write_archive(archive, find_own_files())
    names = zipfile.ZipFile(archive).namelist()
    assert len(names) == len(set(names)) and "headrace/core/types/data_types.py" in names
