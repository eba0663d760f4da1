"""docs/metrics.md: the metrics of `headrace run --http`, from the table that a scrape reads."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.cli.metrics.metric_table import METRICS, Metric

HEAD = """\
# Metrics and health

`headrace run PIPELINE --http 9100` serves three paths on `127.0.0.1:9100`, for programs on this
machine, read-only. With `--http 0` the system chooses a free port, which is printed. If the port is
taken the run ends at once, with exit status 2, before anything is read.

A request must name this machine by an address, as `localhost`, or by a name given with
`--http-host NAME`; any other `Host` gets 421, so that no web page can read the metrics through its
visitor's browser.

| path | answers |
| --- | --- |
| `/metrics` | the metrics below, in the text format of Prometheus |
| `/live` | 200 while the process and its event loop work; 503 when the job has failed for good |
| `/ready` | 200 while the job runs; 503 while it starts, restores, restarts, rescales or stops |

`/live` and `/ready` have the job's status in `status`: `starting`, `restoring`, `running`,
`stopping`, `draining`, `rescaling`, `restarting` or `over`. A job that waits to
restart after a failure is live but not ready: ending its process would only make it restart earlier
and more often.

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

`honor_labels` keeps the label `job`, the pipeline's name; without it Prometheus renames it to
`exported_job`. Metrics are computed only when they are scraped.

[grafana.json](../deploy/grafana.json) is a dashboard of all jobs for Grafana: rates, shares of
time, latency, lag, queues, state, checkpoints, late and bad rows, and counters of user code. Choose
Dashboards, New, Import, load the file, and choose the Prometheus that scrapes the jobs.

## Meaning

A *task* is a chain of parts that pass rows to each other by calls, such as `orders > clean`, and a
*subtask* is one of its parallel instances, numbered from 0. `headrace explain` shows tasks.

- A subtask is *busy* while it works: a kernel runs or waits for a thread, or a source decodes its
  next rows. It is *backpressured* while it waits for its readers, or for the writer of the sink at
  the end of its chain. Otherwise it is *idle*. So
  `rate(headrace_busy_seconds_total[1m])` is a share between 0 and 1, and the three shares add up to
  1. The bottleneck of a pipeline is the first task, seen from the sources, that is busy and not
  backpressured.
- `headrace_worker_info` has the [worker](workers.md) of each subtask. Other metrics get it by
  `headrace_rows_in_total * on(job, part, subtask) group_left(worker) headrace_worker_info`.
- Counters of subtasks, including those of rows, start at 0 with each attempt of the job: after a
  restart, rows that are read again are counted again. `rate` and `increase` handle such resets. The
  table on the terminal counts each row once.
- `headrace_watermark_lag_seconds` is the wall clock minus the watermark. For data recorded long ago
  it is large and has no meaning; for live data it is the delay of results.
- `headrace_latency_seconds` is measured by markers, as described below; without them it is absent.
- Sizes of state are approximate: they include rows that are not flushed to state yet, and may
  include garbage that is not collected yet.

## Latency

With `settings: {latency_markers: 1s}` each subtask of a source sends a marker every second. Markers
are not rows: they travel between the batches through the channels, also to other workers, never
overtake rows, and reach the sinks, where the time since their source is recorded. The median and
the 99th percentile of each source and sink are in the summary of the run, in `headrace top JOB`,
`headrace jobs --json`, `/v1/statistics` and `/metrics`. They are of the newest 300 markers of each
subtask of the sink, and start again with each attempt.

```text
latency from orders to out: p50 12.3 ms, p99 140.1 ms, of the last 300 markers
```

The latency begins when the source takes a chunk of rows from its reader, and ends when the writer
of the sink has taken them: it contains queues, kernels, lookups and slow writers. It does not
contain the time for which rows wait in windows, joins and other state, which markers pass
([`headrace_watermark_lag_seconds`](#meaning) shows that), nor the time until output is committed. A
subtask sends a marker to one of its readers, each in turn, so their number does not grow with the
parallelism; where streams part and meet again, there is one for each way. By default there are
none, and they cost nothing.

## OpenTelemetry

`headrace run PIPELINE --otlp http://127.0.0.1:4318` sends the metrics below and traces to a
receiver of OpenTelemetry, by its protocol over HTTP, every ten seconds and at the end.
`HEADRACE_OTLP=URL` is the same. `headrace serve --otlp URL` is for all jobs of
[a server](serve.md). What this needs is installed by `pip install "headrace[otlp]"`.

- `/v1/metrics` and `/v1/traces` are added to the URL, which has no user and no query: headers such
  as `Authorization` are in `OTEL_EXPORTER_OTLP_HEADERS`, certificates in
  `OTEL_EXPORTER_OTLP_CERTIFICATE`.
- The resource has the pipeline's name as `service.name`, so points have no label `job`; the job's
  id is `service.instance.id`.
- Spans are `checkpoint`, with its number, sizes and pauses, and as an error if it failed;
  `restart`, from the failure until the job runs again, exact to a second; and `kernel`, for work on
  one batch that took more than a second, user code included. Each is a trace of its own.
- A receiver that is down or slow neither stops nor slows the job. It is reported once, and once
  more when it is back; spans wait for it, at most 1,000, metrics do not.

## All metrics

"""

TAIL = """
In addition there are the `process_` metrics of prometheus_client: CPU seconds, resident memory,
open files, and the start time.
"""


def metrics_page() -> str:
    """The whole page."""
    rows = "".join(_row(metric) for metric in METRICS)
    head = "| metric | kind | labels | what it is |\n| --- | --- | --- | --- |\n"
    return f"{HEAD}{head}{rows}{TAIL}"


def _row(metric: Metric) -> str:
    names = ", ".join(_ticked(metric.sample_names))
    labels = ", ".join(_ticked(metric.labels))
    return f"| {names} | {metric.kind} | {labels} | {metric.help} |\n"


def _ticked(names: tuple[str, ...]) -> Iterator[str]:
    return (f"`{name}`" for name in names)
