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
| 0 | done; for `validate`: no errors |
| 1 | the job failed, or headrace itself did: then a line says where the traceback is kept |
| 2 | the command line or a pipeline is wrong |
| 3 | refused because of state that is there |
| 130 | stopped by Ctrl-C |

| environment | what it does |
| --- | --- |
| `NO_COLOR` | no colours, also on a terminal; elsewhere there are none anyway |
| `HEADRACE_DEBUG=1` | a defect of headrace shows its traceback at once |
| `HEADRACE_SECRET_<NAME>` | the secret that `${secret:NAME}` stands for |
| `HEADRACE_SECRETS` | a folder with a file for each secret |

Not built yet: {later}.
"""


def cli_page() -> str:
    """The whole page."""
    later = ", ".join(f"`{name}`" for name in sorted(NOT_BUILT_YET))
    return HEAD.replace("{later}", later) + "".join(_commands())


def _commands() -> Iterator[str]:
    root = click.Context(headrace, info_name="headrace", terminal_width=96, help_option_names=HELP)
    yield _block("headrace", headrace, root)
    for name, command in headrace.commands.items():
        ctx = click.Context(command, parent=root, info_name=name, terminal_width=96)
        yield _block(f"headrace {name}", command, ctx)


def _block(title: str, command: click.Command, ctx: click.Context) -> str:
    return f"\n## {title}\n\n```\n{command.get_help(ctx)}\n```\n"
