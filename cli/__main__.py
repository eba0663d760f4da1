"""`python -m headrace.cli` is the command itself."""

from headrace.cli.main import main

main()
