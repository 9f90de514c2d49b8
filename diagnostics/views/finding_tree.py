"""What explains a finding and what follows from it, as one tree from its root causes down; and what is akin to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.urls import reverse

from diagnostics.incidents.cost import NO_WORKLOADS
from diagnostics.models import Cluster, Incident
from diagnostics.views.finding_akin import AKIN_FIELDS, OCCASIONS_SHOWN, Akin, akin_of, akin_to, counted_by
from diagnostics.views.finding_groups import open_pairs
from diagnostics.views.page import workload_url
from diagnostics.views.subjects import subject_words

MOST_SHOWN = 60
"""Findings of one tree."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A finding, with what follows from it."""

    pk: int
    url: str
    severity: str
    title: str
    is_over: bool
    is_this: bool
    """The page is about it."""
    branches: "tuple[Branch, ...]" = ()


@dataclass(frozen=True, kw_only=True)
class TouchedWorkload:
    name: str
    """Kind, namespace and name."""
    url: str
    """Empty where it has no page."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    roots: tuple[Branch, ...]
    """Empty where the finding stands alone."""
    causes: tuple[Branch, ...]
    """Those of the roots that explain it: where to look first. Empty for a root cause itself."""
    workloads: tuple[TouchedWorkload, ...]
    """The finding's subject and those of its symptoms, as far as they are workloads."""
    more: int
    """Findings beyond those that are shown."""
    akin: Akin
    """What is not in the tree, but tells of the same subject."""


_FIELDS = (
    *AKIN_FIELDS,
    *("severity_rank", "gpus"),
    *("subject_kind", "subject_namespace", "subject_name"),
)


def tree_of(cluster: Cluster, incident: Incident) -> Tree:
    """Of what is open now; of a resolved incident, what was said last. Two queries, three where it counts failures."""
    pairs = open_pairs(cluster) if incident.is_open else _last_pairs(incident)
    causes: dict[int, set[int]] = {}
    symptoms: dict[int, set[int]] = {}
    for symptom, cause in pairs:
        causes.setdefault(symptom, set()).add(cause)
        symptoms.setdefault(cause, set()).add(symptom)
    above = _reached(incident.pk, causes)
    below = _reached(incident.pk, symptoms)
    wanted = [incident.pk, *above, *(pk for pk in below if pk not in above)]
    shown = set(wanted[:MOST_SHOWN])
    counted = counted_by(cluster, incident)
    told = {sign.incident for sign in counted[:OCCASIONS_SHOWN]}
    either = Q(pk__in=shown | told) | Q(pk__in=akin_to(cluster, incident).values("pk"))
    found = list(Incident.objects.filter(either).values(*_FIELDS))
    rows = {row["pk"]: row for row in found if row["pk"] in shown}
    maker = _Branches(cluster.slug, incident.pk, rows, symptoms)
    # Where causes run in a circle nothing is a root: then the tree begins with the finding itself.
    heads = [pk for pk in above if pk in rows and not causes.get(pk, set()) & rows.keys()]
    heads.sort(key=lambda pk: _order(rows[pk]))
    roots = tuple(maker.branch(rows[pk]) for pk in heads or [incident.pk])
    return Tree(
        roots=roots if len(rows) > 1 else (),
        causes=roots if heads else (),
        workloads=_workloads(cluster.slug, (rows[pk] for pk in (incident.pk, *below) if pk in rows)),
        more=len(wanted) - len(rows),
        akin=akin_of(
            cluster, incident, (row for row in found if row["pk"] in told or row["pk"] not in shown), counted
        ),
    )


def _last_pairs(incident: Incident) -> list[tuple[int, int]]:
    pairs = Incident.causes.through.objects.filter(Q(from_incident=incident) | Q(to_incident=incident))
    return list(pairs.values_list("from_incident_id", "to_incident_id"))


def _reached(pk: int, edges: dict[int, set[int]]) -> list[int]:
    """All that can be reached from `pk`, the nearest first, without itself."""
    seen, frontier = {pk: None}, [pk]
    while frontier:
        frontier = [to for at in frontier for to in sorted(edges.get(at, ())) if to not in seen]
        frontier = list(dict.fromkeys(frontier))
        seen.update(dict.fromkeys(frontier))
    return list(seen)[1:]


def _order(row: dict[str, Any]) -> tuple[int, ...]:
    return (row["severity_rank"], -row["gpus"], row["pk"])


class _Branches:
    """Makes branches; each finding grows once, under the first of its causes."""

    def __init__(
        self, slug: str, this: int, rows: dict[int, dict[str, Any]], symptoms: dict[int, set[int]]
    ) -> None:
        self.slug = slug
        self.this = this
        self.rows = rows
        self.symptoms = symptoms
        self.grown: set[int] = set()

    def branch(self, row: dict[str, Any]) -> Branch:
        self.grown.add(row["pk"])
        below = [self.rows[pk] for pk in self.symptoms.get(row["pk"], ()) if pk in self.rows]
        below.sort(key=_order)
        return Branch(
            pk=row["pk"],
            url=reverse("finding_detail", args=[self.slug, row["fingerprint"]]),
            severity=row["severity"],
            title=row["title"],
            is_over=row["status"] == Incident.Status.RESOLVED,
            is_this=row["pk"] == self.this,
            branches=tuple(self.branch(one) for one in below if one["pk"] not in self.grown),
        )


def _workloads(slug: str, rows: Iterable[dict[str, Any]]) -> tuple[TouchedWorkload, ...]:
    keys = [(row["subject_kind"], row["subject_namespace"], row["subject_name"]) for row in rows]
    return tuple(
        TouchedWorkload(
            name=subject_words(kind, namespace, name),
            url=workload_url(slug, kind, namespace, name),
        )
        for kind, namespace, name in dict.fromkeys(keys)
        if kind not in NO_WORKLOADS
    )
