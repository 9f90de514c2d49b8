"""The `gpuhealth` command. `diagnose` needs neither database nor Django; `up` hands over to Django."""

import json
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from diagnostics.collect import PrometheusTarget, Target, take_snapshot
from diagnostics.collect.kubeconfig import current_context
from diagnostics.document import as_document
from diagnostics.findings import Diagnosis, Severity
from diagnostics.rules import catalogue, diagnose
from diagnostics.snapshot import Snapshot, Source
from diagnostics.snapshot.anonymise import anonymise as anonymised
from diagnostics.snapshot.stored import UnreadableSnapshot, dumps, loads

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_CLEAN, EXIT_FINDINGS, EXIT_BLIND = 0, 1, 2


class NothingRead(click.ClickException):
    """A file that cannot be read or written: told apart from findings by the exit status."""

    exit_code = EXIT_BLIND


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpuhealth")
def main() -> None:
    """Explain what is wrong with GPUs on Kubernetes. Reads only; never changes a cluster."""


class Moment(click.ParamType[datetime]):
    """An RFC 3339 time; without an offset it is taken as UTC."""

    name = "time"

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """A timezone-aware datetime in UTC; fails with a sentence for anything else."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time such as 2026-06-01T12:00:00Z", param, ctx)


@main.command("diagnose")
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; default: the usual chain."
)
@click.option("--context", default="", help="Context of the kubeconfig; default: its current one.")
@click.option("--in-cluster", is_flag=True, help="Use the service account of the pod that this runs in.")
@click.option("--prometheus", metavar="URL", help="Prometheus (or a compatible store) with DCGM metrics.")
@click.option("--prometheus-token-file", type=click.Path(path_type=Path), help="Bearer token for it.")
@click.option("--prometheus-ca-file", type=click.Path(path_type=Path), help="CA certificate for it.")
@click.option(
    "--exporter",
    "exporters",
    multiple=True,
    metavar="URL",
    help="dcgm-exporter address, or service:<namespace>/<name>[:port]; may be repeated.",
)
@click.option("--rack-label", default="", help="Node label that names the rack; default: the known ones.")
@click.option(
    "--snapshot", "snapshot_file", type=click.Path(path_type=Path), help="Diagnose a saved snapshot instead."
)
@click.option("--save", type=click.Path(path_type=Path), help="Save the snapshot to a file.")
@click.option("--anonymise", is_flag=True, help="Replace every name, the same by the same.")
@click.option("--now", type=Moment(), help="Judge ages as of this time (RFC 3339) instead of the clock's.")
@click.option(
    "--min-severity",
    type=click.Choice([s.value for s in Severity]),
    default=Severity.INFO.value,
    help="Leave out what is less severe.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def diagnose_command(
    kubeconfig: Path | None,
    context: str,
    in_cluster: bool,
    prometheus: str | None,
    prometheus_token_file: Path | None,
    prometheus_ca_file: Path | None,
    exporters: tuple[str, ...],
    rack_label: str,
    snapshot_file: Path | None,
    save: Path | None,
    anonymise: bool,
    now: datetime | None,
    min_severity: str,
    output: str,
) -> None:
    """Look once and say what is wrong, why, and what to do first.

    Exit status: 2 when no pod could be read or a file failed, 1 with findings, else 0.
    """
    if snapshot_file is not None:
        snapshot = _loaded(snapshot_file, now)
    else:
        target = Target(
            name="cluster",
            kubeconfig=kubeconfig,
            context=context,
            in_cluster=in_cluster,
            prometheus=PrometheusTarget(
                url=prometheus, bearer_token_file=prometheus_token_file, ca_file=prometheus_ca_file
            )
            if prometheus
            else None,
            exporters=exporters,
            rack_label=rack_label,
        )
        target = replace(target, name=current_context(target) or target.name)
        clock = (lambda: now) if now is not None else (lambda: datetime.now(UTC))
        snapshot = take_snapshot(target, clock=clock, correct_skew=now is None).snapshot
    if anonymise:
        snapshot = anonymised(snapshot)
    if save is not None:
        _write(save, dumps(snapshot))
    diagnosis = _at_least(diagnose(snapshot), Severity(min_severity))
    if output == "json":
        click.echo(json.dumps(as_document(snapshot, diagnosis), indent=2, ensure_ascii=False))
    else:
        from diagnostics.cli.table import render

        render(snapshot, diagnosis, rules=len(catalogue()))
    sys.exit(_exit_status(snapshot, diagnosis))


def _loaded(path: Path, now: datetime | None) -> Snapshot:
    try:
        snapshot = loads(path.read_bytes())
    except OSError as error:
        raise NothingRead(f"cannot read {path}: {error.strerror}") from None
    except UnreadableSnapshot as error:
        raise NothingRead(f"{path}: {error}") from None
    return snapshot if now is None else msgspec.structs.replace(snapshot, taken_at=now)


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise NothingRead(f"cannot write {path}: {error.strerror}") from None


def _at_least(diagnosis: Diagnosis, severity: Severity) -> Diagnosis:
    kept = tuple(f for f in diagnosis.findings if f.severity.rank <= severity.rank)
    return msgspec.structs.replace(diagnosis, findings=kept)


def _exit_status(snapshot: Snapshot, diagnosis: Diagnosis) -> int:
    if not snapshot.source(Source.PODS).state.is_usable:
        return EXIT_BLIND
    return EXIT_FINDINGS if diagnosis.findings else EXIT_CLEAN


@main.command(
    "up", context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def up(arguments: "Sequence[str]") -> None:
    """Start the dashboard here: web, worker, beat, broker and, if no cluster is named, a simulated one."""
    _django("up", *arguments)


@main.command("signin_link", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def signin_link(arguments: "Sequence[str]") -> None:
    """Print a link that signs a user in once."""
    _django("signin_link", *arguments)


@main.command("backfill")
@click.option("--cluster", default="", help="Slug of one cluster; default: all of them.")
@click.option("--from", "start", default="", metavar="TIME", help="Begin of a span, as 2026-06-01T12:00Z.")
@click.option("--to", "end", default="", metavar="TIME", help="Its end; default: as late as can be judged.")
def backfill(cluster: str, start: str, end: str) -> None:
    """Fill time that nobody observed from Prometheus; without a span: what waits to be filled."""
    options = {"--cluster": cluster, "--from": start, "--to": end}
    _django("backfill", *(f"{name}={value}" for name, value in options.items() if value))


@main.command(
    "ledger",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def ledger(arguments: "Sequence[str]") -> None:
    """Say where the GPU-hours and the money went: --from, --to, --by team|namespace|workload|model|state."""
    _django("ledger", *arguments)


@main.command("retention")
@click.option("--delete", is_flag=True, help="Remove at once what has been kept for long enough.")
def retention(*, delete: bool) -> None:
    """Show what is kept of each cluster, for how long, and the size that it comes to."""
    _django("retention", *(["--delete"] if delete else []))


def _django(*arguments: str) -> None:
    """Run a management command; Django is loaded only now."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuhealth.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(["gpuhealth", *arguments])
    except ImproperlyConfigured as error:
        raise click.ClickException(str(error)) from None


@main.command("rules")
def rules() -> None:
    """List the rules: code, name and what each reports."""
    for rule in catalogue():
        click.echo(f"{rule.code}  {rule.slug:28}  {rule.title}")


if __name__ == "__main__":
    main()
