"""docs/cli.md: every command, as `--help` shows it, with what all of them have in common."""

from __future__ import annotations

from collections.abc import Iterator

import click

from headrace.cli.group import NOT_BUILT_YET
from headrace.cli.main import HELP, headrace

HEAD = """\
# The command line

Results go to standard output, everything said about them to standard error. So
`headrace schema --of orders.jsonl > schema.yaml` writes only the schema, and remarks still show.

| exit status | when |
| --- | --- |
| 0 | done, or stopped by the first Ctrl-C or SIGTERM, to go on later; for `validate`: no errors |
| 1 | the job failed, or headrace itself did: then a line says where the traceback is kept |
| 2 | the command line or a pipeline is wrong, or an input matches nothing |
| 3 | refused because of what is there: an output folder that is not empty, checkpoints that are \
damaged, do not fit, or are being written by another process |
| 130 | ended at once by a second Ctrl-C; a batch and any other command by the first |

| environment | what it does |
| --- | --- |
| `NO_COLOR` | no colours, also on a terminal; elsewhere there are none anyway |
| `HEADRACE_HOME` | the folder in which jobs keep what they go on from, as `--home` |
| `HEADRACE_DEBUG=1` | a defect of headrace shows its traceback at once |
| `HEADRACE_SECRET_<NAME>` | the secret that `${secret:NAME}` stands for |
| `HEADRACE_SECRETS` | a folder with a file for each secret |

## A run

`headrace run` reads until its sources have come to their end. Those of files, and of `generate`
and `nexmark` with a number of rows, do; with `watch:` or without a number they go on until
somebody stops them. Rows of `console` and `stdout` go to standard output, what is said of the run
to standard error.

- On a terminal a table shows each part: rows in and out, bad and late ones, rates over the last
  second, the watermark, and backpressure. Below stand what steps keep, and the newest checkpoint:
  how long it took, and how much it wrote. Rows that are printed stand above the table.
- Elsewhere there is a line every ten seconds.
- At the end stands a summary: the same counts of each part, and rates over the whole run. A part
  that failed is told instead, with its split, its position and what to do.
- `--quiet` leaves out all but errors.
- `--limit N` reads N rows of each source. Of files, those are the first: in the order of their
  names, one after the other. What stands behind the last of them is not looked at, so it is never
  bad.
- The first Ctrl-C (or SIGTERM) stops the run with a checkpoint: exit status 0, and the same command
  goes on from there. The second ends it at once; then the same command goes on from the checkpoint
  before, and nothing is lost or written twice either. When nobody reads standard output any more,
  as behind `| head`, or the terminal is closed, a run ends as at the first Ctrl-C; behind `nohup`
  it goes on.
- Of a run with `--limit`, or one that reads standard input, nothing is kept. The first Ctrl-C ends
  reading: what was read goes through all steps, is written, and is as good as the output of a run
  that ended by itself. The second ends the run, and what it had not written is lost.
- What happens when a run fails or is killed, and how it goes on: [recovery](recovery.md).
- What happens when a pipeline with state is changed: [changing a pipeline](changing-pipelines.md).
- `--batch` runs it once, on Spark: [batch](batch.md).
- `--http PORT` serves metrics and health on this machine: [metrics](metrics.md).
- Nobody has to listen: a standard error that is closed, full or gone ends no run.

### For programs

`--log json` writes an object a line on standard error. Each has `event`, `time` and `pipeline`;
beside them, by event:

- `start`: `name` and `parts`.
- `serving`, with `--http`: the `url` below which [metrics and health](metrics.md) are.
- `resumed`, if it goes on from a checkpoint: its number as `checkpoint`, `taken_at`, and in
  `sources` from where each goes on, in words; `killed` names the process that was killed before;
  `changes` are lines that say what goes on differently because the [pipeline was
  changed](changing-pipelines.md). With `--from-checkpoint`, `removed` are the newer checkpoints,
  and `again` is how many rows of each sink are written a second time at most. With
  `--from-savepoint`, `savepoint` is where it is, and `forgotten` how many checkpoints of another
  job were in the home.
- `checkpoint`, for each that is complete: `number`, `seconds`, and `bytes`, how much was new.
- `checkpoint_failed`, for each that is not: `number` and `message`. The job goes on.
- `restarting`, when the job has failed and begins again after `delay_s` seconds: what failed, as
  `failure` has it.
- `asked`, when a client asks for the end: `drain` is true if it is drained first.
- `savepoint`, when a client's savepoint is whole: `path`, and the `checkpoint` that it was made of.
- `rescaled`, when a client has changed `parallelism`: of which parts, and `stood_still_s`.
- `not_done`, when a client's request has failed: `what` was asked for, and a `message`.
- `notice`, when something outside is wrong that the job waits for, or goes on without, and when it
  is well again: a `message`.
- `warning`, `error`, one for each problem of the file: `file`, `line`, `column`, `subject`,
  `message`, `hint`.
- `progress`, every ten seconds: `seconds`, `rows_in`, `rows_out`, `bad`, `in_per_s`, `out_per_s`,
  and `late` if a step of the pipeline can drop late rows. The same for each of `parts`, with
  `waits` (the share of time), `backpressure` (`ok`, `low` or `high`), and where they apply
  `unfilled` (rows in count windows that never filled), `watermark`, and `state`: what the step
  keeps, as `rows`, `bytes` in memory and `bytes_on_disk`. Of a batch it is `seconds` and `stages`,
  null while Spark starts: of each its `number`, the `job` that it is of, how many `tasks` it has,
  and how many are `done`, `running` and `failed`, `rows_in` and `rows_out` from stage to stage, and
  `ended`.
- `stopping`, at the first Ctrl-C or SIGTERM: nothing more.
- `failure`, where the job is refused or cannot go on: `message`, `hint`, `exit_status`; where it
  ran, `step`, `split` and `position`, and as `defect` a traceback if headrace is at fault.
- `summary`, at the end: `status` (`done`, `stopped` or `failed`), `checkpoint` if the same command
  goes on from one, and whether it was `drained`; and what `progress` holds, over the whole
  run. Of a job that had come to its end before, `finished_before` is all there is.

Not built yet, and refused by name: {later}.
"""


def cli_page() -> str:
    """The whole page."""
    later = ", ".join(f"`{name}`" for name in sorted(NOT_BUILT_YET))
    return HEAD.replace("{later}", later) + "".join(_commands())


def _commands() -> Iterator[str]:
    root = click.Context(headrace, info_name="headrace", terminal_width=96, help_option_names=HELP)
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
