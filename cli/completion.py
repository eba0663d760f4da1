"""`headrace completion`: the script by which a shell completes commands, and argument types."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem, get_completion_class

from headrace.cli.pipeline_file import get_default_home

# The variable by which a shell requests completions.
COMPLETE_VARIABLE = "_HEADRACE_COMPLETE"

# How many levels below the typed folder are searched for pipelines, and how many are offered.
_MAX_DEPTH = 2
_MAX_ITEMS = 200


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script.

    \b
    bash:  headrace completion bash >> ~/.bashrc
    zsh:   headrace completion zsh >> ~/.zshrc
    fish:  headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    click.echo(kind(ctx.find_root().command, {}, "headrace", COMPLETE_VARIABLE).source())


class PipelineFile(click.Path):
    """The path of a pipeline; completes YAML files, including those in subfolders."""

    name = "pipeline"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return YAML files whose path starts with the text; else use the shell's completion."""
        folder, _ = os.path.split(incomplete)
        found: list[str] = []
        for path in _find_yaml_files(folder, _MAX_DEPTH):
            if path.startswith(incomplete):
                found.append(path)
            if len(found) == _MAX_ITEMS:
                break
        return [CompletionItem(path) for path in sorted(found)] or super().shell_complete(
            ctx, param, incomplete
        )


class JobName(PipelineFile):
    """The name of a job, or its pipeline's file; completes the names of jobs in the home."""

    name = "job"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return jobs whose name starts with the text; else files."""
        home = ctx.params.get("home") or get_default_home()
        try:
            names = sorted(name for name in os.listdir(home) if _is_home(home, name))
        except OSError:
            names = []
        found = [name for name in names if name.startswith(incomplete)][:_MAX_ITEMS]
        if found:
            return [CompletionItem(name) for name in found]
        return super().shell_complete(ctx, param, incomplete)


def _is_home(root: str, name: str) -> bool:
    """Whether a folder is the home of a job, and not one of savepoints."""
    return any(os.path.exists(os.path.join(root, name, file)) for file in ("lock", "checkpoints"))


def _find_yaml_files(folder: str, depth: int) -> Iterator[str]:
    """Yield the YAML files in a folder and its subfolders, without hidden ones."""
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        return
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in visible:
        if entry.name.endswith((".yaml", ".yml")) and entry.is_file():
            yield os.path.join(folder, entry.name)
    for entry in visible if depth else ():
        if entry.is_dir():
            yield from _find_yaml_files(os.path.join(folder, entry.name), depth - 1)
