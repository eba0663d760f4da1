"""The command line in this process, as tests of commands have it."""

from tests.cli.conftest import headrace

__all__ = ["headrace"]
