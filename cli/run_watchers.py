"""Watchers of the job of a run: they report its progress, and why nothing is emitted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from headrace.cli.job_diagnosis import JobDiagnosis
from headrace.cli.run_progress import ProgressMeter
from headrace.cli.run_report import RunReport
from headrace.core.job.job import Job
from headrace.core.job.launch import LaunchOptions, Watcher


def make_progress_watcher(report: RunReport) -> Watcher:
    """Return a watcher that reports the job's progress periodically."""

    async def watch(job: Job) -> None:
        loop = asyncio.get_running_loop()
        start, progress = loop.time(), ProgressMeter()
        while True:
            await asyncio.sleep(report.interval_s)
            progress.set_baseline(job.initial_counts)
            report.report_progress(
                progress.sample(job.plan, job.collect_counts(), loop.time() - start)
            )

    return watch


def add_diagnosis(
    launch: LaunchOptions, diagnosis: JobDiagnosis, report: RunReport
) -> LaunchOptions:
    """Add a watcher that samples the job for its diagnosis, and reports missing output."""
    watch = partial(diagnosis.watch, report=report.report_missing_output)
    return replace(launch, watchers=(*launch.watchers, watch))
