"""Shows what is kept of each cluster, for how long, what it takes now and what it will take."""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import timezone

from diagnostics.archive.deletion import delete_expired
from diagnostics.archive.rollups import roll_up
from diagnostics.archive.sizes import Size, sizes
from diagnostics.models import Cluster
from diagnostics.quantities import span
from diagnostics.text import counted


class Command(BaseCommand):
    """`manage.py retention [--delete]`."""

    help = (
        "Show what is kept, for how long, and the size that it comes to; --delete removes what is older now."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One switch."""
        parser.add_argument(
            "--delete", action="store_true", help="remove at once what is kept for long enough"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """One table per cluster."""
        clusters = Cluster.objects.all()
        if not clusters:
            self.stdout.write("no cluster has been polled yet")
        for cluster in clusters:
            self.stdout.write(f"{cluster.slug}:")
            if options["delete"]:
                self._delete(cluster)
            for line in _table(sizes(cluster, settings.RETENTION, settings.POLL_INTERVAL)):
                self.stdout.write(f"  {line}")

    def _delete(self, cluster: Cluster) -> None:
        now = timezone.now()
        while roll_up(cluster, settings.POLL_INTERVAL, now):
            pass
        while gone := delete_expired(cluster, settings.RETENTION, now, is_over=lambda: False):
            for kind, number in gone.items():
                self.stdout.write(f"  {kind}: {counted(number, 'row')} deleted")


def _table(found: list[Size]) -> list[str]:
    rows = [("kind", "rows", "kept for", "now", "then")]
    for size in found:
        kept_for = "always" if size.kept_for is None else span(size.kept_for)
        rows.append((size.kind, f"{size.rows:,}", kept_for, _mb(size.bytes_now), _mb(size.bytes_then)))
    now, then = (_sum(s.bytes_now for s in found), _sum(s.bytes_then for s in found))
    rows.append(("all", "", "", _mb(now), _mb(then)))
    kinds, *others = ([len(row[column]) for row in rows] for column in range(5))
    widths = [max(lengths) for lengths in others]
    return [
        "  ".join((kind.ljust(max(kinds)), *(c.rjust(w) for c, w in zip(cells, widths, strict=True))))
        for kind, *cells in rows
    ]


def _sum(sizes_: Iterable[int | None]) -> int | None:
    """None as soon as one is unknown."""
    known = list(sizes_)
    return None if None in known else sum(size or 0 for size in known)


def _mb(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e6:,.1f} MB"
