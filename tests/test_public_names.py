"""The names that user code imports from `headrace`, and the old paths of these names."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.cli.pipeline_file import check_pipeline
from headrace.core.errors.old_imports import OLD_PATHS, find_old_imports, find_unknown_imports

ROOT = Path(__file__).parent.parent

# Each old path with a user's import, on several lines, and the line to write instead.
OLD_IMPORTS = [
    (
        "headrace.core.process",
        "(\n    Process,\n    Row as Base,\n    value,\n)",
        "from headrace import Process, Row as Base, value",
    ),
    ("headrace.core.windows", "Aggregate, Trigger, Window", None),
    ("headrace.core.testing", "Trial", None),
]

PIPELINE = """\
name: p
sources:
  rows: {generate: {rows: 3, columns: {k: id % 2}}}
steps:
  one:
    from: rows
    key: k
    process: {python: w.py:Counter, order: arrival, returns: {k: bigint}}
  two:
    from: one
    key: k
    process: {python: w.py:Counter, order: arrival, returns: {k: bigint}}
  three: {from: two, map: {python: w.py:same, returns: {k: bigint}}}
sinks:
  out: {from: three, files: {path: out}}
"""
CLASS = """
class Counter({prefix}Process):
    n = {prefix}value("bigint", ttl="1h", time="processing")

    def on_row(self, row, state, out):
        out(row.k)

def same(rows):
    return rows
"""


def run(*arguments: str, folder: Path = ROOT) -> str:
    """The standard error of a fresh interpreter."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stderr


def test_every_public_name_resolves() -> None:
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    assert {*headrace.__all__} <= {*dir(headrace)}
    assert not hasattr(headrace, "Proces")


def test_type_checkers_see_every_public_name() -> None:
    tree = ast.parse(Path(str(headrace.__file__)).read_text("utf-8"))
    [checked] = [n for n in tree.body if isinstance(n, ast.If) and isinstance(n.test, ast.Name)]
    seen = {
        alias.name: f"{node.module}.{alias.name}"
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == sorted(headrace.__all__)
    for name, path in seen.items():
        found = getattr(headrace, name)
        assert f"{found.__module__}.{found.__name__}" == path


def test_import_headrace_loads_nothing_more() -> None:
    before = run("-c", "import sys; import importlib, typing; print(*sys.modules, file=sys.stderr)")
    after = run("-c", "import sys; import headrace; print(*sys.modules, file=sys.stderr)")
    assert {*after.split()} - {*before.split()} == {"headrace"}


def test_tests_of_users_need_no_test_tool() -> None:
    loaded = run(
        "-c", "import sys; from headrace import Trial; print(*sys.modules, file=sys.stderr)"
    )
    assert not {"pytest", "_pytest", "hypothesis"} & {*loaded.split()}


@pytest.mark.parametrize(("path", "names", "replacement"), OLD_IMPORTS)
def test_old_path_works_and_warns_once(
    path: str, names: str, replacement: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "users.py"
    text = f"import sys\nfrom {path} import {names}\n"
    file.write_text(f"{text}def f(): pass\n")
    (tmp_path / "neighbour.py").write_text(text)
    load = "from pathlib import Path; from headrace.core.api.user_code import load_function"
    code = f"{load}; load_function(Path({str(file)!r}), 'f'); import neighbour"
    assert run("-W", "always::DeprecationWarning", "-c", code, folder=tmp_path) == (
        f"{file}:2: DeprecationWarning: {path} is an old path: "
        f'write "{replacement or f"from headrace import {names}"}"\n'
        f"  {text.splitlines()[1]}\n"
    )
    assert run("-c", code, folder=tmp_path) == ""


def test_every_old_path_is_tested_and_has_only_public_names() -> None:
    assert sorted(path for path, _, _ in OLD_IMPORTS) == sorted(OLD_PATHS)
    code = "import sys\nfor path in sys.argv[1:]: exec(f'from {path} import *')"
    run("-c", code, *OLD_PATHS)
    for path in OLD_PATHS:
        run(
            "-c",
            f"import headrace, {path} as old; assert {{*old.__all__}} <= {{*headrace.__all__}}",
        )


def test_old_path_has_no_other_names() -> None:
    code = "from headrace.core import windows; windows.P"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert "module 'headrace.core.windows' has no attribute 'P'" in shown


def test_validate_reports_an_old_path_once_for_each_file(tmp_path: Path) -> None:
    line = "from headrace.core.process import Process, value"
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "w.py").write_text(line + CLASS.format(prefix=""))
    [problem] = check_pipeline(str(tmp_path / "p.yaml"), ()).problems
    assert problem.severity == "warning"
    assert problem.message == '"w.py", line 1: headrace.core.process is an old path'
    assert problem.hint == 'write "from headrace import Process, value"'


@pytest.mark.parametrize(
    ("line", "replacements"),
    [
        ("import headrace.core.process as hp", ["import headrace as hp"]),
        ("import os, headrace.core.process as hp", ["import os, headrace as hp"]),
        ("import headrace.core.windows, headrace.core.process", ["import headrace"] * 2),
        ("from headrace.core import process", ["import headrace as process"]),
        (
            "from headrace.core import api, windows as w",
            ["from headrace.core import api; import headrace as w"],
        ),
        ("from headrace.core import api", []),
        ("from headrace.core.process import Proces, Row", []),
        ("from headrace.core.process import descriptors", []),
        ("from headrace.core.process import *", ["from headrace import *"]),
    ],
)
def test_replacement_keeps_the_names_of_the_statement(line: str, replacements: list[str]) -> None:
    assert [old.replacement for old in find_old_imports(ast.parse(line))] == replacements


@pytest.mark.parametrize("path", ["headrace", *OLD_PATHS])
def test_validate_reports_an_unknown_name_once_for_each_file(path: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    line = "from headrace import Process, value\n"
    (tmp_path / "w.py").write_text(f"{line}from {path} import Row, Proces{CLASS.format(prefix='')}")
    [problem] = check_pipeline(str(tmp_path / "p.yaml"), ()).problems
    assert problem.severity == "error"
    assert problem.message == 'w.py:2: headrace has no "Proces"'
    assert problem.hint == 'did you mean "Process"?'


@pytest.mark.parametrize(
    "line",
    [
        "from headrace import core",
        "from headrace.core.process import descriptors",
        "try:\n    from headrace import Later\nexcept ImportError: pass",
        "from .headrace import Proces",
    ],
)
def test_other_imports_are_no_unknown_names(line: str) -> None:
    assert not [*find_unknown_imports(ast.parse(line))]


@pytest.mark.parametrize(
    ("line", "prefix"),
    [("from headrace import Process, value", ""), ("import headrace", "headrace.")],
)
def test_validate_reads_classes_that_use_the_public_names(
    line: str, prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "w.py").write_text(line + CLASS.format(prefix=prefix))
    checked = check_pipeline(str(tmp_path / "p.yaml"), ())
    assert not checked.problems
    assert checked.pipeline is not None
    assert [*checked.pipeline.steps["one"].states] == ["n"]
