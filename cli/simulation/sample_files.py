"""Files with rows of sources, from which a simulation draws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.cli.errors import Refusal
from headrace.core.errors.problems import Location, suggest_name
from headrace.core.pipeline.pipeline_tests.row_files import (
    READERS,
    WrongRowFile,
    is_row_file,
    read_row_file,
)
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.plan import nodes
from headrace.core.testing.random_rows import RowSamples
from headrace.core.testing.typed_rows import RowTyper, list_record_columns


def parse_sample(argument: str) -> tuple[str, str]:
    """Return the source and the file of an argument. Raises Refusal."""
    source, equals, path = argument.partition("=")
    if not equals or not is_row_file(path):
        wanted = f"SOURCE=FILE with a file of {', '.join(READERS)}"
        raise Refusal(f'--sample: wanted {wanted}, got "{argument}"', "as in orders=orders.jsonl")
    return source, path


def read_sample_files(files: Mapping[str, str], plan: nodes.Plan) -> dict[str, RowSamples]:
    """Return the rows of the files of sources. Raises Refusal."""
    sources = {part.name: part for part in plan if isinstance(part, nodes.Source)}
    samples = dict[str, RowSamples]()
    for name, path in files.items():
        if name not in sources:
            hint = suggest_name(Text(name), sources) or f"the sources are {', '.join(sources)}"
            raise Refusal(f'--sample: there is no source "{name}"', hint)
        samples[name] = _read_file(path, sources[name])
    return samples


def _read_file(path: str, source: nodes.Source) -> RowSamples:
    named = Text(path, YamlScalar(SourceText(path, path, is_argument=True), 0, len(path), path))
    try:
        given = read_row_file(Path(path), named)
    except WrongRowFile as wrong:
        where = _format_place(wrong.location) if wrong.location else "--sample: "
        raise Refusal(f"{where}{wrong.message}", wrong.hint) from None
    mistakes = list[tuple[str, Location, str]]()
    typer = RowTyper(None, lambda *mistake: mistakes.append(mistake))
    rows = typer.type_rows(given, list_record_columns(source))
    if mistakes:
        message, place, hint = mistakes[0]
        raise Refusal(f"{_format_place(place)}{message}", hint)
    if not rows:
        raise Refusal(f"--sample: {path} has no rows")
    return RowSamples(rows, are_whole=True)


def _format_place(place: Location) -> str:
    return f"{place.file}:{place.line}: " if place.line else f"{place.file}: "
