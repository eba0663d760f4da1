"""Entry point of `headrace`, and of `python -m headrace.cli`."""

from headrace.cli.process_setup import ensure_utf8, exit_on_interrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Run the command line of this process, and exit."""
    exit_on_interrupt()
    ensure_utf8()
    from headrace.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()
