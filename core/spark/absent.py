"""Packages that `--batch` needs, checked before anything is read."""

from __future__ import annotations

from importlib.util import find_spec

INSTALL_HINT = "pip install 'headrace[batch]' installs all that --batch needs"
REQUIRED_PACKAGES = ("pyspark", "py4j", "pandas", "numpy", "pyarrow")


class SparkUnavailable(Exception):
    """Spark is not available as requested: the reason, a hint and the exit status.

    The exit status is 2 if the user must install something or change the request, and 1 if an
    external system does not answer.
    """

    def __init__(self, message: str, hint: str = "", exit_status: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_status = exit_status


def check_installed() -> None:
    """Check that the packages are installed. Raises SparkUnavailable."""
    missing = [name for name in REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise SparkUnavailable(
            f"--batch runs on Spark: {', '.join(missing)} {are} not installed", INSTALL_HINT
        )
