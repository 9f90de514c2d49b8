"""Free GPUs on a node are of no use, because other pods have taken its CPU or memory.

## Meaning
The node has free GPUs, and too little CPU or memory is left beside them for any pod that waits and for a typical
request of one GPU. Pods without GPUs have taken it, or GPU pods that ask for more than their share of the node.

## Impact
The GPUs cost as much as busy ones. Pods that wait for GPUs are refused with `Insufficient cpu` or `Insufficient
memory`.

## Evidence
Allocatable CPU, memory and GPUs of the node; requests of the pods on it; requests of the pods that wait for GPUs.

## Not reported
Nodes without free GPUs; nodes on which some waiting pod, or a typical one, still fits; nodes that are too small for a
typical request even when they are empty; nodes that are cordoned or not ready; less than `stranded_after`.

## References
https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from diagnostics.findings import Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits
from diagnostics.placement import Room, admits, rooms
from diagnostics.quantities import gib, span
from diagnostics.rules.base import rule
from diagnostics.rules.scheduling.stranded_fix import stranded_fix
from diagnostics.snapshot import Pod, Snapshot, Source, SourceState, gpu_resources
from diagnostics.states import wanted_beside_a_gpu
from diagnostics.text import counted, listed, printable

Wanted = Sequence[tuple[float, float]]
MOST_TAKERS = 6
_SCARCE = ("cpu", "memory")


class _Stranding(msgspec.Struct, frozen=True):
    """One node with free GPUs that nothing fits beside."""

    room: Room
    scarce: str
    """What is short: cpu or memory."""
    takers: tuple[Pod, ...]
    """Pods that could make room, those that take most first."""
    by_gpu_pods: bool
    """Without pods that have no GPU it would still be short."""


@rule(
    code="GPU307",
    slug="stranded-gpus",
    severity=Severity.WARNING,
    needs={Source.PODS, Source.NODES},
    uses={Source.WORKLOADS},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    wanted = wanted_beside_a_gpu(snapshot, limits.site)
    all_seen = snapshot.source(Source.PODS).state is SourceState.OK
    waiting = [p for p in snapshot.pods if p.gpus and p.node is None and p.phase == "Pending"]
    for room in rooms(snapshot).values():
        subject = Subject.of_node(room.node)
        found = _stranding(room, wanted)
        if found is None:
            continue
        if not all_seen:
            yield Unjudged(subject, "not all pods could be read, and GPUs that look free may be held")
            continue
        age = snapshot.age(_since(found, wanted))
        if age is not None and age > limits.of(subject).values.stranded_after:
            yield _hit(subject, found, span(age), _kept_waiting(found, waiting))


def _stranding(room: Room, wanted: Wanted) -> _Stranding | None:
    node = room.node
    is_up = node.is_ready is not False and not node.unschedulable
    if not is_up or not _free_gpus(room) or any(name not in room.free for name in _SCARCE):
        return None
    if _fits(room.free, wanted):
        return None
    movable = [pod for pod in room.holders if not _is_of_the_node(pod)]
    if not _fits(_given_back(room, movable), wanted):
        return None
    others = [pod for pod in movable if not pod.gpus]
    by_gpu_pods = not _fits(_given_back(room, others), wanted)
    typical = zip(_SCARCE, wanted[0], strict=True)
    scarce = next(name for name, want in typical if want > room.free[name])
    takers = movable if by_gpu_pods else others
    ranked = sorted(takers, key=lambda p: (-p.effective_requests.get(scarce, 0.0), p.key))
    return _Stranding(room, scarce, tuple(p for p in ranked if p.effective_requests.get(scarce)), by_gpu_pods)


def _fits(free: Mapping[str, float], wanted: Wanted) -> bool:
    return any(cpu <= free["cpu"] and memory <= free["memory"] for cpu, memory in wanted)


def _given_back(room: Room, leaving: Sequence[Pod]) -> dict[str, float]:
    return {name: room.free_without(name, leaving) for name in _SCARCE}


def _is_of_the_node(pod: Pod) -> bool:
    """A DaemonSet's or a static pod: it is part of the node."""
    return any(owner.kind in {"DaemonSet", "Node"} for owner in pod.owners)


def _free_gpus(room: Room) -> dict[str, int]:
    return {name: int(amount) for name, amount in gpu_resources(room.free).items() if amount >= 1}


def _since(found: _Stranding, wanted: Wanted) -> datetime | None:
    """When the pods that are here now had taken so much; None where that cannot be told."""
    leaving: list[Pod] = []
    newest_first = sorted(
        found.room.holders, key=lambda p: (_bound_at(p) is not None, _bound_at(p)), reverse=True
    )
    for pod in newest_first:
        moment = _bound_at(pod)
        if moment is None:
            return None
        leaving.append(pod)
        if _fits(_given_back(found.room, leaving), wanted):
            return moment
    return None


def _bound_at(pod: Pod) -> datetime | None:
    scheduled = pod.condition("PodScheduled")
    return (scheduled.since if scheduled is not None else None) or pod.started_at or pod.created_at


def _kept_waiting(found: _Stranding, waiting: Sequence[Pod]) -> list[Pod]:
    """Pods that this node would take but for its CPU or memory."""
    room = found.room
    kept = []
    for pod in waiting:
        lacks = room.lacks(pod.effective_requests)
        if lacks and set(lacks) <= set(_SCARCE) and admits(pod, room.node):
            kept.append(pod)
    return kept


def _hit(subject: Subject, found: _Stranding, age: str, waiting: Sequence[Pod]) -> Hit:
    room, name = found.room, printable(found.room.node.name, 80)
    free = _free_gpus(room)
    number = sum(free.values())
    what = "CPU" if found.scarce == "cpu" else "memory"
    who = "GPU pods that ask for more than their share" if found.by_gpu_pods else "pods without GPUs"
    largest = [f"{printable(p.key, 160)} {_amount(found.scarce, p)}" for p in found.takers]
    left, all_ = room.free[found.scarce], room.node.allocatable.get(found.scarce, 0.0)
    kept = [printable(pod.key, 160) for pod in waiting]
    return Hit(
        subject=subject,
        cause=f"{found.scarce}-taken-by-{'gpu-pods' if found.by_gpu_pods else 'pods-without-gpus'}",
        title=f"{counted(number, 'GPU')} on {name} cannot be used for {age}: {who} have taken its {what}",
        summary=f"{counted(number, 'GPU')} of node {name} are free, and {_words(found.scarce, left)} of "
        f"{_words(found.scarce, all_)} {what} is left beside them: too little for any pod that waits, and for a "
        f"typical request of one GPU. The largest takers: {listed(largest, 3)}.",
        evidence=(
            Evidence(
                "free GPUs",
                listed([f"{amount} {resource}" for resource, amount in sorted(free.items())]),
                source=f"status.allocatable of node {name} minus the requests of its pods",
            ),
            Evidence(
                f"{what} left", f"{_words(found.scarce, left)} of {_words(found.scarce, all_)}",
                source=f"status.allocatable of node {name} minus the requests of its pods",
            ),
            Evidence(f"{what} taken by", listed(largest, MOST_TAKERS), source="resource requests of the pods"),
            *(
                (Evidence("pods that it keeps waiting", listed(kept, 6), source="requests of pending pods"),)
                if kept
                else ()
            ),
        ),
        fix=stranded_fix(room.node, found.takers, found.scarce, by_gpu_pods=found.by_gpu_pods),
        gpus=number,
        waste_gpus=float(number),
        nodes=(room.node.name,),
        pods=tuple(pod.key for pod in (*found.takers[:MOST_TAKERS], *waiting)),
    )  # fmt: skip


def _amount(name: str, pod: Pod) -> str:
    return _words(name, pod.effective_requests.get(name, 0.0))


def _words(name: str, amount: float) -> str:
    return gib(max(0.0, amount)) if name == "memory" else f"{max(0.0, amount):g} cores"
