"""The points at which a job with a Kafka sink can be made to die, as the source has them."""

from __future__ import annotations

import re

from docs.snippets import ROOT

POINT = re.compile(r'failpoints\.failpoint\("([^"]+)"\)')


def named() -> list[str]:
    """All that are in the source."""
    sources = (*ROOT.glob("core/[!s]*/*.py"), *ROOT.glob("connectors/**/*.py"))  # not Spark's
    return sorted({name for path in sources for name in POINT.findall(path.read_text())})


POINTS = named()
