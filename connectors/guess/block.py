"""The guessed schema as YAML, ready to be pasted into a source."""

from __future__ import annotations

from headrace.connectors.guess.columns import SchemaGuess


def format_yaml_block(guess: SchemaGuess) -> str:
    """Return a `schema:` mapping, each doubt as a comment after its column."""
    lines = ["schema:"]
    for column in guess.columns:
        line = f"  {_format_scalar(column.name)}: {_format_scalar(str(column.type))}"
        lines.append(f"{line}  # {column.doubt}" if column.doubt else line)
    return "\n".join(lines) + "\n"


def _format_scalar(text: str) -> str:
    """Return the text as a YAML scalar, quoted where YAML would read something else."""
    import json

    import yaml

    try:
        plain = yaml.safe_load(f"{text}: {text}") == {text: text}
    except yaml.YAMLError:
        plain = False
    return text if plain and text.isascii() else json.dumps(text, ensure_ascii=False)
