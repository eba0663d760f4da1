"""docs/cli.md: every command, as `--help` shows it, with what all of them have in common."""

from __future__ import annotations

from collections.abc import Iterator

import click

from headrace.cli.group import NOT_BUILT_YET, OPTIONS_NOT_BUILT_YET
from headrace.cli.main import HELP, headrace

HEAD = """\
# The command line

Results go to standard output, everything said about them to standard error. So
`headrace schema --of orders.jsonl > schema.yaml` writes only the schema, and remarks still show.

| exit status | when |
| --- | --- |
| 0 | done, or stopped by the first Ctrl-C or SIGTERM; for `validate`: no errors |
| 1 | the job failed, or headrace itself did: then a line says where the traceback is kept |
| 2 | the command line or a pipeline is wrong, or an input matches nothing |
| 3 | refused because of what is there: an output folder that is not empty |
| 130 | ended at once by a second Ctrl-C; any other command by the first |

| environment | what it does |
| --- | --- |
| `NO_COLOR` | no colours, also on a terminal; elsewhere there are none anyway |
| `HEADRACE_DEBUG=1` | a defect of headrace shows its traceback at once |
| `HEADRACE_SECRET_<NAME>` | the secret that `${secret:NAME}` stands for |
| `HEADRACE_SECRETS` | a folder with a file for each secret |

`headrace run --log json` tells a program: an object a line on standard error. Each has `event`,
`time` and `pipeline`; beside them, by event:

- `start`: `name` and `parts`.
- `warning`, `error`, one for each problem of the file: `file`, `line`, `column`, `subject`,
  `message`, `hint`.
- `progress`, every ten seconds: `seconds`, `rows_in`, `rows_out`, `bad`, `in_per_s`, `out_per_s`;
  the same for each of `parts`, with `waits` (the share of time) and `backpressure`.
- `stopping`, at the first Ctrl-C or SIGTERM: nothing more.
- `failure`, where the job is refused or cannot go on: `message`, `hint`, `exit_status`; where it
  ran, `step`, `split` and `position`, and as `defect` a traceback if headrace is at fault.
- `summary`, at the end: `status` (`done`, `stopped` or `failed`), and what `progress` holds, over
  the whole run.

Not built yet, and refused by name: {later}.
"""


def cli_page() -> str:
    """The whole page."""
    options = {f"{name} {one}" for name, some in OPTIONS_NOT_BUILT_YET.items() for one in some}
    later = ", ".join(f"`{name}`" for name in (*sorted(NOT_BUILT_YET), *sorted(options)))
    return HEAD.replace("{later}", later) + "".join(_commands())


def _commands() -> Iterator[str]:
    root = click.Context(headrace, info_name="headrace", terminal_width=96, help_option_names=HELP)
    yield _block("headrace", headrace, root)
    for name, command in headrace.commands.items():
        ctx = click.Context(command, parent=root, info_name=name, terminal_width=96)
        yield _block(f"headrace {name}", command, ctx)


def _block(title: str, command: click.Command, ctx: click.Context) -> str:
    return f"\n## {title}\n\n```\n{command.get_help(ctx)}\n```\n"
