"""The output of the commands of pages of which some run on Spark: on the shared session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs.snippets import refreshed
from tests.support.cli.page_commands import list_pages, run_page_command


@pytest.mark.parametrize("path", list_pages(on_spark=True), ids=lambda path: path.name)
def test_the_commands_of_a_page_print_what_it_says(spark: SparkSession, path: Path) -> None:
    text = path.read_text("utf-8")
    assert refreshed(text, run_page_command) == text, "run: make docs"
