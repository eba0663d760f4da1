"""Connection of control to a job of `headrace run`."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from headrace.cli.control.api import routes
from headrace.cli.control.control import Control
from headrace.cli.control.figures import Figures
from headrace.cli.control.plans import Plans
from headrace.cli.control.saving import Saving, Tell
from headrace.cli.failures import keep_defect
from headrace.core.addresses import is_url
from headrace.core.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.news import News
    from headrace.core.pipeline.load import Loaded
    from headrace.state.storage.home import Home


def controlled(
    how: Launch, home: Home, loaded: Loaded, figures: Figures, tell: Callable[[News], None]
) -> Launch:
    """Add the control of the job to its launch."""
    saving = Saving(partial(_export, home, figures.about.version))
    control = Control(home.folder, figures, Plans(loaded), saving, tell, _failed, routes)
    return replace(how, watchers=(*how.watchers, control.watch), over=control.over)


def _export(home: Home, version: str, number: int, to: str | None, tell: Tell) -> str:
    from headrace.cli.control.exporting import export

    where = export(home, version, number, to, tell)
    return where if is_url(where) else os.path.abspath(where)


def _failed(error: BaseException) -> None:
    """Report a bug in headrace; the job continues."""
    import traceback

    what = f"{type(error).__name__}: {error}".splitlines()[0]
    click.echo(keep_defect(what, "".join(traceback.format_exception(error))), err=True)
