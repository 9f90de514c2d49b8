"""What waits, grouped by who must be helped: a workload, or a gang of bare pods, with the reason of each."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from diagnostics.models import Cluster
from diagnostics.picture import Owner, PodLine, ReachLine, WorkloadLine, Workloads
from diagnostics.rules.scheduling.refusal_kinds import CAUSES
from diagnostics.views.open_findings import FindingLine, OpenFindings, finding_lines
from diagnostics.views.page import workload_url
from diagnostics.views.workloads.seen import counted

WAITING, PARTIAL = "pending-gpu-pod", "partial-gang"
"""Slugs of the rules whose findings explain what waits."""
NOT_MADE = CAUSES
"""Causes of findings about pods that their controller may not even make."""
UNEXPLAINED = "unexplained"
CLAIMS = "resource claims"
SAID_SHOWN = 2


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Pods that ask for the same."""

    pods: int
    amount: str
    """`8 × nvidia.com/gpu`, several joined."""
    reach: ReachLine | None
    """Where they may run; None where that is not known."""


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
    oldest: datetime | None
    reason: FindingLine | None
    """None: no finding explains it yet."""
    partial: FindingLine | None
    """The finding that a part of it runs meanwhile, and holds GPUs."""
    said: tuple[tuple[str, int], ...]
    """What Kubernetes says of its pods, with how many of them, the most frequent first."""


class Waiting(NamedTuple):
    """A group as far as a list of all of them is filtered and sorted by it."""

    owner: Owner
    lines: Sequence[WorkloadLine]
    pods: Sequence[PodLine]
    """That wait; none of those that may not be made."""
    gpus: int
    oldest: datetime | None
    resources: frozenset[str]
    reason: FindingLine | None

    @property
    def cause(self) -> str:
        return self.reason.cause if self.reason else UNEXPLAINED

    @property
    def queue(self) -> str:
        return self.lines[0].queue if self.lines else ""


class Reasons:
    """Open findings about what waits. One query."""

    def __init__(self, cluster: Cluster) -> None:
        lines = finding_lines(cluster, cluster.incidents.opened().filter(slug__in=(WAITING, PARTIAL)))
        self._by_rule = {
            rule: OpenFindings(line for line in lines if line.rule == rule) for rule in (WAITING, PARTIAL)
        }
        self.not_made = [line for line in lines if line.rule == WAITING and line.cause in NOT_MADE]

    def of(self, rule: str, owner: Owner, pods: Iterable[PodLine]) -> FindingLine | None:
        """About the owner itself, or about one of its pods."""
        findings = self._by_rule[rule]
        about = findings.by_owner.get(owner)
        if about is None and findings.by_pod:
            named = (findings.by_pod.get(f"{owner.namespace}/{pod.name}") for pod in pods)
            about = next((lines for lines in named if lines), None)
        return about[0] if about else None


def waiting_of(workloads: Workloads, reasons: Reasons) -> list[Waiting]:
    """Everything that waits, and what may not be made."""
    lines: dict[Owner, list[WorkloadLine]] = defaultdict(list)
    waits: dict[Owner, list[PodLine]] = {}
    for line in workloads.lines:
        # Bare pods of one gang wait for each other: they are one line, whatever each is called.
        owner = line.gang if line.gang is not None and line.owner.kind == "Pod" else line.owner
        lines[owner].append(line)
        pods = [pod for pod in line.pods if pod.is_waiting]
        if pods:
            waits.setdefault(owner, []).extend(pods)
    found = [_waiting(owner, lines[owner], pods, reasons) for owner, pods in waits.items()]
    for reason in reasons.not_made:
        if (owner := reason.owner) not in waits:
            of_owner = lines.get(owner, ())
            found.append(Waiting(owner, of_owner, (), reason.gpus, reason.open_since, frozenset(), reason))
    return found


def _waiting(owner: Owner, lines: list[WorkloadLine], pods: list[PodLine], reasons: Reasons) -> Waiting:
    resources = {resource for pod in pods for resource in pod.gpus}
    if any(pod.claims for pod in pods):
        resources.add(CLAIMS)
    return Waiting(
        owner=owner,
        lines=lines,
        pods=pods,
        gpus=sum(pod.gpu_count for pod in pods),
        oldest=min((pod.created_at for pod in pods if pod.created_at), default=None),
        resources=frozenset(resources),
        reason=reasons.of(WAITING, owner, pods),
    )


def group_of(slug: str, waiting: Waiting, reasons: Reasons) -> Group:
    """All that is shown of it."""
    owner, lines, pods, gpus, oldest, _, reason = waiting
    first = lines[0] if lines else None
    has_page = first is not None and first.owner == owner
    return Group(
        owner=owner,
        url=workload_url(slug, owner.kind, owner.namespace, owner.name) if has_page else "",
        pods=len(pods),
        running=sum(counted(line.pods).running for line in lines),
        wanted=first.wanted if first else None,
        min_available=first.min_available if first else None,
        gang_scheduler=first.gang_scheduler if first else "",
        queue=waiting.queue,
        priority=max((line.priority for line in lines if line.priority is not None), default=None),
        asks=_asks(pods),
        gpus=gpus,
        oldest=oldest,
        reason=reason,
        partial=reasons.of(PARTIAL, owner, pods),
        said=tuple(Counter(pod.trouble for pod in pods if pod.trouble).most_common(SAID_SHOWN)),
    )


def _asks(pods: Iterable[PodLine]) -> tuple[Ask, ...]:
    alike = Counter((_amount(pod), pod.reach) for pod in pods)
    return tuple(
        Ask(pods=number, amount=amount, reach=reach) for (amount, reach), number in alike.most_common()
    )


def _amount(pod: PodLine) -> str:
    parts = [f"{amount:g} × {resource}" for resource, amount in sorted(pod.gpus.items())]
    parts += [f"{pod.claims} × resource claim"] if pod.claims else []
    return " + ".join(parts)
