"""What `--batch` needs and is not there: told before anything is read."""

from __future__ import annotations

from importlib.util import find_spec

INSTALL = "pip install 'headrace[batch]' brings all that --batch needs"
PACKAGES = ("pyspark", "py4j", "pandas", "numpy", "pyarrow")


class NoSpark(Exception):
    """Spark cannot be had as it is asked for: why, what to do, and the exit status that this has.

    It is 2 where something is to be installed or asked for in another way, 1 where the outside
    world does not answer.
    """

    def __init__(self, message: str, hint: str = "", exit_status: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_status = exit_status


def check_installed() -> None:
    """Whether the packages are there. Raises NoSpark."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise NoSpark(f"--batch runs on Spark: {', '.join(missing)} {are} not installed", INSTALL)
