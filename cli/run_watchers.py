"""Watchers of the job of a run: its progress, its diagnosis, and those who read its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import click

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


def add_monitoring(
    launch: LaunchOptions,
    port: int,
    hosts: Collection[str],
    report: RunReport,
    ctx: click.Context,
) -> LaunchOptions:
    """Add the server of metrics and health to the launch."""
    from headrace.cli.command_group import find_installed_version
    from headrace.cli.metrics.monitoring_server import MonitoringServer
    from headrace.cli.metrics.tcp_port import PortUnavailable, format_url, open_port
    from headrace.core.api.forked_children import withhold_socket

    try:
        lasting = ctx.ensure_object(ExitStack)
        listening = lasting.enter_context(open_port(port))
        lasting.enter_context(withhold_socket(listening))
    except PortUnavailable as error:
        report.report_rejection(error.message, error.hint, 2)
        ctx.exit(2)
    report.report_url(format_url(listening), chosen=port == 0)
    monitoring = MonitoringServer(listening, find_installed_version(), hosts=hosts)
    return replace(launch, watchers=(*launch.watchers, monitoring.watch))


def add_otlp(launch: LaunchOptions, url: str) -> LaunchOptions:
    """Add the export of metrics and traces to the launch. Raises ConnectorError."""
    from headrace.cli.command_group import find_installed_version
    from headrace.cli.metrics.otlp.job_export import OtlpExport, check_receiver

    export = OtlpExport(check_receiver(url), find_installed_version(), launch.report_warning)
    return replace(launch, watchers=(*launch.watchers, export.watch))
