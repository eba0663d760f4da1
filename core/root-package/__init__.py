"""The names that user code imports: `from headrace import Process, value`.

Each is loaded from its module when it is first used, so that `import headrace`, and with it every
command, loads nothing: not even `typing`, which takes longer than the start of Python, and in which
Ctrl-C would leave a traceback (cli/process_setup). The hyphen in this folder's name prevents a
second import of this module as a part of `headrace.core`.

Tests: tests/test_public_names.py.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headrace.cli.pipeline_tests.pipeline_trial import PipelineTrial
    from headrace.core.api.window_classes import Aggregate, Trigger, Window
    from headrace.core.process.descriptors import State, list_of, map_of, shared, timer, value
    from headrace.core.process.process import AllOut, AllState, Out, Process, Row
    from headrace.core.testing.trial import Trial

__all__ = [
    "Aggregate",
    "AllOut",
    "AllState",
    "Out",
    "PipelineTrial",
    "Process",
    "Row",
    "State",
    "Trial",
    "Trigger",
    "Window",
    "list_of",
    "map_of",
    "shared",
    "timer",
    "value",
]

_NAMES_BY_MODULE = {
    "cli.pipeline_tests.pipeline_trial": ("PipelineTrial",),
    "core.api.window_classes": ("Aggregate", "Trigger", "Window"),
    "core.process.descriptors": ("State", "list_of", "map_of", "shared", "timer", "value"),
    "core.process.process": ("AllOut", "AllState", "Out", "Process", "Row"),
    "core.testing.trial": ("Trial",),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(f"headrace.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
