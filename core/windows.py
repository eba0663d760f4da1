"""The former path of the API for user-defined aggregates and triggers."""

from headrace.core.api.window_classes import Aggregate, Trigger, Window

__all__ = ["Aggregate", "Trigger", "Window"]
