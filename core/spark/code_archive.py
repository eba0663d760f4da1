"""Code archives for executors on other machines: headrace itself and the user's Python files.

Both are pure Python, so they run from archives. Packages that they import, above all Polars, must
be installed there: they are built for a platform, which may differ from the driver's.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.api.user_code import SHIPPED_PACKAGE
from headrace.core.plan import nodes
from headrace.core.plan.window_clauses import list_user_code

if TYPE_CHECKING:
    from pyspark import SparkContext

OWN_PACKAGES = ("core", "connectors", "state", "cli")


@contextmanager
def ship_code(context: SparkContext, plan: nodes.Plan, folder: Path) -> Iterator[None]:
    """Ship the code, so that executors can import it within the `with`.

    `folder` is the pipeline's.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-ship-") as made:
        own, users = Path(made, "headrace.zip"), Path(made, f"{SHIPPED_PACKAGE}.zip")
        write_archive(own, find_own_files())
        context.addPyFile(str(own))
        if files := dict(find_user_files(plan, folder)):
            write_archive(users, files.items())
            context.addArchive(f"{users}#{SHIPPED_PACKAGE}")
        yield


def find_user_files(plan: nodes.Plan, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the Python files that the plan names, and all modules in their folders."""
    for parent in {(folder / file).resolve().parent for file in _python_files(plan)}:
        yield from _find_modules(parent, os.path.relpath(os.path.abspath(parent), "/"))
    for file in _python_files(plan):
        path = Path(os.path.abspath(folder / file))
        yield str(path.relative_to("/")), path


def _python_files(plan: nodes.Plan) -> set[str]:
    operations = [each for part in plan if isinstance(part, nodes.Step) for each in part.operations]
    of_windows = {code.file for each in operations for code in list_user_code(each)}
    of_classes = {body.file for each in operations if (body := nodes.find_process_body(each))}
    of_maps = {each.file for each in operations if isinstance(each, nodes.Map)}
    return of_windows | of_classes | of_maps


def find_own_files() -> Iterator[tuple[str, Path]]:
    """Yield all files of headrace, with their names in an archive."""
    yield "headrace/__init__.py", Path(str(importlib.import_module("headrace").__file__))
    for name in OWN_PACKAGES:
        package = importlib.import_module(f"headrace.{name}")
        yield from _find_package_files(Path(str(package.__file__)).parent, f"headrace/{name}")


def _find_modules(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Yield the modules and packages of a folder, and none of its other files."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" and path.is_file():
            yield f"{name}/{path.name}", path
        elif (path / "__init__.py").is_file():
            yield from _find_package_files(path, f"{name}/{path.name}")


def _find_package_files(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield f"{name}/{path.relative_to(folder).as_posix()}", path


def write_archive(archive: Path, files: Iterable[tuple[str, Path]]) -> None:
    """Write an archive that Python can import from."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, path in files:
            packed.write(path, name)
