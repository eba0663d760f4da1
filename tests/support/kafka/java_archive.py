"""Classes of Java as it has them in memory, in a file: with that a broker starts in half the time.

The first run of all clones makes it, as it fetches the jars, and it stays in the user's cache. Its
name says of what it is: what Java does not find fitting it passes over, and reads the jars.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path


def archived(command: Sequence[str], train: Callable[[str], None]) -> Sequence[str]:
    """Return Java's option for the archive of this command; if missing, `train` creates it.

    `train` gets the option with which Java writes the archive when it ends.
    """
    path = _cache() / f"{sha256(repr(command).encode()).hexdigest()[:16]}.aot"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        train(f"-XX:AOTCacheOutput={made}")
        if made.exists():
            made.rename(path)  # a faster process has made the same
    return (f"-XX:AOTCache={path}",) if path.exists() else ()


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "headrace-tests"
