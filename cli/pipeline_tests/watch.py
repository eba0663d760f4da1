"""`headrace test --watch`: runs the tests again when a file changes that they depend on."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypeAlias

import click

from headrace.cli.errors import print_error
from headrace.cli.pipeline_tests.checked_tests import find_suites
from headrace.core.api.user_code import forget_modules
from headrace.core.errors.rendering import format_count

POLL_S = 0.5
CODE_SUFFIXES = (".yaml", ".yml", ".py", ".sql")
"""The suffixes of files that count wherever they are in the folder of a pipeline."""
NAMED_FILE = re.compile(rb"[\w./-]+\.(?:csv|jsonl?|ndjson|parquet|sql|py)\b")
"""A path in a pipeline or a test: of rows, of a query, of code."""

FileStates: TypeAlias = Mapping[str, tuple[int, int]]
"""The time of the last write and the size of each file."""


def watch_tests(paths: Iterable[str], run: Callable[[], object]) -> NoReturn:
    """Run the tests, and again after each change of their files, until Ctrl-C."""
    paths = tuple(paths)
    while True:
        before = read_states(paths)
        click.clear()  # of a terminal only
        forget_modules()
        try:
            run()
        except (click.ClickException, OSError) as error:
            print_error(error)
        click.echo(f"watching {format_count(len(before), 'file')}, Ctrl-C ends", err=True)
        while (now := read_states(paths)) == before:
            time.sleep(POLL_S)
        while (before := now) != (now := _wait_and_read(paths)):
            pass  # something is still being written


def _wait_and_read(paths: Iterable[str]) -> FileStates:
    time.sleep(POLL_S)
    return read_states(paths)


def read_states(paths: Iterable[str]) -> FileStates:
    """Return the states of all files on which the tests of these paths depend."""
    states = dict[str, tuple[int, int]]()
    for path in dict.fromkeys(_list_files(paths)):
        with suppress(OSError):
            found = os.stat(path)
            states[path] = (found.st_mtime_ns, found.st_size)
    return states


def _list_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield pipelines, their tests, the files that these name, and code in their folders."""
    paths = tuple(paths)
    yield from (path for path in paths if not os.path.isdir(path))
    folders = dict.fromkeys(path for path in paths if os.path.isdir(path))
    for suite in find_suites([path for path in paths if os.path.exists(path)]):
        for file in (suite.pipeline, *(str(each.path) for each in suite.files)):
            folders.setdefault(os.path.dirname(file) or ".")
            yield file
            yield from _list_named_files(Path(file))
    for folder in folders:
        yield from _list_code(folder)


def _list_named_files(file: Path) -> Iterator[str]:
    """Yield the files that a pipeline or a test names."""
    with suppress(OSError):
        for name in NAMED_FILE.findall(file.read_bytes()):
            yield os.path.normpath(file.parent / os.fsdecode(name))


def _list_code(folder: str) -> Iterator[str]:
    """Yield code and pipelines in a folder and below it, without hidden folders."""
    for inner, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith((".", "__"))]
        yield from (
            os.path.normpath(f"{inner}/{name}") for name in names if name.endswith(CODE_SUFFIXES)
        )
