"""Optional packages, imported when a lookup needs them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from headrace.core.contracts import ConnectorError


def import_extra(module: str, package: str, extra: str) -> ModuleType:
    """Import a module. Raises ConnectorError, with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        hint = f'pip install "headrace[{extra}]"'
        message = f"this lookup needs {package}, which is not installed"
        raise ConnectorError(message, hint, exit_status=2, final=True) from None
