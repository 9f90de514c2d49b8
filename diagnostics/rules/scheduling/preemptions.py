"""Preempted events: who lost its pods to whom, counted in rounds, since one preemption may end many pods."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from diagnostics.findings import Subject
from diagnostics.snapshot import Event, OwnerKey, Pod, Snapshot

_BY = re.compile(
    r"Preempted by (?:a )?(?:pod:? )?(?P<by>[\w.-]{1,253}(?:/[\w.-]{1,253})?)(?: on node (?P<node>[\w.-]{1,253}))?"
)
"""`Preempted by pod <uid> on node n` (since Kubernetes 1.27), `Preempted by <namespace>/<name> on node n` before."""
ROUND = timedelta(minutes=1)
"""Pods that one preemption ends are ended within seconds."""
WITHIN = timedelta(hours=1)
"""API servers keep events for about an hour."""
CHAIN = 8


class Preemption(msgspec.Struct, frozen=True):
    """One Preempted event."""

    victim: Subject
    """Owner of the pod that was ended."""
    victim_pod: str
    by: Subject | None
    """Owner of the pod that it made room for; None where that pod is gone."""
    by_pod: Pod | None
    by_text: str
    """UID or name, as the scheduler wrote it."""
    node: str
    at: datetime
    count: int


def preemptions(snapshot: Snapshot) -> list[Preemption]:
    """Those of the last hour, oldest first."""
    by_uid: dict[str, Pod] | None = None
    owners = _Owners(snapshot)
    found = []
    for event in snapshot.events:
        if event.reason != "Preempted" or event.kind != "Pod" or event.last_at is None:
            continue
        match = _BY.search(event.message[:1000])
        if match is None or snapshot.taken_at - event.last_at > WITHIN:
            continue
        if by_uid is None:
            by_uid = {pod.uid: pod for pod in snapshot.pods if pod.uid}
        by = by_uid.get(match["by"]) or snapshot.pod_by_key.get(match["by"])
        found.append(
            Preemption(
                victim=owners.of(event),
                victim_pod=f"{event.namespace}/{event.name}",
                by=Subject.of_pod(by) if by is not None else None,
                by_pod=by,
                by_text=match["by"],
                node=match["node"] or "",
                at=event.last_at,
                count=max(1, event.count),
            )
        )
    return sorted(found, key=lambda one: one.at)


def rounds(given: Sequence[Preemption]) -> int:
    """Preemptions that are more than `ROUND` apart; `given` in the order of time."""
    number, before = 0, None
    for one in given:
        if before is None or one.at - before > ROUND:
            number += one.count
        before = one.at
    return number


def by_victim(given: Iterable[Preemption]) -> dict[Subject, list[Preemption]]:
    found: dict[Subject, list[Preemption]] = defaultdict(list)
    for one in given:
        found[one.victim].append(one)
    return found


class _Owners:
    """Root owners of pods that are mostly gone: by the pod of that name, else by the name that it was given."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._names: dict[str, list[OwnerKey]] = defaultdict(list)
        for workload in snapshot.workloads:
            self._names[workload.namespace].append(workload.key)

    def of(self, event: Event) -> Subject:
        pod = self._snapshot.pod_by_key.get(f"{event.namespace}/{event.name}")
        if pod is not None:
            return Subject.of_pod(pod)
        made = [key for key in self._names[event.namespace] if event.name.startswith(f"{key.name}-")]
        if not made:
            return Subject("Pod", event.name, event.namespace, api_version="v1")
        return Subject.of_owner(self._root(max(made, key=lambda key: len(key.name))))

    def _root(self, key: OwnerKey) -> OwnerKey:
        for _ in range(CHAIN):
            workload = self._snapshot.workload_by_key.get((key.kind, key.namespace, key.name))
            if workload is None or not workload.owners:
                break
            key = msgspec.structs.replace(workload.owners[0], namespace=key.namespace)
        return key
