"""Metrics of all jobs as one text in Prometheus's format.

Each job gives its own text. The samples of a metric must stand together, so they are sorted into
families; metrics of the process, which have no label, get that of their job.
"""

from __future__ import annotations

from collections.abc import Mapping

LABEL = "job"
RUNNING = "headrace_served_job_running"


def merge_metrics(texts: Mapping[str, str], running: Mapping[str, bool]) -> str:
    """Merge the texts of jobs by name; `running` has the jobs of the server.

    >>> text = "# HELP a Help.\\n# TYPE a gauge\\na 1.0\\n"
    >>> print(merge_metrics({"x": text, "y": text}, {}), end="")
    # HELP a Help.
    # TYPE a gauge
    a{job="x"} 1.0
    a{job="y"} 1.0
    """
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for name, text in texts.items():
        family, known = "", set(heads)
        for line in text.splitlines():
            if line.startswith("#"):
                family = line.split(" ", 3)[2]
                if family not in known:
                    heads.setdefault(family, []).append(line)
            elif line:
                samples.setdefault(family, []).append(_add_label(line, name))
    if running:
        heads[RUNNING] = [
            f"# HELP {RUNNING} Whether the process of a job of the server runs.",
            f"# TYPE {RUNNING} gauge",
        ]
        samples[RUNNING] = [
            f'{RUNNING}{{{LABEL}="{name}"}} {float(is_running)}'
            for name, is_running in running.items()
        ]
    lines = (line for family in heads for line in (*heads[family], *samples.get(family, ())))
    return "".join(f"{line}\n" for line in lines)


def _add_label(sample: str, name: str) -> str:
    """Add the name of the job to a sample without labels."""
    if "{" in sample:
        return sample
    metric, _, value = sample.partition(" ")
    return f'{metric}{{{LABEL}="{name}"}} {value}'
