"""Pods that start together or not at all: their group is missing, has too few pods, or does not fit as a whole."""

import re

import msgspec

from diagnostics.findings import Evidence
from diagnostics.gangs import pod_group_key
from diagnostics.placement import Room, admits
from diagnostics.rules.scheduling.board import Board, Reading
from diagnostics.rules.scheduling.refusals import Refusal
from diagnostics.snapshot import Gang, Pod, PodGroup, Snapshot, Source
from diagnostics.text import printable

_SIBLINGS = re.compile(r"current pods number: (\d+), minMember of group: (\d+)")
_API = {
    "native": "scheduling.k8s.io",
    "volcano": "scheduling.volcano.sh",
    "coscheduling": "scheduling.x-k8s.io",
}
_SCHEDULERS = frozenset({"volcano", "coscheduling", "native", "yunikorn", "kai"})


def group_of(pod: Pod, snapshot: Snapshot) -> PodGroup | None:
    """The PodGroup object that the pod names."""
    key = pod_group_key(pod)
    return next((g for g in snapshot.pod_groups if (g.system, g.namespace, g.name) == key), None)


def is_known_missing(pod: Pod, snapshot: Snapshot) -> bool:
    """It names a group, the groups of that kind were read, and there is none of this name."""
    system, _, name = pod_group_key(pod)
    if not name or group_of(pod, snapshot) is not None:
        return False
    # A slash is in no object's name: the group stands in a Workload, which one version serves.
    kept_in = "workloads" if system == "native" and "/" in name else "podgroups"
    read = any(api.resource == kept_in and api.group == _API[system] for api in snapshot.apis)
    return read and snapshot.source(Source.CUSTOM).state.is_usable


def missing_group(pod: Pod, *, is_sure: bool = True) -> Reading:
    _, _, name = pod_group_key(pod)
    shown = printable(name or pod.pod_group, 80)
    words = f"it belongs to the pod group {shown}, which does not exist"
    if not is_sure:
        words = f"it belongs to the pod group {shown}, for which nobody answers"
    fact = Evidence("pod group", shown, source=f"spec, labels and annotations of pod {pod.key}")
    return Reading("pod-group-missing", words, is_sure=is_sure, facts=(fact,))


def too_few(pod: Pod, snapshot: Snapshot, words: Refusal | None) -> Reading | None:
    """The group waits for more pods than there are: no room would help."""
    group, key = group_of(pod, snapshot), pod_group_key(pod)
    said = _SIBLINGS.search(words.text) if words is not None else None
    if group is not None and group.min_member is not None and snapshot.source(Source.PODS).state == "ok":
        least = group.min_member
        there = sum(
            pod_group_key(other) == key and other.pod_group == pod.pod_group and other.phase != "Failed"
            for other in snapshot.pods
        )
    elif said is not None:
        there, least = int(said[1]), int(said[2])
    else:
        return None
    if there >= least:
        return None
    name = printable(key[2], 80)
    return Reading(
        "pod-group-too-few-pods",
        f"its pod group {name} waits for {least} pods, and only {there} exist",
        facts=(
            Evidence("pods that start together", str(least), "pods", f"PodGroup {name}"),
            Evidence("pods of the group", str(there), "pods", "labels, annotations and spec of all pods"),
        ),
    )


def whole_gang(pod: Pod, board: Board, reading: Reading) -> Reading:
    """`reading`, or that the gang does not fit as a whole although this one pod would."""
    gang = board.snapshot.gang_by_pod.get(pod.key)
    if gang is None or reading.cause not in {"gang-waiting", "fits-now"} or not _is_gang_scheduled(gang):
        return reading
    members = [p for key in gang.members if (p := board.snapshot.pod_by_key.get(key)) is not None]
    waiting = [member for member in members if member.node is None and member.deletion_at is None]
    least = gang.min_available or gang.size or len(members)
    needed = min(len(waiting), least - (len(members) - len(waiting)))
    fits = _fitting(waiting, board)
    if needed <= fits or needed <= 0:
        return reading
    asked = sum(member.gpu_count for member in waiting)
    facts = (
        Evidence("gang scheduler", gang.gang_scheduler, source="its pods"),
        Evidence(
            "pods that must start together", str(least), "pods", "its pod group, job or scheduler's words"
        ),
        Evidence(
            "of these fit now", str(fits), "pods", "allocatable minus requests of bound pods, all nodes"
        ),
        Evidence("GPUs that its waiting pods ask for", str(asked), "GPUs", "spec of its pods"),
    )
    return msgspec.structs.replace(
        reading,
        cause="gang-does-not-fit",
        words=f"its {least} pods start together or not at all, and the free GPUs take {fits} of them",
        is_shortage=True,
        is_sure=True,
        facts=(*facts, *reading.facts),
    )


def _is_gang_scheduled(gang: Gang) -> bool:
    return gang.gang_scheduler in _SCHEDULERS


def _fitting(waiting: list[Pod], board: Board) -> int:
    """How many of these find room beside each other, the largest first, each where least is left over."""
    rooms = [Room(room.node, dict(room.free), room.holders) for room in board.rooms.values()]
    placed = 0
    for pod in sorted(waiting, key=lambda p: (-p.gpu_count, p.key)):
        fitting = [r for r in rooms if admits(pod, r.node) and not r.lacks(pod.effective_requests)]
        if not fitting:
            continue
        name = max(pod.gpus, key=lambda resource: pod.gpus[resource], default="")
        room = min(fitting, key=lambda r: (r.free.get(name, 0.0), r.node.name))
        for resource, amount in {**pod.effective_requests, "pods": 1.0}.items():
            if resource in room.free:
                room.free[resource] -= amount
        placed += 1
    return placed


def yunikorn_quota(pod: Pod, snapshot: Snapshot) -> Reading | None:
    """YuniKorn's queues stand in its configuration; only its events say that one is full."""
    if pod.scheduler != "yunikorn":
        return None
    events = snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ())
    said = [event.message for event in events if "does not fit in queue" in event.message]
    if not said:
        return None
    return Reading(
        "yunikorn-queue-quota",
        "its YuniKorn queue has no quota left for it",
        facts=(Evidence("YuniKorn says", printable(said[-1], 600), source=f"event of pod {pod.key}"),),
    )


def fragmented_by_quota(pod: Pod, reading: Reading, *, is_admitted: bool) -> Reading:
    """A queue counts GPUs in all; a pod needs them on one node."""
    if reading.cause != "fragmented" or not is_admitted:
        return reading
    return msgspec.structs.replace(
        reading,
        cause="gpu-fragmentation-across-nodes",
        words="its queue admitted it by the sum of its quota, and the free GPUs lie in pieces on several nodes",
    )
