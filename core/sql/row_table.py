"""The name of the table of one row; apart, as pipelines without SQL start without its parser."""

ROW_TABLE = "@row"
"""The table that a `select` without `from` reads, and of which `values` makes its rows."""
