"""What waits, grouped by who must be helped: a workload, or a gang of bare pods, with the reason of each."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from diagnostics.models import Cluster
from diagnostics.picture import Owner, PodLine, WorkloadLine, Workloads
from diagnostics.views.page import workload_url

WAITING, PARTIAL = "pending-gpu-pod", "partial-gang"
"""Slugs of the rules whose findings explain what waits."""
NOT_MADE = "quota"
"""Cause of a finding about pods that their controller may not even make."""
UNEXPLAINED = "unexplained"
CLAIMS = "resource claims"
SAID_SHOWN = 2


def in_words(cause: str) -> str:
    """Of a cause's slug."""
    return cause.replace("-", " ").capitalize()


@dataclass(frozen=True, kw_only=True)
class Reason:
    """An open finding that explains why something waits."""

    url: str
    severity: str
    cause: str
    title: str
    summary: str

    @property
    def words(self) -> str:
        """The cause in words."""
        return in_words(self.cause)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Pods that ask for the same."""

    pods: int
    amount: str
    """`8 × nvidia.com/gpu`, several joined."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A workload, or a gang of bare pods, with pods that wait."""

    owner: Owner
    url: str
    """Of its page; empty where it has none."""
    pods: int
    """That wait; 0 for those that may not be made."""
    running: int
    wanted: int | None
    min_available: int | None
    gang_scheduler: str
    queue: str
    priority: int | None
    asks: tuple[Ask, ...]
    gpus: int
    """That they ask for in all."""
    resources: tuple[str, ...]
    oldest: datetime | None
    reason: Reason | None
    """None: no finding explains it yet."""
    partial: Reason | None
    """The finding that a part of it runs meanwhile, and holds GPUs."""
    said: tuple[tuple[str, int], ...]
    """What Kubernetes says of its pods, with how many of them, the most frequent first."""
    silent: int
    """Pods of which it says nothing."""

    @property
    def cause(self) -> str:
        return self.reason.cause if self.reason else UNEXPLAINED


class Reasons:
    """Open findings about what waits. One query."""

    def __init__(self, cluster: Cluster) -> None:
        self._by_subject: dict[tuple[str, Owner], Reason] = {}
        self._by_pod: dict[tuple[str, str], Reason] = {}
        self.not_made: list[tuple[Owner, Reason, int, datetime | None]] = []
        rows = cluster.incidents.opened().filter(slug__in=(WAITING, PARTIAL))
        for (
            slug,
            identity,
            severity,
            cause,
            title,
            summary,
            gpus,
            opened_at,
            *subject,
            pods,
        ) in rows.values_list(
            *("slug", "fingerprint", "severity", "cause", "title", "summary", "gpus", "opened_at"),
            *("subject_kind", "subject_namespace", "subject_name", "finding__pods"),
        ):
            reason = Reason(
                url=reverse("finding_detail", args=[cluster.slug, identity]),
                severity=severity,
                cause=cause,
                title=title,
                summary=summary,
            )
            owner = Owner(*subject)
            self._by_subject[slug, owner] = reason
            for pod in pods or ():
                self._by_pod[slug, pod] = reason
            if slug == WAITING and cause == NOT_MADE:
                self.not_made.append((owner, reason, gpus, opened_at))

    def of(self, slug: str, owner: Owner, pods: Iterable[str]) -> Reason | None:
        found = (self._by_pod.get((slug, pod)) for pod in pods)
        return self._by_subject.get((slug, owner)) or next((reason for reason in found if reason), None)


def groups_of(slug: str, workloads: Workloads, reasons: Reasons) -> list[Group]:
    """Everything that waits, and what may not be made."""
    lines: dict[Owner, list[WorkloadLine]] = defaultdict(list)
    waits: set[Owner] = set()
    for line in workloads.lines:
        # Bare pods of one gang wait for each other: they are one line, whatever each is called.
        owner = line.gang if line.gang is not None and line.owner.kind == "Pod" else line.owner
        lines[owner].append(line)
        if any(pod.is_waiting for pod in line.pods):
            waits.add(owner)
    found = [_group(slug, owner, lines[owner], reasons) for owner in lines if owner in waits]
    for owner, reason, gpus, opened_at in reasons.not_made:
        if owner not in waits:
            found.append(_not_made(slug, owner, reason, gpus, opened_at, lines.get(owner, ())))
    return found


def _group(slug: str, owner: Owner, lines: list[WorkloadLine], reasons: Reasons) -> Group:
    pods = [pod for line in lines for pod in line.pods if pod.is_waiting]
    keys = [f"{owner.namespace}/{pod.name}" for pod in pods]
    said = Counter(pod.trouble for pod in pods if pod.trouble)
    first = lines[0]
    resources = {resource for pod in pods for resource in pod.gpus}
    resources |= {CLAIMS} if any(pod.claims for pod in pods) else set()
    is_gang_of_pods = owner != first.owner
    return Group(
        owner=owner,
        url="" if is_gang_of_pods else workload_url(slug, owner.kind, owner.namespace, owner.name),
        pods=len(pods),
        running=_running(lines),
        wanted=first.wanted,
        min_available=first.min_available,
        gang_scheduler=first.gang_scheduler,
        queue=first.queue,
        priority=max((line.priority for line in lines if line.priority is not None), default=None),
        asks=_asks(pods),
        gpus=sum(pod.gpu_count for pod in pods),
        resources=tuple(sorted(resources)),
        oldest=min((pod.created_at for pod in pods if pod.created_at), default=None),
        reason=reasons.of(WAITING, owner, keys),
        partial=reasons.of(PARTIAL, owner, keys),
        said=tuple(said.most_common(SAID_SHOWN)),
        silent=sum(not pod.trouble for pod in pods),
    )


def _not_made(
    slug: str, owner: Owner, reason: Reason, gpus: int, since: datetime | None, lines: Iterable[WorkloadLine]
) -> Group:
    lines = list(lines)
    return Group(
        owner=owner,
        url=workload_url(slug, owner.kind, owner.namespace, owner.name) if lines else "",
        pods=0,
        running=_running(lines),
        wanted=lines[0].wanted if lines else None,
        min_available=lines[0].min_available if lines else None,
        gang_scheduler=lines[0].gang_scheduler if lines else "",
        queue=lines[0].queue if lines else "",
        priority=lines[0].priority if lines else None,
        asks=(),
        gpus=gpus,
        resources=(),
        oldest=since,
        reason=reason,
        partial=None,
        said=(),
        silent=0,
    )


def _running(lines: Iterable[WorkloadLine]) -> int:
    return sum(pod.phase == "Running" and pod.deletion_at is None for line in lines for pod in line.pods)


def _asks(pods: list[PodLine]) -> tuple[Ask, ...]:
    counted = Counter(_amount(pod) for pod in pods)
    return tuple(Ask(pods=number, amount=amount) for amount, number in counted.most_common())


def _amount(pod: PodLine) -> str:
    parts = [f"{amount:g} × {resource}" for resource, amount in sorted(pod.gpus.items())]
    parts += [f"{pod.claims} × resource claim"] if pod.claims else []
    return " + ".join(parts)
