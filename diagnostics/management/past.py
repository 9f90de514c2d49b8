"""The past of a simulated cluster, observed by real polls as if the dashboard had been there all the time.

Two weeks from afar, every few hours, which is enough for incidents to open, to be resolved and to come back; then the
last day as closely as polls of a cluster without Prometheus have to follow each other. The hours between are rebuilt
afterwards by the ordinary back-filling. Polls that come late are dropped, so this ends before live polls begin.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from django.conf import settings
from django.utils import timezone

from diagnostics import leases
from diagnostics.clusters import declaration
from diagnostics.models import Cluster, Observation
from diagnostics.pipeline import observe
from diagnostics.simulator.server import moment_url, write_kubeconfig

NAME = "Simulated cluster"
BUSY_NAME = "Simulated cluster (its past is being observed)"
"""Every page shows it, beside the time that the data is of."""
REACH = timedelta(days=14)
CLOSE = timedelta(days=1)
FAR_HOURS = (2, 5, 11, 17)
"""Of the day, UTC: twice a night, so that what is idle then is seen twice and opens an incident, and twice a day."""
CLOSE_STEP = timedelta(minutes=5)
"""As far apart as polls may be for their own samples to make a window."""
LIVE = timedelta(minutes=10)
"""A poll of a moment no older than this was live, or the last one here."""


@dataclass(frozen=True)
class Look:
    """One poll of the past."""

    at: datetime
    is_close: bool


def is_wanted(slug: str) -> bool:
    """Nothing has been observed yet, or the past not to its end."""
    last = Observation.objects.filter(cluster__slug=slug).order_by("-pk").first()
    return last is None or last.finished_at - last.taken_at > LIVE


def looks(now: datetime, after: datetime | None = None) -> Iterator[Look]:
    """Oldest first, up to `now`; those after a moment only, where an earlier start came so far."""
    now = now.replace(microsecond=0)
    closely = now - CLOSE
    midnight = (now - REACH).replace(hour=0, minute=0, second=0)
    for hours in range(24 * (REACH.days + 1)):
        at = midnight + timedelta(hours=hours)
        is_new = after is None or at > after
        if at.hour in FAR_HOURS and now - REACH <= at < closely and is_new:
            yield Look(at, is_close=False)
    at = closely
    while at <= now:
        if after is None or at > after:
            yield Look(at, is_close=True)
        at += CLOSE_STEP


def observe_past(slug: str, url: str, folder: Path) -> Iterator[Observation]:
    """Poll the simulated cluster at `url` at past moments; each poll that was recorded. Changes this process's
    settings, which is to do nothing else.
    """
    paths = _exporter_paths(url)
    interval = settings.POLL_INTERVAL
    # Nobody else observes it yet: a lease is of an earlier start that was ended in the middle of a poll.
    leases.forget(slug)
    cluster = Cluster.objects.filter(slug=slug).first()
    for look in looks(timezone.now(), cluster.last_taken_at if cluster else None):
        # What lies between two polls counts as observed only where these are as close as polls have to be.
        settings.POLL_INTERVAL = CLOSE_STEP if look.is_close else interval
        declared = _declared(moment_url(url, look.at), folder / "kubeconfig-of-the-past", paths, look)
        settings.CLUSTERS = declaration({"clusters": {slug: declared}}, "the past").clusters
        recorded = observe(slug, clock=lambda at=look.at: at)  # type: ignore[misc]
        if recorded is not None:
            yield recorded


def _declared(url: str, kubeconfig: Path, exporter_paths: list[str], look: Look) -> dict[str, Any]:
    """From afar a window has to come from Prometheus; close by, polls make it themselves, at less cost."""
    fields: dict[str, Any] = {"name": BUSY_NAME, "kubeconfig": str(write_kubeconfig(kubeconfig, url))}
    if look.is_close:
        return fields | {"exporters": [url + path for path in exporter_paths]}
    return fields | {"prometheus": {"url": f"{url}/prometheus"}, "request_timeout_s": 60}


def _exporter_paths(url: str) -> list[str]:
    """As service discovery tells them."""
    with urlopen(f"{url}/sd", timeout=20) as answer:  # noqa: S310 - our own http address
        return [group["labels"]["__metrics_path__"] for group in json.load(answer)]
