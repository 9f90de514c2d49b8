"""Other incidents that tell of a finding's subject: those before it, and those of a node that fails again and again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.http import urlencode

from diagnostics.findings import Subject, fingerprint
from diagnostics.incidents.cost import NO_WORKLOADS
from diagnostics.models import Cluster, Incident
from diagnostics.models.incident import OPEN_STATUSES
from diagnostics.rules import catalogue
from diagnostics.rules.failures import FAILURES_OVER, LEMON, OCCASION, failure_codes
from diagnostics.views.subjects import fingerprints

MOST_READ = 100
SHOWN = 8
AKIN_FIELDS = (
    *("pk", "fingerprint", "code", "severity", "title", "status"),
    *("opened_at", "reopened_at", "resolved_at"),
)


@dataclass(frozen=True, kw_only=True)
class AkinIncident:
    url: str
    severity: str
    title: str
    opened_at: datetime
    resolved_at: datetime | None
    """None while it is open."""
    is_over: bool


@dataclass(frozen=True, kw_only=True)
class Akin:
    """Each list the newest first, and no more than are shown."""

    before: tuple[AkinIncident, ...]
    """Of the same subject, opened earlier."""
    times: int
    """How often the same rule found the same, without this time."""
    counted: tuple[AkinIncident, ...]
    """What a finding about a node that fails again and again counts."""
    counted_over: timedelta
    occasion: timedelta
    """What opens within it is counted as one."""
    more: int
    """Beyond those of either list."""
    is_all: bool
    """There are not more than were read."""
    offender: AkinIncident | None
    """What is open about its node as one that fails again and again."""


def akin_to(cluster: Cluster, incident: Incident) -> QuerySet[Incident]:
    """The newest of them that opened before `incident`, all that it counts, and what is open about its node."""
    opened_at, subject = incident.opened_at or incident.first_seen, _subject(incident)
    wanted = Q(fingerprint__in=fingerprints(cluster, subject), opened_at__lt=opened_at)
    if incident.slug == LEMON:
        since = incident.last_seen - FAILURES_OVER
        wanted |= (
            Q(code__in=failure_codes(), subject_kind__in=sorted(NO_WORKLOADS))
            & (Q(subject_name=subject.name) | Q(subject_name__startswith=f"{subject.name}/"))
            & (Q(opened_at__gte=since) | Q(reopened_at__gte=since))
            & Q(opened_at__lte=incident.last_seen)
        )
    elif subject.kind in NO_WORKLOADS:
        wanted |= Q(fingerprint=_offender(cluster, subject), status__in=OPEN_STATUSES)
    others = Incident.objects.shown().filter(wanted, cluster=cluster).exclude(pk=incident.pk)
    return others.order_by("-opened_at", "-pk")[:MOST_READ]


def akin_of(cluster: Cluster, incident: Incident, rows: Iterable[dict[str, Any]]) -> Akin:
    """`rows`: AKIN_FIELDS of what `akin_to` finds."""
    rows = sorted(rows, key=lambda row: (row["opened_at"], row["pk"]), reverse=True)
    offender = _offender(cluster, _subject(incident)) if incident.subject_kind in NO_WORKLOADS else ""
    lemon = [row for row in rows if row["fingerprint"] == offender and row["status"] in OPEN_STATUSES]
    rest = [row for row in rows if row not in lemon]
    counts = incident.slug == LEMON
    since, hardware = incident.last_seen - FAILURES_OVER, set(failure_codes() if counts else ())
    counted = [r for r in rest if r["code"] in hardware and (r["reopened_at"] or r["opened_at"]) >= since]
    before = [row for row in rest if row not in counted]
    shown = [[_akin(cluster.slug, row) for row in part[:SHOWN]] for part in (before, counted)]
    return Akin(
        before=tuple(shown[0]),
        times=sum(row["fingerprint"] == incident.fingerprint for row in before),
        counted=tuple(shown[1]),
        counted_over=FAILURES_OVER,
        occasion=OCCASION,
        more=len(rest) - sum(map(len, shown)),
        is_all=len(rows) < MOST_READ,
        offender=_akin(cluster.slug, lemon[0]) if lemon and not counts else None,
    )


def _akin(slug: str, row: dict[str, Any]) -> AkinIncident:
    url = reverse("finding_detail", args=[slug, row["fingerprint"]])
    return AkinIncident(
        url=f"{url}?{urlencode({'incident': row['pk']})}",
        severity=row["severity"],
        title=row["title"],
        opened_at=row["opened_at"],
        resolved_at=row["resolved_at"],
        is_over=row["status"] == Incident.Status.RESOLVED,
    )


def _subject(incident: Incident) -> Subject:
    return Subject(incident.subject_kind, incident.subject_name, incident.subject_namespace)


def _offender(cluster: Cluster, subject: Subject) -> str:
    """Fingerprint of what is said about a subject's node as one that fails again and again."""
    code = next(rule.code for rule in catalogue() if rule.slug == LEMON)
    # A GPU's name begins with its node's.
    return fingerprint(cluster.identity, code, Subject("Node", subject.name.partition("/")[0]))
