"""`backfill`: fill time that nobody observed from Prometheus now, and print how far it is."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from diagnostics.backfill import due, open_span, run, tail
from diagnostics.models import Backfill, Cluster
from diagnostics.quantities import span

DONE = (Backfill.Status.DONE, Backfill.Status.IMPOSSIBLE)


class Command(BaseCommand):
    help = "Fill time that nobody observed from Prometheus; without a span: what waits to be filled."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", default="", help="slug of one cluster; default: all of them")
        parser.add_argument("--from", dest="start", default="", help="begin of a span, as 2026-06-01T12:00Z")
        parser.add_argument("--to", dest="end", default="", help="its end; default: as late as can be judged")

    def handle(self, *args: Any, **options: Any) -> None:
        start, end = _moment(options["start"], "--from"), _moment(options["end"], "--to")
        if end is not None and start is None:
            msg = "--to needs --from"
            raise CommandError(msg)
        rows = [row for cluster in _clusters(options["cluster"]) for row in self._fill(cluster, start, end)]
        if not rows:
            self.stdout.write("nothing waits to be filled")
        if failed := [row for row in rows if row.status not in DONE]:
            raise CommandError("; ".join(dict.fromkeys(f"{row.cluster}: {row.detail}" for row in failed)))

    def _fill(self, cluster: Cluster, start: datetime | None, end: datetime | None) -> list[Backfill]:
        interval, thresholds = settings.POLL_INTERVAL, settings.LIMITS.site
        found = []
        if start is not None:
            judged = timezone.now() - tail(interval, thresholds)
            rows = open_span(cluster, start, min(end or judged, judged), tail(interval, thresholds))
            if not rows:
                msg = f"nothing between --from and {judged:%Y-%m-%d %H:%M} UTC, up to which can be judged"
                raise CommandError(msg)
            newest_first = sorted(rows, key=lambda row: row.end, reverse=True)
            found += [run(cluster, row, timezone.now, told=self._tell) for row in newest_first]
        else:
            while row := due(cluster, timezone.now(), interval=interval, thresholds=thresholds):
                found.append(run(cluster, row, timezone.now, told=self._tell))
        return found

    def _tell(self, row: Backfill) -> None:
        whole = row.end - row.start
        share = (row.end - row.done_from) / whole if whole else 1.0
        done = f"{row.cluster.slug}: {row.done_from:%Y-%m-%d %H:%M} to {row.end:%Y-%m-%d %H:%M} UTC"
        left = f", {span(row.done_from - row.start)} left" if row.done_from > row.start else ""
        self.stdout.write(f"{done}: {share:.0%}{left}" + (f" ({row.detail})" if row.detail else ""))


def _clusters(slug: str) -> list[Cluster]:
    found = list(Cluster.objects.filter(slug__in=[slug] if slug else settings.CLUSTERS))
    if slug and not found:
        msg = f"no cluster {slug!r} has been polled"
        raise CommandError(msg)
    return found


def _moment(text: str, option: str) -> datetime | None:
    """A time, in UTC where it says nothing else."""
    if not text:
        return None
    try:
        found = parse_datetime(text)
        day = None if found is not None else parse_date(text)
    except ValueError:
        found = day = None
    if found is None and day is not None:
        found = datetime(day.year, day.month, day.day)  # noqa: DTZ001 -- made aware below
    if found is None:
        msg = f"{option}: {text!r} is no time such as 2026-06-01T12:00Z"
        raise CommandError(msg)
    return found if found.tzinfo else timezone.make_aware(found, timezone.get_default_timezone())
