"""docs/metrics.md: what `headrace run --http` serves, from the table that a scrape reads."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.cli.metrics.table import METRICS, Metric

HEAD = """\
# Metrics and health

`headrace run PIPELINE --http 9100` serves three paths on `127.0.0.1:9100`, for programs on this
machine. Nothing can be changed there. With `--http 0` a port is chosen that is free, and told. If
the port is taken the run ends at once, with exit status 2, before anything is read.

| path | answers |
| --- | --- |
| `/metrics` | the figures below, in the text format of Prometheus |
| `/live` | 200 as long as the process and its loop work; 503 when the job has failed for good |
| `/ready` | 200 while the job runs; 503 while it starts, restores, restarts, rescales or stops |

`/live` and `/ready` say in `status` what the job is doing: `starting`, `restoring`, `running`,
`stopping`, `draining`, `rescaling`, `restarting` or `over`. A job that waits to begin again behind
a failure is live and not ready: whoever ended its process would only make it begin earlier, and
more often.

```text
$ curl -s http://127.0.0.1:9100/ready
{"status":"running"}
```

To have Prometheus scrape it:

```yaml
scrape_configs:
  - job_name: headrace
    static_configs: [{targets: ["127.0.0.1:9100"]}]
    honor_labels: true
```

`honor_labels` keeps `job` what it is here, the pipeline's name; without it Prometheus calls it
`exported_job`. Figures are read when they are scraped, and cost nothing else.

## What they mean

A *task* is a chain of parts that rows pass through as calls, `orders > clean` say, and a *subtask*
is one of its copies, from 0 on. `headrace explain` shows tasks.

- A subtask is *busy* while it works: a kernel runs, or waits for a thread; a source decodes what
  comes next. It is *backpressured* while it waits for whoever reads from it, or for the writer of
  the sink at the end of its own chain. Else it is *idle*. So
  `rate(headrace_busy_seconds_total[1m])` is a share between 0 and 1, and the three add up to 1.
  What holds up a pipeline is the first task, seen from the sources, that is busy and not
  backpressured.
- Counters of subtasks begin at 0 with each attempt to run the job, and so do those that count rows:
  behind a restart, rows that are read again count again. `rate` and `increase` know of that. The
  table on the terminal counts each row once.
- `headrace_watermark_lag_seconds` is the wall clock less the watermark. Of data that was recorded
  long ago it is large and says nothing; of live data it is how much later than now results are.
- The size of states is about right: rows that are waiting to be filed count, garbage that is not
  collected yet may.

## All of them

"""

TAIL = """
Beside them there are the `process_` metrics of prometheus_client: CPU seconds, resident memory,
open files, the start time.
"""


def metrics_page() -> str:
    """The whole page."""
    rows = "".join(_row(metric) for metric in METRICS)
    head = "| metric | kind | labels | what it is |\n| --- | --- | --- | --- |\n"
    return f"{HEAD}{head}{rows}{TAIL}"


def _row(metric: Metric) -> str:
    names = ", ".join(_ticked(metric.samples))
    labels = ", ".join(_ticked(metric.labels))
    return f"| {names} | {metric.kind} | {labels} | {metric.help} |\n"


def _ticked(names: tuple[str, ...]) -> Iterator[str]:
    return (f"`{name}`" for name in names)
