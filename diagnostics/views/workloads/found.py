"""Findings that concern a workload: about itself, its gang, one of its pods, or a GPU that it holds."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.urls import reverse

from diagnostics.findings import Subject, fingerprint
from diagnostics.models import Cluster, Incident
from diagnostics.picture import Owner
from diagnostics.rules import RETIRED, catalogue
from diagnostics.views.workloads.seen import Seen

PAST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class FindingLine:
    """One finding that concerns a workload."""

    cluster: str
    """Slug."""
    fingerprint: str
    severity: str
    rank: int
    title: str
    opened_at: datetime | None
    resolved_at: datetime | None
    resolution: str

    @property
    def url(self) -> str:
        """Made when it is shown: of a thousand findings a page shows a few."""
        return reverse("finding_detail", args=[self.cluster, self.fingerprint])


class Findings:
    """The cluster's open findings by what they are about, and what was resolved of one workload. One query."""

    def __init__(self, cluster: Cluster, past_of: Owner | None = None) -> None:
        wanted = Q(status__in=(Incident.Status.OPEN, Incident.Status.ACKNOWLEDGED))
        if past_of is not None:
            wanted |= Q(status=Incident.Status.RESOLVED, fingerprint__in=_fingerprints(cluster, past_of))
        self.past: list[FindingLine] = []
        """The last that were resolved, newest first."""
        self._by_subject: dict[tuple[str, str, str], list[FindingLine]] = defaultdict(list)
        self._by_pod: _ByPlace = defaultdict(lambda: defaultdict(list))
        """Namespace -> name."""
        self._by_slot: _ByPlace = defaultdict(lambda: defaultdict(list))
        """Node -> place in it."""
        for row in cluster.incidents.filter(wanted).order_by("-resolved_at", "-pk").values_list(*_FIELDS):
            status, identity, severity, rank, title, opened_at, resolved_at, resolution, *about = row
            line = FindingLine(
                cluster=cluster.slug,
                fingerprint=identity,
                severity=severity,
                rank=rank,
                title=title,
                opened_at=opened_at,
                resolved_at=resolved_at,
                resolution=resolution,
            )
            if status == Incident.Status.RESOLVED:
                self.past.append(line)
            else:
                self._add(line, *about)
        del self.past[PAST_SHOWN:]

    def of(self, seen: Seen) -> tuple[FindingLine, ...]:
        """Open ones, worst first, each once."""
        found = list(self._about(seen.owner))
        if seen.line.gang is not None:
            found += self._about(seen.line.gang)
        if seen.owner.namespace in self._by_pod:
            by_name = self._by_pod[seen.owner.namespace]
            for pod in seen.line.pods:
                found += by_name.get(pod.name, ())
        if self._by_slot:
            for node, cell in seen.held:
                if node in self._by_slot:
                    found += self._by_slot[node].get(cell.place, ())
        return _in_order(found)

    def of_owner(self, owner: Owner) -> tuple[FindingLine, ...]:
        """Open ones about itself, where nothing is known of its pods."""
        return _in_order(self._about(owner))

    def _about(self, owner: Owner) -> list[FindingLine]:
        return self._by_subject.get((owner.kind, owner.namespace, owner.name), [])

    def _add(self, line: FindingLine, kind: str, namespace: str, name: str, pods: list[str] | None) -> None:
        if kind == "GPU":
            node, _, place = name.partition("/")
            self._by_slot[node][place].append(line)
        else:
            self._by_subject[kind, namespace, name].append(line)
        for key in pods or ():
            of, _, pod = key.partition("/")
            self._by_pod[of][pod].append(line)


type _ByPlace = dict[str, dict[str, list[FindingLine]]]

_FIELDS = (
    *("status", "fingerprint", "severity", "severity_rank", "title"),
    *("opened_at", "resolved_at", "resolution"),
    *("subject_kind", "subject_namespace", "subject_name", "finding__pods"),
)


def _fingerprints(cluster: Cluster, owner: Owner) -> list[str]:
    """Of all that any rule could find about it: they are indexed, subjects are not."""
    subject = Subject(owner.kind, owner.name, owner.namespace)
    codes = [*(rule.code for rule in catalogue()), *RETIRED]
    # While the cluster's identity could not be read, findings were told apart without it.
    return [fingerprint(identity, code, subject) for identity in (cluster.identity, "") for code in codes]


def _in_order(lines: Iterable[FindingLine]) -> tuple[FindingLine, ...]:
    once = {line.fingerprint: line for line in lines}
    return tuple(sorted(once.values(), key=lambda line: (line.rank, line.title, line.fingerprint)))
