"""`headrace why`: why nothing, or too little, comes out of a running job."""

from __future__ import annotations

import click

from headrace.cli.completion import JobName
from headrace.cli.errors import report_unsent
from headrace.cli.pipeline_file import add_home_option


@click.command("why")
@click.argument("job", type=JobName())
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@add_home_option
def why_command(job: str, as_json: bool, home: str) -> None:
    """Say why nothing, or too little, comes out of a running job.

    JOB is the name of a pipeline or its file. Each cause is named with its place, since when it is
    so, and the setting that would change it: who holds a watermark back, windows that wait, a
    condition that lets nothing pass, skew, backpressure, late and bad rows, lookups, restarts,
    failing checkpoints. Figures are of the last five to ten seconds. The exit status is 0 whatever
    is found.
    """
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.server.server_client import describe_start

        client = find_client(job, home)
        client.wait_for_job(lambda: describe_start(client.home))
        document = client.fetch_document("/v1/findings")
    if as_json:
        import orjson

        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        click.echo(orjson.dumps(document, option=options), nl=False)
        return
    from headrace.cli.findings_text import format_diagnosis

    for line in format_diagnosis(document):
        click.echo(line)
