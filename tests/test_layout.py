"""The shape of the code base: what imports what, what is shipped, the docstring examples."""

import ast
import configparser
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent

# The folders that each folder's modules may import from.
MAY_IMPORT = {
    "core": {"core"},
    "state": {"core", "state"},
    "connectors": {"connectors", "core"},
    "cli": {"cli", "configs", "connectors", "core", "state"},
}

# The package `headrace` itself. It has one name only: with its hyphen, no import statement can name
# the folder as a part of headrace.core.
ROOT_PACKAGE = "root-package"

# The floors of core: a module imports from its own folder, or from folders on a lower floor.
FLOORS = (
    {"errors"},
    {"types"},
    {"api", "expressions"},
    {"aggregates", "patterns", "process", "windows", "sql"},
    {"pipeline", "queries"},
    {"plan", "coordination"},
    {"operators"},
    {"dataflow", "state_reader", "testing"},
    {"sources", "checkpoint", "exchange"},
    {"worker"},
    {"job", "spark"},
    {"processes", "diagnosis"},
    {ROOT_PACKAGE},
)

# What core must do without, even inside a function: it belongs to the other folders.
NOT_IN_CORE = {"aiokafka", "rocksdict", "click", "rich", "obstore"}

# What only extras bring is imported in these folders alone.
EXTRAS = {
    "batch": ("batch",),
    "spark": ("batch",),
    "tables": ("sql", "http"),
    "server": ("http",),
    "otlp": ("otlp",),
}

MODULES = [
    module.name
    for folder in MAY_IMPORT
    for module in pkgutil.walk_packages([str(ROOT / folder)], f"headrace.{folder}.")
    if not module.name.endswith((".__main__", f".{ROOT_PACKAGE}"))
]


@cache
def find_imports(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The import statements of a module, those inside functions included."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def imports(path: Path) -> Iterator[str]:
    for node in find_imports(path):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield node.module or ""
        else:
            yield from (alias.name for alias in node.names)


def setup_cfg() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    return config


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after the code."""
    script = f"{code}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in ran.stderr.split()}


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_point_one_way(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        for name in imports(path):
            top, _, rest = name.partition(".")
            assert top not in MAY_IMPORT, f"{path}: write headrace.{name}, not {name}"
            if top == "headrace":
                may = MAY_IMPORT["cli" if path.parent.name == ROOT_PACKAGE else folder]
                assert rest.partition(".")[0] in may, f"{path} imports {name}"


def test_core_imports_neither_connector_nor_state_nor_spark() -> None:
    for path in (ROOT / "core").rglob("*.py"):
        forbidden = NOT_IN_CORE | (
            set() if "spark" in path.relative_to(ROOT).parts else {"pyspark"}
        )
        used = {name.partition(".")[0] for name in imports(path)}
        assert not used & forbidden, f"{path} imports {used & forbidden}"


def test_folders_of_core_import_from_lower_floors_only() -> None:
    floor = {folder: number for number, folders in enumerate(FLOORS) for folder in folders}
    assert {path.stem for path in (ROOT / "core").iterdir() if path.suffix == ".py"} <= {
        "__init__",
        "windows",
    }
    for module, imported in import_graph().items():
        for name in imported:
            one, other = module.split(".")[1:3], name.split(".")[1:3]
            if one[0] == other[0] == "core" and one != other and len(one) == len(other) == 2:
                assert floor[other[1]] < floor[one[1]], f"{module} imports {name}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph, done = import_graph(), set[str]()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for name in graph[module]:
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@cache
def import_graph() -> dict[str, set[str]]:
    """The modules that each module imports, those of types and inside functions included."""
    paths = {
        ".".join(("headrace", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): path
        for folder in MAY_IMPORT
        for path in (ROOT / folder).rglob("*.py")
    }
    graph = {}
    for module, path in paths.items():
        graph[module] = set[str]()
        for node in find_imports(path):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    graph[module].add(inner if inner in paths else str(node.module))
        graph[module] = {name for name in graph[module] if name in paths and name != module}
    return graph


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_every_package_says_where_its_modules_are_tested(folder: str) -> None:
    for path in (ROOT / folder).rglob("__init__.py"):
        modules = {file.stem for file in path.parent.glob("*.py")} - {"__init__", "__main__"}
        tests = ROOT / "tests" / path.parent.relative_to(ROOT)
        if all((tests / f"test_{module}.py").exists() for module in modules):
            continue
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        named = re.findall(r"tests/[\w/]+(?:\.py)?", docstring.partition("Tests: ")[2])
        assert named, f"{path}: end the docstring with 'Tests: tests/...'"
        assert not [name for name in named if not (ROOT / name).exists()], path


def test_folders_of_tests_mirror_the_tree() -> None:
    for top in MAY_IMPORT:
        for path in (ROOT / "tests" / top).rglob("*.py"):
            folder = path.parent.relative_to(ROOT / "tests")
            assert (ROOT / folder / "__init__.py").exists(), f"{path} mirrors no package"
            assert path.name.startswith("test_") or path.name == "conftest.py", (
                f"{path}: helpers belong in tests/support"
            )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["validate", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    loaded = loaded_after(
        "from contextlib import ExitStack; from headrace.cli.main import run_command_line; "
        f"run_command_line({arguments!r}, ExitStack())"
    )
    assert "click" in loaded
    assert not loaded & {"polars", "yaml", "rich", "sqlglot"}


def test_a_query_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"x": 1}\n', "utf-8")
    arguments = ["query", f"select x from '{file}'", "--to", f"{tmp_path / 'out.csv'}"]
    loaded = loaded_after(
        "from contextlib import ExitStack; from headrace.cli.main import run_command_line; "
        f"assert run_command_line({arguments!r}, ExitStack()) == 0"
    )
    assert "polars" in loaded
    assert not loaded & {"yaml", "rich", "rocksdict", "prometheus_client"}


def test_what_serves_metrics_loads_their_client_only_when_it_serves() -> None:
    serving = (
        "import headrace.cli.run, headrace.cli.metrics.monitoring_server, "
        "headrace.cli.metrics.metric_table"
    )
    assert "prometheus_client" not in loaded_after(serving)
    assert "prometheus_client" in loaded_after("import headrace.cli.metrics.exposition")


def test_every_package_is_listed_in_setup_cfg() -> None:
    listed = setup_cfg()["options"]["packages"].split()
    found = {
        ".".join(("headrace", *path.parent.relative_to(ROOT).parts)).removesuffix(
            f".core.{ROOT_PACKAGE}"
        )
        for folder in (*MAY_IMPORT, "configs")
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == sorted(found)


def test_root_package_cannot_be_imported_as_a_part_of_core() -> None:
    assert f"headrace = core/{ROOT_PACKAGE}" in setup_cfg()["options"]["package_dir"].split("\n")
    assert not ROOT_PACKAGE.isidentifier()


def test_every_module_is_in_a_package() -> None:
    for folder in MAY_IMPORT:
        for path in (ROOT / folder).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} has no __init__.py"


def test_the_dependencies_are_those_that_are_imported() -> None:
    owners = packages_distributions()
    own = {*sys.stdlib_module_names, "compression", "headrace"}  # compression: from 3.14 on
    used: dict[tuple[str, ...], set[str]] = {(): set()}
    for folder in MAY_IMPORT:
        for path in (ROOT / folder).rglob("*.py"):
            tops = {name.partition(".")[0] for name in imports(path)} - own
            extras = next(
                (EXTRAS[part] for part in path.relative_to(ROOT).parts if part in EXTRAS), ()
            )
            names = {owners.get(top, [top])[0].lower() for top in tops}
            used[extras] = used.get(extras, set()) | names
    config = setup_cfg()
    required = config["options"]["install_requires"].split()
    assert {Requirement(line).name.lower() for line in required} == used[()]
    for extras, names in used.items():
        lines = [config["options.extras_require"][extra].split() for extra in extras]
        assert names - used[()] <= closure([*chain(*lines)])


def closure(requirements: list[str], extras: Collection[str] = ()) -> set[str]:
    """The names of all packages that these lines need, and those in turn.

    They are the lines of a package that is wanted with these extras.
    """
    found: set[str] = set()
    for line in requirements:
        requirement = Requirement(line)
        marker = requirement.marker
        if not marker or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            name = canonicalize_name(requirement.name)
            found |= {name} | closure(requires(name) or [], requirement.extras)
    return found


def test_the_constraints_are_the_whole_closure_and_nothing_else() -> None:
    config = setup_cfg()
    wanted = config["options"]["install_requires"].split()
    for extra in ("batch", "dev", "sql", "http", "otlp"):
        wanted += config["options.extras_require"][extra].split()
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {canonicalize_name(x.partition("==")[0]) for x in lines if not x.startswith("#")}
    assert pinned == closure(wanted) | {"pip", "setuptools"}


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
