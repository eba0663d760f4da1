"""`headrace new`: writes a commented starter pipeline from the templates in configs/.

A template is a folder: `pipeline.yaml`, whose first line describes it, and the other files that
it needs. Existing files are never overwritten.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def _complete_template(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    found = [name for name in find_templates() if name.startswith(incomplete)]
    return [CompletionItem(name, help=_read_description(find_templates()[name])) for name in found]


@click.command()
@click.argument("template", required=False, shell_complete=_complete_template)
@click.argument("file", required=False, type=click.Path())
def new(template: str | None, file: str | None) -> None:
    """Write a commented starter pipeline.

    Without TEMPLATE, list the templates.

    FILE is a path or a folder; the default is TEMPLATE.yaml in the working directory. Nothing is
    overwritten.
    """
    if template is None:
        _print_templates()
        return
    target = Path(file or "")
    written = write_template(template, target / f"{template}.yaml" if target.is_dir() else target)
    click.echo(f"wrote {' and '.join(map(str, written))}", err=True)
    click.echo(f"next: headrace validate {written[0]}", err=True)


def find_templates() -> dict[str, Traversable]:
    """Return the folder of each template, by name."""
    from importlib.resources import files

    folder = files("headrace.configs") / "templates"
    return {entry.name: entry for entry in sorted(folder.iterdir(), key=lambda e: e.name)}


def write_template(template: str, target: Path) -> list[Path]:
    """Write the template's files, the pipeline first; write none if one of them exists."""
    folder = find_templates().get(template)
    if folder is None:
        from headrace.core.errors.problems import suggest_name

        hint = (
            suggest_name(template, find_templates()) or f"there are {', '.join(find_templates())}"
        )
        raise click.ClickException(f'no such template "{template}", {hint}')
    pipeline = (folder / "pipeline.yaml").read_text("utf-8")
    texts = {target: _set_pipeline_name(pipeline, target)} | {
        target.parent / entry.name: entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".py")
    }
    texts = {path: text.replace(f"{template}.yaml", target.name) for path, text in texts.items()}
    for path in texts:
        if path.exists():
            raise click.ClickException(f"{path} already exists, and is left unchanged")
    for path, text in texts.items():
        _write_file(path, text)
    return list(texts)


def _set_pipeline_name(pipeline: str, target: Path) -> str:
    """Name the pipeline after its file, if that is a valid name of a pipeline."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", target.stem):
        return pipeline
    return re.sub(r"^name: .*", f"name: {target.stem}", pipeline, flags=re.MULTILINE)


def _write_file(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise click.ClickException(f"cannot write {path}: {reason}") from error


def _read_description(folder: Traversable) -> str:
    with (folder / "pipeline.yaml").open("r", encoding="utf-8") as file:
        return file.readline().removeprefix("# ").rstrip()


def _print_templates() -> None:
    for name, folder in find_templates().items():
        click.echo(f"{name:<10} {_read_description(folder)}")
    click.echo("write one with: headrace new TEMPLATE [FILE]", err=True)
