"""The points at which a job with a Kafka sink can be made to die, as the source has them."""

from __future__ import annotations

import re

from docs.snippets import ROOT

POINT = re.compile(r'failpoints\.failpoint\("([^"]+)"\)')

OTHERS = ("processes", "spark", "tables")
"""Folders whose points a job in one process, without Spark or a database, does not pass."""


def named() -> list[str]:
    """All that are in the source."""
    paths = (*ROOT.glob("core/*/*.py"), *ROOT.glob("connectors/**/*.py"))
    sources = [path for path in paths if path.parent.name not in OTHERS]
    return sorted({name for path in sources for name in POINT.findall(path.read_text())})


POINTS = named()
