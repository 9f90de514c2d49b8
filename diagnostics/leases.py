"""One poll per cluster at a time: a lease on the cluster's row, which a killed worker cannot hold for ever.

A single conditional UPDATE takes it, on SQLite as on PostgreSQL. Hosts whose clocks differ may take a lease a
little early; no harm is done, because `confirm` lets only the holder of the latest lease write.
"""

import logging
import secrets
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from diagnostics.models import Cluster

MARGIN = timedelta(seconds=60)
"""A lease outlasts the longest poll: with less a slow poll loses it, with more a killed one blocks the next."""

log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Another poll took over; nothing of this one may be written."""


class Lease:
    """Entered, it is the token of a lease on the cluster with this slug, or None while another poll has it.

    It is given back at the end, and expires some time after the `longest` poll if that never comes. A LeaseLost
    from within ends the block and goes no further.
    """

    def __init__(self, slug: str, longest: timedelta) -> None:
        self.slug = slug
        self.lasting = longest + MARGIN
        self.token: str | None = None

    def __enter__(self) -> str | None:
        self.token = _taken(self.slug, self.lasting)
        if self.token is None:
            log.info("%s: not polled, because the last poll still runs", self.slug)
        return self.token

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if self.token is not None:
            Cluster.objects.filter(lease_token=self.token).update(lease_token="", lease_expires_at=None)
        if kind is not None and issubclass(kind, LeaseLost):
            log.warning("%s: nothing kept, because another poll took over", self.slug)
            return True
        return False


def confirm(token: str) -> Cluster:
    """The leased cluster, its row locked to the end of the transaction. Raises LeaseLost.

    Whoever wants the lease from now on waits for this transaction and finds what it wrote. A lease that has
    expired but that nobody took still counts.
    """
    if not token or not Cluster.objects.filter(lease_token=token).update(lease_token=token):
        raise LeaseLost
    return Cluster.objects.get(lease_token=token)


def forget(slug: str) -> None:
    """Take the lease of this cluster from a holder that is known to be dead, which would keep it to its end."""
    Cluster.objects.filter(slug=slug).update(lease_token="", lease_expires_at=None)


def _taken(slug: str, lasting: timedelta) -> str | None:
    now = timezone.now()
    token = secrets.token_hex(16)
    is_free = Q(lease_token="") | Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)
    rows = Cluster.objects.filter(is_free, slug=slug).update(
        lease_token=token, lease_expires_at=now + lasting
    )
    return token if rows else None
