"""The former path of `Aggregate`, `Trigger` and `Window`: import them from `headrace`."""

from typing import TYPE_CHECKING

from headrace.core.errors.old_imports import import_moved_name

if TYPE_CHECKING:
    from headrace.core.api.window_classes import Aggregate, Trigger, Window

__all__ = ["Aggregate", "Trigger", "Window"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return import_moved_name(__name__, name)
