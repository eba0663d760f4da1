"""A schema guessed from a data file, for `headrace schema --of FILE`.

    guess = guess_schema("orders.jsonl")
    guess.columns[0]                    # GuessedColumn(name='id', type=bigint, doubt='')
    format_yaml_block(guess)            # 'schema:\n  id: bigint\n'

`file_head` reads a bounded head of the file, `type_evidence` finds the narrowest type that takes
every value seen, `columns` makes named columns from each format and formats them as YAML.

Tests: tests/cli/test_schema.py.
"""

from headrace.connectors.guess.columns import (
    GuessedColumn,
    SchemaGuess,
    format_yaml_block,
    guess_schema,
    guess_text_column,
)
from headrace.connectors.guess.file_head import UnreadableFile

__all__ = [
    "GuessedColumn",
    "SchemaGuess",
    "UnreadableFile",
    "format_yaml_block",
    "guess_schema",
    "guess_text_column",
]
