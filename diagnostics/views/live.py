"""The last hours at full resolution: what Prometheus said lately, and the question to it, which a worker asks."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.cache import cache

from diagnostics.archive import live
from diagnostics.models import Cluster
from diagnostics.views.sending import NotSent, send

TASK = "diagnostics.tasks.read_live_range"
ASK_EVERY = timedelta(seconds=60)
"""One question per set of GPUs and web process; the task itself asks for none of them twice in half of that."""
OUTDATED_AFTER = timedelta(minutes=10)
"""Older answers are not shown while the next one is awaited."""
SLOW_AFTER = timedelta(seconds=30)
SENT_AGAIN_AFTER = timedelta(seconds=15)
"""Where the broker did not take it."""


@dataclass(frozen=True, kw_only=True)
class Lately:
    """What there is of the last hours."""

    measured: live.Measured | None
    at: datetime | None
    """When Prometheus answered; None before."""
    is_asking: bool
    """An answer is awaited, and there is nothing to show until then."""
    why_not: str
    """Why there is nothing, or not all of it, in sentences; empty while nothing speaks against it."""


def lately(cluster: Cluster, slots: Collection[str], now: datetime) -> Lately:
    """The last answer about these slots; where it is older than a minute, the next one is asked for. One query."""
    declared = settings.CLUSTERS.get(cluster.slug)
    if declared is None or declared.prometheus is None:
        why = (
            "No Prometheus is declared for this cluster, so nothing finer than our own polls' hours is known."
        )
        return Lately(measured=None, at=None, is_asking=False, why_not=why)
    if not slots:
        return Lately(measured=None, at=None, is_asking=False, why_not="There is no GPU to ask about.")
    answer = live.answer_to(cluster, slots)
    age = None if answer is None else now - answer.at
    trouble = "" if age is not None and age < ASK_EVERY else _asked(cluster, slots, now)
    if answer is None or age is None or age >= OUTDATED_AFTER:
        return Lately(
            measured=None, at=None, is_asking=not trouble, why_not=trouble or _waiting(cluster, slots, now)
        )
    words = " ".join(filter(None, (answer.detail, trouble)))
    return Lately(measured=answer.measured, at=answer.at, is_asking=False, why_not=words)


def _asked(cluster: Cluster, slots: Collection[str], now: datetime) -> str:
    """Send the task unless it was sent within the minute; what stands in the way, empty when nothing does."""
    key = _cache_key(cluster, slots)
    if failure := cache.get(f"{key}:failure"):
        return str(failure)
    if not cache.add(key, now, ASK_EVERY.total_seconds()):
        return ""
    cache.add(f"{key}:since", now, OUTDATED_AFTER.total_seconds())
    try:
        send(TASK, cluster.slug, sorted(slots), expires=ASK_EVERY)
    except NotSent as error:
        why = f"Prometheus was not asked: {error}."
        cache.delete(key)
        cache.set(f"{key}:failure", why, SENT_AGAIN_AFTER.total_seconds())
        return why
    return ""


def _waiting(cluster: Cluster, slots: Collection[str], now: datetime) -> str:
    """A hint where an answer is long in coming."""
    since = cache.get(f"{_cache_key(cluster, slots)}:since")
    if since is None or now - since < SLOW_AFTER:
        return ""
    return "No answer has come yet: the worker is busy, or does not run."


def _cache_key(cluster: Cluster, slots: Collection[str]) -> str:
    return f"live:{cluster.pk}:{live.key_of(slots)}"
