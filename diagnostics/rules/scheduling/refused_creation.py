"""GPU workloads whose pods are never made, because the API server refuses them: there is no pod to look at."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

import msgspec

from diagnostics.findings import Evidence, Hit, Subject
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.scheduling.refusal_kinds import Told, told_by
from diagnostics.rules.scheduling.refusal_steps import refusal_fix
from diagnostics.snapshot import Event, Snapshot, Workload, gpu_resources
from diagnostics.text import listed, printable

CHAIN = 8
"""Owner references are data: a loop in them must end."""
_Key = tuple[str, str, str]


class _Refusal(msgspec.Struct, frozen=True):
    event: Event
    told: Told


def hits(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One per GPU workload that lacks pods and whose controller was refused for long enough."""
    refused: dict[_Key, list[_Refusal]] = defaultdict(list)
    for event in _said(snapshot):
        told = told_by(event.message)
        if told is not None:
            refused[event.kind, event.namespace, event.name].append(_Refusal(event, told))
    for key, found in refused.items():
        maker = snapshot.workload_by_key.get(key)
        missing = _missing(maker, snapshot)
        first = min((r.event.first_at for r in found if r.event.first_at is not None), default=None)
        last = max(found, key=lambda r: (r.event.last_at is not None, r.event.last_at or 0))
        age = snapshot.age(first)
        if missing == 0 or age is None or not _asks_for_gpus(key, maker, last.told, snapshot):
            continue
        subject = _subject(key, maker, snapshot)
        if _exists_now(last.told, snapshot):
            continue
        if age > limits.of(subject).values.pending_after:
            yield _hit(subject, key, found, last, missing, first, snapshot)


def _said(snapshot: Snapshot) -> Iterator[Event]:
    """Events of controllers that could not make a pod, and the condition that a ReplicaSet keeps longer than that.

    Controllers name the reason `FailedCreate`, `FailedCreatePod`, `FailedToCreateWorkerPod` and the like.
    """
    for event in snapshot.events:
        if event.kind != "Pod" and event.reason.startswith("Failed") and "Create" in event.reason:
            yield event
    for workload in snapshot.workloads:
        for condition in workload.conditions:
            if condition.type == "ReplicaFailure" and condition.status == "True":
                yield Event(
                    kind=workload.kind, namespace=workload.namespace, name=workload.name,
                    reason=condition.reason, message=condition.message, first_at=condition.since,
                    last_at=condition.since,
                )  # fmt: skip


def _missing(maker: Workload | None, snapshot: Snapshot) -> int | None:
    """Pods that the controller still wants; None where it could not be read."""
    if maker is None or maker.replicas is None:
        return None
    if maker.is_suspended:
        return 0
    if maker.kind == "Deployment":
        mine = [p for p in snapshot.pods if p.root == maker.key]
    else:
        mine = [
            p for p in snapshot.pods if any(o.uid == maker.uid and o.name == maker.name for o in p.owners)
        ]
    return max(0, maker.replicas - sum(pod.phase != "Failed" for pod in mine))


def _exists_now(told: Told, snapshot: Snapshot) -> bool:
    """The runtime class has been made since: the controller tries again within minutes."""
    classes = snapshot.policy.runtime_classes
    return told.cause == "runtime-class-missing" and any(one.name == told.name for one in classes or ())


def _asks_for_gpus(key: _Key, maker: Workload | None, told: Told, snapshot: Snapshot) -> bool:
    """By what was refused, by the controller's template, or by the pods that it did make.

    Who names NVIDIA's runtime class means a GPU. The operator's own DaemonSets do so too: theirs is another rule.
    """
    if gpu_resources(dict.fromkeys(told.requested, 1.0)) or (maker is not None and maker.spec):
        return True
    kind, namespace, name = key
    if told.cause == "runtime-class-missing" and "nvidia" in told.name.lower() and kind != "DaemonSet":
        return True
    return any(
        pod.gpus and pod.namespace == namespace and any((o.kind, o.name) == (kind, name) for o in pod.owners)
        for pod in snapshot.pods
    )


def _subject(key: _Key, maker: Workload | None, snapshot: Snapshot) -> Subject:
    """The top of the owner chain."""
    kind, namespace, name = key
    if maker is None:
        return Subject(kind, name, namespace)
    for _ in range(CHAIN):
        above = maker.owners[0] if maker.owners else None
        if above is None:
            break
        parent = snapshot.workload_by_key.get((above.kind, namespace, above.name))
        if parent is None:
            return Subject(above.kind, above.name, namespace, above.uid, above.api_version)
        maker = parent
    return Subject.of_owner(maker.key)


def _hit(
    subject: Subject,
    key: _Key,
    found: list[_Refusal],
    last: _Refusal,
    missing: int | None,
    first: datetime | None,
    snapshot: Snapshot,
) -> Hit:
    kind, namespace, _ = key
    told = last.told
    source = f"event {printable(last.event.reason, 40)} of {printable(f'{kind} {namespace}/{key[2]}', 200)}"
    lacking = "pods" if missing is None else f"{missing} pod{'' if missing == 1 else 's'}"
    gpus = int(sum(gpu_resources(told.requested).values()))
    return Hit(
        subject=subject,
        cause=told.cause,
        title=f"Not a GPU shortage: {told.blamed} keeps {printable(str(subject), 160)} from making {lacking} "
        f"for {span(snapshot.age(first))}",
        summary=f"{told.why} The API server refuses the pods, so that no pod exists and no scheduler says anything. "
        f'The refusal: "{printable(last.event.message, 600)}"',
        evidence=(
            Evidence.of_moment("refused since", first, source),
            *(Evidence(label, value, source=source) for label, value in told.facts),
            *_objects(told, namespace, snapshot),
            Evidence("refusals", str(sum(r.event.count for r in found)), "events", source),
        ),
        fix=refusal_fix(subject, told, namespace),
        gpus=gpus * (missing or 1),
    )


def _objects(told: Told, namespace: str, snapshot: Snapshot) -> Iterator[Evidence]:
    """What the quota, the limit range or the classes are now, where they could be read."""
    policy = snapshot.policy
    if told.cause == "namespace-resource-quota-exceeded":
        quota = policy.quota_by_key.get((namespace, told.name))
        for name, hard in sorted(quota.hard.items()) if quota else ():
            if name in told.names:
                value = f"{quota.used.get(name, 0.0):g} of {hard:g}" if quota else ""
                source = f"status of ResourceQuota {printable(told.name, 120)}"
                yield Evidence(f"used now: {printable(name, 80)}", value, source=source)
    elif told.cause == "limit-range-violated" and policy.limit_ranges is not None:
        names = [printable(r.name, 80) for r in policy.limit_ranges if r.namespace == namespace]
        yield Evidence(
            "limit ranges of the namespace", listed(names) if names else "none now", source="LimitRanges"
        )
    elif told.cause == "priority-class-missing" and policy.priority_classes is not None:
        names = [printable(one.name, 80) for one in policy.priority_classes]
        yield Evidence(
            "priority classes that exist", listed(names, 8) if names else "none", source="PriorityClasses"
        )
    elif told.cause == "runtime-class-missing" and policy.runtime_classes is not None:
        names = [printable(one.name, 80) for one in policy.runtime_classes]
        yield Evidence(
            "runtime classes that exist", listed(names, 8) if names else "none", source="RuntimeClasses"
        )
