"""One poll per cluster at a time: a lease on the cluster's row, which a killed worker cannot hold for ever.

A single conditional UPDATE takes it, on SQLite as on PostgreSQL. Hosts whose clocks differ may take a lease a
little early; no harm is done, because `confirm` lets only the holder of the latest lease write.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from diagnostics.models import Cluster


class LeaseLost(Exception):
    """Another poll took over; nothing of this one may be written."""


@contextmanager
def lease(slug: str, lasting: timedelta) -> Iterator[str | None]:
    """The token of a lease on the cluster with this slug, or None while another poll has it.

    It is given back at the end, and expires after `lasting` if that never comes.
    """
    token = _taken(slug, lasting)
    try:
        yield token
    finally:
        if token is not None:
            Cluster.objects.filter(lease_token=token).update(lease_token="", lease_expires_at=None)


def confirm(token: str) -> Cluster:
    """The leased cluster, its row locked to the end of the transaction. Raises LeaseLost.

    Whoever wants the lease from now on waits for this transaction and finds what it wrote. A lease that has
    expired but that nobody took still counts.
    """
    if not Cluster.objects.filter(lease_token=token).update(lease_token=token):
        raise LeaseLost
    return Cluster.objects.get(lease_token=token)


def _taken(slug: str, lasting: timedelta) -> str | None:
    now = timezone.now()
    token = secrets.token_hex(16)
    is_free = Q(lease_token="") | Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)
    rows = Cluster.objects.filter(is_free, slug=slug).update(
        lease_token=token, lease_expires_at=now + lasting
    )
    return token if rows else None
