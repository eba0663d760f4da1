"""docs/cli.md: every command, as `--help` shows it, with what all of them have in common."""

from __future__ import annotations

from collections.abc import Iterator

import click

from headrace.cli.command_group import PLANNED_COMMANDS
from headrace.cli.main import HELP_OPTIONS, headrace

HEAD = """\
# The command line

Results go to standard output, messages to standard error. So
`headrace schema --of orders.jsonl > schema.yaml` writes only the schema, and remarks are still
shown.

| exit status | when |
| --- | --- |
| 0 | done, or stopped by the first Ctrl-C or SIGTERM and resumable; for `validate`: no errors |
| 1 | the job failed, a test failed, or there is a bug in headrace: then a line names the file \
with the traceback |
| 2 | the command line or a pipeline is invalid, or an input matches nothing |
| 3 | rejected because of existing files: an output folder that is not empty, checkpoints that are \
damaged, incompatible, or in use by another process |
| 130 | stopped at once by a second Ctrl-C; a batch run and any other command by the first |

| environment | effect |
| --- | --- |
| `LC_ALL=C` | paths and output are UTF-8 all the same, as in Python's UTF-8 mode |
| `NO_COLOR` | no colours on a terminal; elsewhere there are none anyway |
| `HEADRACE_HOME` | the folder of all [homes](snapshots.md), as `--home`; by default `.headrace` |
| `HEADRACE_OTLP` | the receiver of [metrics and traces](metrics.md#opentelemetry), as `--otlp` |
| `HEADRACE_DEBUG=1` | the traceback of a bug in headrace is shown at once |
| `HEADRACE_SECRET_<NAME>` | the value of `${secret:NAME}` |
| `HEADRACE_SECRETS` | a folder with a file for each secret |

## A run

`headrace run` reads until its sources end. Sources of files end, and so do `generate` and `nexmark`
with a number of rows; with `watch:` or without a number they run until they are stopped. Rows of
`console` and `stdout` go to standard output, reports of the run to standard error.

- On a terminal a table shows each part: rows in and out, bad and late rows, rates over the last
  second, the watermark, and backpressure. Below it are the size of the state, and the newest
  checkpoint with its duration and the bytes it wrote. Printed rows appear above the table.
- Elsewhere there is a line every ten seconds.
- At the end there is a summary: the same counts of each part, and rates over the whole run. If a
  part failed, its failure is shown instead, with its split, its position and a hint.
- `--quiet` shows errors only.
- `--limit N` reads N rows of each source. Of files, those are the first rows in the order of the
  files' names. Rows after the last one are not read, so they are never bad.
- The first Ctrl-C (or SIGTERM) stops the run with a checkpoint: exit status 0, and the same command
  resumes from it. The second Ctrl-C (or SIGTERM) ends the run within a second, whatever it does;
  then the same command resumes from the previous checkpoint, and again no row is lost or written
  twice.
  Signals within 0.2 seconds of the first count as the first. When standard output is closed, as
  by `| head`, or the terminal is closed, the run stops as at the first Ctrl-C; under `nohup` it
  continues.
- A run with `--limit`, or one that reads standard input, takes no checkpoints. The first Ctrl-C
  ends reading: rows that were read pass through all steps and are written, as in a run that ended
  by itself. The second stops the run at once; output that was not written yet is lost.
- What happens when a run fails or is killed, and how it resumes: [recovery](recovery.md).
- What happens when a pipeline with state is changed: [changing a pipeline](changing-pipelines.md).
- `--batch` runs it once, on Spark: [batch](batch.md).
- When rows come in and nothing was emitted for 30 seconds, the run says [why](why.md), once for the
  same causes.
- `--http PORT` serves metrics and health on this machine: [metrics](metrics.md).
- A standard error that is closed or full does not end a run.

### For programs

`--log json` writes one object per line to standard error. Each has `event`, `time` and `pipeline`,
and in addition, by event:

- `start`: `name` and `parts`.
- `serving`, with `--http`: the base `url` of [metrics and health](metrics.md).
- `resumed`, if the job resumes from a checkpoint: its number as `checkpoint`, `taken_at`, and in
  `sources` the positions to resume from, in words; `killed` names the process that was killed
  before; `changes` are lines on what differs because the [pipeline was
  changed](changing-pipelines.md). With `--from-checkpoint`, `removed` are the newer checkpoints,
  and `again` is how many rows of each sink are written a second time at most. With
  `--from-savepoint`, `savepoint` is its path, and `forgotten` the number of removed checkpoints of
  another job in the home.
- `checkpoint`, for each completed one: `number`, `seconds`, and `bytes`, how much was new.
- `checkpoint_failed`, for each failed one: `number` and `message`. The job continues.
- `restarting`, when the job has failed and restarts after `delay_s` seconds: the failure, with the
  fields of `failure`.
- `worker_started`, with [workers](workers.md): the number of the `worker` and its `pid`.
- `worker_lost`, when the process of a worker has ended: the `worker` and a `message`.
- `region_restarted`, when the subtasks of a lost worker run again while all others went on: from
  which `checkpoint`, null for the start of the job, and how many `subtasks`.
- `asked`, when a client requests a stop: `drain` is true if the job is drained first, `now` if it
  ends without a checkpoint.
- `savepoint`, when a client's savepoint is complete: `path`, and the `checkpoint` it was made of.
- `rescaled`, when a client has changed `parallelism` or `workers`: of which parts, how many workers
  there are now, null if that has not changed, and `stood_still_s`, the length of the pause.
- `not_done`, when a client's request has failed: `what` was requested, and a `message`.
- `notice`, when an external system has a problem that the job waits for or continues without, and
  when that is over: a `message`.
- `warning`, `error`, one for each problem of the file: `file`, `line`, `column`, `subject`,
  `message`, `hint`.
- `progress`, every ten seconds: `seconds`, `rows_in`, `rows_out`, `bad`, `in_per_s`, `out_per_s`,
  and `late` if a step of the pipeline can drop late rows. The same for each of `parts`, with
  `waits` (the share of time), `backpressure` (`ok`, `low` or `high`), and where they apply
  `unfilled` (rows in count windows that never filled), `metrics` (the counters and gauges of a
  [class](process.md#metrics)), `watermark`, `latency` (of a sink, by source: `markers`, `p50_s` and
  `p99_s`, with [`latency_markers`](metrics.md#latency)), and `state`: the step's state as `rows`,
  `bytes` in memory and `bytes_on_disk`. For a batch run it is `seconds` and `stages`,
  null while Spark starts: for each its `number`, the `job` that it belongs to, the number of
  `tasks` and how many are `done`, `running` and `failed`, `rows_in` and `rows_out` between stages,
  and `ended`. The `metrics` of loops are those of the rounds so far.
- `no_output`, when rows come in and nothing was emitted for 30 seconds: `seconds`, and the
  `findings` of [`headrace why`](why.md). It is repeated only for other causes.
- `stopping`, at the first Ctrl-C or SIGTERM, without further fields.
- `failure`, when the job is rejected or fails: `message`, `hint`, `exit_status`; if it was running,
  `step`, `split` and `position`, and as `defect` the traceback of a bug in headrace.
- `summary`, at the end: `status` (`done`, `stopped` or `failed`), the `checkpoint` that the same
  command resumes from, if any, and whether it was `drained`; `findings` about loops that no row has
  left; `rounds`, the first and the last five of each [loop over a table](loops.md#figures), with
  `round`, `rows_changed` and `seconds`; and the fields of `progress`, over the whole run. If the
  job had finished in a previous run, `finished_before` is all there is.

Not built yet, and rejected by name: {later}.
"""


def cli_page() -> str:
    """The whole page."""
    later = ", ".join(f"`{name}`" for name in sorted(PLANNED_COMMANDS))
    return HEAD.replace("{later}", later) + "".join(_commands())


def _commands() -> Iterator[str]:
    root = click.Context(
        headrace, info_name="headrace", terminal_width=96, help_option_names=HELP_OPTIONS
    )
    yield _block("headrace", headrace, root)
    for name, command in headrace.commands.items():
        yield from _with_subcommands(f"headrace {name}", command, name, root)


def _with_subcommands(
    title: str, command: click.Command, name: str, above: click.Context
) -> Iterator[str]:
    ctx = click.Context(command, parent=above, info_name=name, terminal_width=96)
    yield _block(title, command, ctx)
    for inner, of in command.commands.items() if isinstance(command, click.Group) else ():
        yield from _with_subcommands(f"{title} {inner}", of, inner, ctx)


def _block(title: str, command: click.Command, ctx: click.Context) -> str:
    return f"\n## {title}\n\n```\n{command.get_help(ctx)}\n```\n"
