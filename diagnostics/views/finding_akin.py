"""Other incidents that tell of a finding's subject: those before it, and those of a node that fails again and again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.http import urlencode

from diagnostics.archive.failures import failure_signs
from diagnostics.findings import Subject, fingerprint
from diagnostics.incidents.cost import NO_WORKLOADS
from diagnostics.models import Cluster, Incident, IncidentEvent
from diagnostics.models.incident import OPEN_STATUSES
from diagnostics.rules import catalogue
from diagnostics.rules.failures import FAILURES_OVER, LEMON, OCCASION, occasions
from diagnostics.views.subjects import fingerprints

MOST_READ = 100
SHOWN = 8
OCCASIONS_SHOWN = 20
AKIN_FIELDS = (
    *("pk", "fingerprint", "code", "severity", "title", "status"),
    *("opened_at", "resolved_at"),
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
class Occasion:
    """One failure of a node, told by its first sign."""

    incident: AkinIncident
    at: datetime
    is_return: bool
    """The incident had been resolved, and opened again."""


@dataclass(frozen=True, kw_only=True)
class Akin:
    """Each list the newest first, and no more than are shown."""

    before: tuple[AkinIncident, ...]
    """Of the same subject, opened earlier."""
    times: int
    """How often the same rule found the same, without this time."""
    counted: tuple[Occasion, ...]
    """What a finding about a node that fails again and again counts."""
    counted_more: int
    """Occasions beyond those."""
    counted_over: timedelta
    occasion: timedelta
    """What opens within it is counted as one."""
    more: int
    """Beyond those that were before."""
    is_all: bool
    """There are not more than were read."""
    offender: AkinIncident | None
    """What is open about its node as one that fails again and again."""


def akin_to(cluster: Cluster, incident: Incident) -> QuerySet[Incident]:
    """The newest of them that opened before `incident`, and what is open about its node."""
    opened_at, subject = incident.opened_at or incident.first_seen, _subject(incident)
    wanted = Q(fingerprint__in=fingerprints(cluster, subject), opened_at__lt=opened_at)
    if incident.slug != LEMON and subject.kind in NO_WORKLOADS:
        wanted |= Q(fingerprint=_offender(cluster, subject), status__in=OPEN_STATUSES)
    others = Incident.objects.shown().filter(wanted, cluster=cluster).exclude(pk=incident.pk)
    return others.order_by("-opened_at", "-pk")[:MOST_READ]


class Sign(NamedTuple):
    """An opening or reopening that begins an occasion."""

    incident: int
    at: datetime
    kind: str


def counted_by(cluster: Cluster, incident: Incident) -> list[Sign]:
    """The occasions that `incident` counts as failures of its node, the newest first: as the last poll that saw it
    counted them, which knew what earlier polls had opened. One query, and none for what counts nothing.
    """
    if incident.slug != LEMON:
        return []
    name, end = incident.subject_name, incident.last_seen
    of_node = Q(incident__subject_name=name) | Q(incident__subject_name__startswith=f"{name}/")
    rows = failure_signs(cluster, end - FAILURES_OVER).filter(of_node, at__lt=end)
    signs = (
        (subject, at, Sign(pk, at, kind))
        for subject, at, pk, kind in rows.values_list("incident__subject_name", "at", "incident", "kind")
    )
    return [sign for _, _, sign in occasions(signs)][::-1]


def akin_of(
    cluster: Cluster, incident: Incident, rows: Iterable[dict[str, Any]], counted: Sequence[Sign]
) -> Akin:
    """`rows`: AKIN_FIELDS of what `akin_to` finds, and of the incidents of the first OCCASIONS_SHOWN of `counted`.
    `counted`: as `counted_by` found them.
    """
    rows = sorted(rows, key=lambda row: (row["opened_at"], row["pk"]), reverse=True)
    offender = _offender(cluster, _subject(incident)) if incident.subject_kind in NO_WORKLOADS else ""
    lemon = [row for row in rows if row["fingerprint"] == offender and row["status"] in OPEN_STATUSES]
    shown = counted[:OCCASIONS_SHOWN]
    told = {sign.incident for sign in shown}
    incidents = {row["pk"]: _akin(cluster.slug, row) for row in rows if row["pk"] in told}
    before = [row for row in rows if row not in lemon and row["pk"] not in told]
    return Akin(
        before=tuple(_akin(cluster.slug, row) for row in before[:SHOWN]),
        times=sum(row["fingerprint"] == incident.fingerprint for row in before),
        counted=tuple(
            Occasion(incident=incidents[pk], at=at, is_return=kind == IncidentEvent.Kind.REOPENED)
            for pk, at, kind in shown
            if pk in incidents
        ),
        counted_more=len(counted) - len(shown),
        counted_over=FAILURES_OVER,
        occasion=OCCASION,
        more=max(0, len(before) - SHOWN),
        is_all=len(rows) < MOST_READ,
        offender=_akin(cluster.slug, lemon[0]) if lemon and incident.slug != LEMON else None,
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
