"""Open findings in groups: causes, each with the symptoms that follow from it, in the order that is asked for."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.urls import reverse

from diagnostics.findings import Severity
from diagnostics.models import Cluster, Incident
from diagnostics.models.incident import OPEN_STATUSES
from diagnostics.views.subjects import subject_words

SYMPTOMS_SHOWN = 10
"""Under one cause: a dead driver may have a thousand."""


class Sort(StrEnum):
    """What the first of a list has most of."""

    SEVERITY = "severity"
    """Then GPUs, then age."""
    GPUS = "gpus"
    WASTE = "waste"
    AGE = "age"


@dataclass(frozen=True, kw_only=True)
class FindingRow:
    """One line of the list: a finding that explains others, or stands alone, with its symptoms."""

    id: str
    url: str
    severity: str
    title: str
    subject: str
    code: str
    slug: str
    status: str
    assignee: str
    """Empty for nobody."""
    open_since: datetime | None
    gpus: int
    waste_gpus: float | None
    symptoms: "tuple[FindingRow, ...]" = ()
    more: int = 0
    """Symptoms beyond those."""
    worse: tuple[tuple[str, int], ...] = ()
    """(severity, number) of the symptoms that are worse than it, which decide where the group stands."""


def grouped(cluster: Cluster, incidents: list[Incident], sort: Sort) -> list[FindingRow]:
    """Root causes with all that follows from them; a group counts as its worst member. One query, for who causes whom.

    `incidents`: open ones, with their assignees.
    """
    by_id = {incident.pk: incident for incident in incidents}
    causes: dict[int, list[int]] = {}
    for symptom, cause in open_pairs(cluster):
        if symptom in by_id and cause in by_id:
            causes.setdefault(symptom, []).append(cause)
    symptoms: dict[int, list[Incident]] = {}
    roots = []
    for incident in incidents:
        root = _path(incident.pk, causes, by_id)[-1]
        if root == incident.pk:
            roots.append(incident)
        else:
            symptoms.setdefault(root, []).append(incident)
    first = _FIRST[sort]

    def key(incident: Incident) -> tuple[Any, ...]:
        group = [incident, *symptoms.get(incident.pk, ())]
        return (*first(group), *_order(incident))

    def near(incident: Incident) -> tuple[Any, ...]:
        """What the root causes itself comes before what follows from that."""
        return (len(_path(incident.pk, causes, by_id)), *_order(incident))

    return [
        _row(cluster.slug, root, sorted(symptoms.get(root.pk, ()), key=near))
        for root in sorted(roots, key=key)
    ]


def open_pairs(cluster: Cluster) -> list[tuple[int, int]]:
    """(symptom, cause) of all incidents that are open. One query."""
    pairs = Incident.causes.through.objects.filter(
        from_incident__cluster=cluster,
        from_incident__status__in=OPEN_STATUSES,
        to_incident__status__in=OPEN_STATUSES,
    )
    return list(pairs.values_list("from_incident_id", "to_incident_id"))


Group = list[Incident]


def _most_gpus(group: Group) -> tuple[Any, ...]:
    return (-max(incident.gpus for incident in group),)


def _most_waste(group: Group) -> tuple[Any, ...]:
    """What is not known comes last: it is not zero."""
    known = [incident.waste_gpus for incident in group if incident.waste_gpus is not None]
    return (not known, -max(known, default=0.0))


def _oldest(group: Group) -> tuple[Any, ...]:
    return (min(incident.open_since or incident.first_seen for incident in group),)


def _worst(group: Group) -> tuple[Any, ...]:
    return (min(incident.severity_rank for incident in group), *_most_gpus(group))


_FIRST: dict[Sort, Callable[[Group], tuple[Any, ...]]] = {
    Sort.SEVERITY: _worst,
    Sort.GPUS: _most_gpus,
    Sort.WASTE: _most_waste,
    Sort.AGE: _oldest,
}


def _path(pk: int, causes: dict[int, list[int]], by_id: dict[int, Incident]) -> list[int]:
    """From `pk` along the worst cause of each up to one without a cause; the worst, where causes run in a circle."""
    path = [pk]
    while path[-1] in causes:
        at = min(causes[path[-1]], key=lambda cause: _order(by_id[cause]))
        if at in path:
            return [min(path, key=lambda member: _order(by_id[member]))]
        path.append(at)
    return path


def _order(incident: Incident) -> tuple[Any, ...]:
    return (incident.severity_rank, -incident.gpus, incident.open_since, incident.code, incident.pk)


def _row(slug: str, incident: Incident, symptoms: Sequence[Incident] = ()) -> FindingRow:
    worse = Counter(
        symptom.severity for symptom in symptoms if symptom.severity_rank < incident.severity_rank
    )
    return FindingRow(
        id=incident.fingerprint,
        url=reverse("finding_detail", args=[slug, incident.fingerprint]),
        severity=incident.severity,
        title=incident.title,
        subject=subject_words(incident.subject_kind, incident.subject_namespace, incident.subject_name),
        code=incident.code,
        slug=incident.slug,
        status=incident.status,
        assignee=incident.assignee.get_username() if incident.assignee else "",
        open_since=incident.open_since,
        gpus=incident.gpus,
        waste_gpus=incident.waste_gpus,
        symptoms=tuple(_row(slug, symptom) for symptom in symptoms[:SYMPTOMS_SHOWN]),
        more=max(0, len(symptoms) - SYMPTOMS_SHOWN),
        worse=tuple((severity.value, worse[severity]) for severity in Severity if worse[severity]),
    )
