"""`ledger`: where the GPU-hours and the money of a cluster went."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rich.console import Console

from diagnostics import usage
from diagnostics.management.ledger_output import as_json, notes, render
from diagnostics.models import Cluster
from diagnostics.text import listed, printable
from diagnostics.usage.spreadsheet import as_csv

WEEK = timedelta(days=7)


def moment(text: str) -> datetime:
    """An RFC 3339 time (UTC without an offset), or a day, which begins at midnight in the site's time zone."""
    try:
        if len(text) == len("2026-06-01"):
            return datetime.combine(
                date.fromisoformat(text), time(), tzinfo=timezone.get_default_timezone()
            ).astimezone(UTC)
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        msg = f"{printable(text, 60)!r} is no time such as 2026-06-01 or 2026-06-01T12:00:00Z"
        raise ArgumentTypeError(msg) from None


class Command(BaseCommand):
    help = "Say where the GPU-hours and the money of a cluster went."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", default="", metavar="SLUG", help="default: the only one there is")
        parser.add_argument(
            "--from", dest="start", type=moment, metavar="TIME", help="default: a week before --to"
        )
        parser.add_argument("--to", dest="end", type=moment, metavar="TIME", help="default: now")
        parser.add_argument(
            "--by",
            choices=[by.value for by in usage.Grouping],
            default=usage.Grouping.TEAM.value,
            help="default: %(default)s",
        )
        parser.add_argument(
            "-o", "--output", choices=["table", "csv", "json"], default="table", help="default: %(default)s"
        )
        parser.add_argument("--data-dir", help="as given to `up`")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = _cluster(options["cluster"])
        end = options["end"] or timezone.now()
        start = options["start"] or end - WEEK
        if start >= end:
            msg = "--from has to be before --to"
            raise CommandError(msg)
        by = usage.Grouping(options["by"])
        try:
            ledger = usage.sums(cluster, start, end, by)
        except OverflowError:
            msg = "--from and --to have to be times that a calendar knows"
            raise CommandError(msg) from None
        match options["output"]:
            case "csv":
                self.stdout.write(as_csv(by, ledger), ending="")
                for line in notes(ledger):
                    self.stderr.write(line)
            case "json":
                self.stdout.write(as_json(cluster.slug, by, ledger))
            case _:
                console = Console(highlight=False)
                with console.capture() as capture:
                    render(str(cluster), by, ledger, console)
                self.stdout.write(capture.get(), ending="")


def _cluster(slug: str) -> Cluster:
    """The one that is meant. Raises CommandError, naming those that there are."""
    clusters = list(Cluster.objects.filter(slug=slug) if slug else Cluster.objects.all())
    if len(clusters) == 1:
        return clusters[0]
    slugs = [printable(one, 60) for one in Cluster.objects.values_list("slug", flat=True)]
    if not slugs:
        msg = "no cluster has been polled yet"
    elif slug:
        msg = f"there is no cluster {printable(slug, 60)!r}, but {listed(slugs, 20)}"
    else:
        msg = f"say which with --cluster: {listed(slugs, 20)}"
    raise CommandError(msg)
