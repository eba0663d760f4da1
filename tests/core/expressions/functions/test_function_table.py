"""The table of functions has the names of its modules, and loads a module when it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

from headrace.core.expressions import functions
from headrace.core.expressions.function import SqlFunction
from headrace.core.expressions.functions import FUNCTIONS, NAMES_BY_MODULE, load_family


@pytest.mark.parametrize("module", NAMES_BY_MODULE)
def test_names_of_a_module_are_those_of_its_functions(module: str) -> None:
    names = ", ".join(name for row in load_family(module) for name in (row.name, *row.aliases))
    assert NAMES_BY_MODULE[module] == names, "write the names so into NAMES_BY_MODULE"


def test_every_function_of_the_folder_is_in_the_table() -> None:
    listed = {id(row) for row in FUNCTIONS.values()}
    for found in iter_modules(functions.__path__):
        module = import_module(f"{functions.__name__}.{found.name}")
        for value in vars(module).values():
            for row in value if isinstance(value, tuple) else ():
                assert not isinstance(row, SqlFunction) or id(row) in listed, row.name


def test_no_name_has_two_functions() -> None:
    names = [name for text in NAMES_BY_MODULE.values() for name in text.split(", ")]
    assert len(names) == len(set(names)) == len(FUNCTIONS)


def test_a_call_loads_the_module_of_its_function() -> None:
    script = (
        "import sys; from headrace.core.expressions.functions import FUNCTIONS; "
        "assert 'upper' in FUNCTIONS and 'nothing' not in FUNCTIONS; "
        "print(any(name.endswith('functions.strings') for name in sys.modules)); "
        "print(FUNCTIONS['upper'].name); "
        "print(any(name.endswith('functions.strings') for name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "upper", "True"]
