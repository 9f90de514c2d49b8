"""Which pods belong to one gang, and how many there should be.

An explicit group key comes first, then the owner chain. Labels and annotations are those that JobSet,
LeaderWorkerSet, Kubeflow's training operator, Volcano, Kueue, the coscheduling plugin, KAI and YuniKorn set;
whether pods of one owner are a gang at all is decided by their launcher.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from diagnostics.gangs.launchers import Launch, launch_of
from diagnostics.gangs.roles import fewest_pods, gang_size
from diagnostics.snapshot import Gang, LogSignal, OwnerKey, Pod, PodGroup, Workload

COLLECTIVE_KINDS = frozenset({"PyTorchJob", "MPIJob", "JobSet", "LeaderWorkerSet", "TrainJob"})
SERVER_KINDS = frozenset({"Deployment", "ReplicaSet", "DaemonSet"})
"""Owners of pods that are alike and independent: a bare launcher inside each says nothing about peers."""

_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_LWS = "leaderworkerset.sigs.k8s.io/"
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_TRAINING = "training.kubeflow.org/job-name"
_VOLCANO_JOB = "volcano.sh/job-name"
_VOLCANO_GROUP = "scheduling.k8s.io/group-name"
_VOLCANO_GROUP_OLD = "scheduling.volcano.sh/group-name"
_COSCHEDULING = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name")
_COSCHEDULING_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
_KAI_GROUP = "pod-group-name"
_YUNIKORN_TASKS = "yunikorn.apache.org/task-groups"
_MIN_AVAILABLE = re.compile(r"(\d+) minAvailable")
_ORDINAL = re.compile(r"-(\d+)$")


class _Group(msgspec.Struct, frozen=True):
    """Identity of a group: the object that people know, and which of its gangs."""

    system: str
    kind: str
    namespace: str
    name: str
    part: str = ""


def gangs_of(
    pods: Iterable[Pod],
    workloads: Iterable[Workload],
    pod_groups: Iterable[PodGroup] = (),
    signals: Iterable[LogSignal] = (),
) -> tuple[Gang, ...]:
    """The collective jobs among `pods` (their `root` set): one Gang per set of pods that need each other.

    Members are the GPU pods that have not finished. A job of one GPU pod is no gang. Owners without a sign
    of collective work (a Deployment or StatefulSet of servers, an Indexed Job of shards) are left out, unless the
    log of a member tells of more ranks than the pod has GPUs.
    """
    ranks: dict[str, int] = {}
    for told in signals:
        if told.signal == "nccl-communicator" and "ranks_count" in told.numbers:
            ranks[told.pod_key] = max(ranks.get(told.pod_key, 0), int(told.numbers["ranks_count"]))
    grouped: dict[_Group, list[Pod]] = defaultdict(list)
    without_gpus: dict[_Group, int] = defaultdict(int)
    for pod in pods:
        group = _group_of(pod)
        if group is None or pod.is_finished:
            continue
        if pod.gpus:
            grouped[group].append(pod)
        else:
            without_gpus[group] += 1
    by_key = {(w.kind, w.namespace, w.name): w for w in workloads}
    by_group = {(g.system, g.namespace, g.name): g for g in pod_groups}
    found = []
    for group, members in grouped.items():
        members.sort(key=lambda p: p.name)
        started_by = by_group.get(pod_group_key(members[0]))
        launches = [_launch(pod, ranks.get(pod.key, 0)) for pod in members]
        gang = _gang(group, members, launches, without_gpus[group], by_key, started_by)
        if gang is not None:
            found.append(gang)
    return tuple(sorted(found, key=lambda g: (g.namespace, g.name, g.members)))


def _group_of(pod: Pod) -> _Group | None:
    """The first group key that matches; None for a bare pod without one."""
    label, note = pod.labels.get, pod.annotations.get
    root = pod.root if pod.root is not None and pod.root.kind != "Pod" else None
    keyed: tuple[tuple[str, str, str | None, str], ...] = (
        ("JobSet", "JobSet", label(_JOBSET), ""),
        ("LeaderWorkerSet", "LeaderWorkerSet", label(_LWS + "name"), _lws_part(pod)),
        ("Kubeflow", "PyTorchJob", label(_TRAINING), ""),
        ("Volcano", "Job", label(_VOLCANO_JOB), ""),
        ("Kueue", "PodGroup", label(_KUEUE_GROUP), ""),
        ("Coscheduling", "PodGroup", label(_COSCHEDULING[0]) or label(_COSCHEDULING[1]), ""),
        ("PodGroup", "PodGroup", pod.pod_group or None, ""),
        ("Volcano", "PodGroup", _volcano_group(note(_VOLCANO_GROUP)), ""),
        ("KAI", "PodGroup", note(_KAI_GROUP), ""),
        ("YuniKorn", "Application", _yunikorn_application(pod), ""),
    )
    for system, kind, name, part in keyed:
        if name:
            return _named(system, kind, name, part, pod, root)
    return _Group(root.kind, root.kind, root.namespace, root.name) if root else None


def _named(system: str, kind: str, name: str, part: str, pod: Pod, root: OwnerKey | None) -> _Group:
    """A keyed group takes the name of the owner above it, where the owner chain leads that far."""
    if system == "LeaderWorkerSet" or root is None or root.kind in {"StatefulSet", "ReplicaSet"}:
        return _Group(system, kind, pod.namespace, name, part)
    if system == "JobSet" and root.kind == "Job":
        return _Group(system, kind, pod.namespace, name, part)
    if kind == "PodGroup":
        return _Group(system, kind, pod.namespace, name)
    return _Group(system, root.kind, root.namespace, root.name, part)


def _lws_part(pod: Pod) -> str:
    """Which model replica: the label, else the ordinal of the leader's name."""
    index = pod.labels.get(_LWS + "group-index")
    if index:
        return index
    leader = pod.annotations.get(_LWS + "leader-name") or pod.name
    ordinal = _ORDINAL.search(leader)
    return ordinal[1] if ordinal else leader


def pod_group_key(pod: Pod) -> tuple[str, str, str]:
    """System, namespace and name of the PodGroup object that the pod names; an empty name for none.

    Of a group in a Workload (`workload/group/replica`) the replicas, each a gang of its own, share one policy.
    """
    label = pod.labels.get
    volcano = pod.annotations.get(_VOLCANO_GROUP) or pod.annotations.get(_VOLCANO_GROUP_OLD)
    if pod.pod_group:
        return "native", pod.namespace, "/".join(pod.pod_group.split("/")[:2])
    if volcano and not volcano.startswith("podgroup-"):
        return "volcano", pod.namespace, volcano
    return "coscheduling", pod.namespace, label(_COSCHEDULING[0]) or label(_COSCHEDULING[1]) or ""


def _volcano_group(name: str | None) -> str | None:
    """Volcano makes a group `podgroup-<uid>` for every ordinary owner: that is no gang by itself."""
    return None if name is None or name.startswith("podgroup-") else name


def _yunikorn_application(pod: Pod) -> str | None:
    if _YUNIKORN_TASKS not in pod.annotations:
        return None
    return (
        pod.labels.get("applicationId")
        or pod.labels.get("yunikorn.apache.org/app-id")
        or pod.annotations.get("yunikorn.apache.org/app-id")
    )


def _gang(
    group: _Group,
    members: list[Pod],
    launches: list[Launch],
    without_gpus: int,
    workloads: Mapping[tuple[str, str, str], Workload],
    started_by: PodGroup | None,
) -> Gang | None:
    group = _under_owner(group, members)
    collective = _collective(group, launches)
    least = started_by.min_member if started_by is not None else None
    least = max(1, least - without_gpus) if least is not None else None
    size = _size(group, members, without_gpus, workloads, launches)
    if size is None and least is not None:
        size = max(least, len(members))
    if not collective or max(len(members), size or 0) < 2:
        return None
    workload = workloads.get((group.kind, group.namespace, group.name))
    root = next(
        (p.root for p in members if p.root and (p.root.kind, p.root.name) == (group.kind, group.name)), None
    )
    return Gang(
        kind=group.kind,
        namespace=group.namespace,
        name=group.name,
        uid=(workload.uid if workload else "") or (root.uid if root else ""),
        api_version=(workload.api_version if workload else "") or (root.api_version if root else ""),
        system=group.system,
        collective=collective,
        only_starts_together=group.kind == "PodGroup" and not any(launch.evidence for launch in launches),
        members=tuple(pod.key for pod in members),
        size=size,
        min_available=_min_available(members, launches, workload) if least is None else least,
        gang_scheduler=_gang_scheduler(group, members),
    )


def _launch(pod: Pod, ranks: int) -> Launch:
    """What the pod's spec says of peers; where that is nothing for sure, what its log says."""
    launch = launch_of(pod)
    if (not launch.evidence or launch.is_weak) and ranks > pod.gpu_count:
        return Launch(f"an NCCL communicator of {ranks} ranks in its log")
    return launch


def _under_owner(group: _Group, members: list[Pod]) -> _Group:
    """A pod group whose members share one owner is known by that owner."""
    roots = {(p.root.kind, p.root.name) for p in members if p.root is not None}
    if group.kind != "PodGroup" or len(roots) != 1:
        return group
    kind, name = roots.pop()
    return group if kind == "Pod" else _Group(group.system, kind, group.namespace, name)


def _collective(group: _Group, launches: list[Launch]) -> str:
    """Why these pods are taken to talk to each other; empty when nothing says so."""
    strong = next((launch.evidence for launch in launches if launch.evidence and not launch.is_weak), "")
    if group.kind in COLLECTIVE_KINDS or group.system in COLLECTIVE_KINDS | {"Kubeflow"}:
        return f"{group.kind}" + (f", {strong}" if strong else "")
    if group.system in {"Volcano", "Kueue", "Coscheduling", "PodGroup", "KAI", "YuniKorn"}:
        label = "PodGroup" if group.system == "PodGroup" else f"{group.system} pod group"
        return label + (f", {strong}" if strong else "")
    if strong:
        return strong
    if group.kind in SERVER_KINDS:
        return ""
    return next((launch.evidence for launch in launches if launch.evidence), "")


def _size(
    group: _Group,
    members: list[Pod],
    without_gpus: int,
    workloads: Mapping[tuple[str, str, str], Workload],
    launches: list[Launch],
) -> int | None:
    """GPU pods that the owner wants at once; None where nothing says."""
    workload = workloads.get((group.kind, group.namespace, group.name))
    by_spec = gang_size(workload.kind, workload.api_version, workload.spec) if workload is not None else None
    if by_spec is not None:
        return by_spec
    if group.system == "LeaderWorkerSet":
        size = _number(members[0].annotations.get(_LWS + "size"))
        return None if size is None else size - without_gpus
    if group.system == "Kueue":
        return _number(members[0].annotations.get("kueue.x-k8s.io/pod-group-total-count"))
    if group.system == "JobSet":
        jobs = [w for w in workloads.values() if w.kind == "Job" and _is_of_jobset(w, group) and w.spec]
        wanted = [job.replicas for job in jobs if job.replicas is not None]
        if wanted and len(wanted) == len(jobs):
            return sum(wanted)
    if workload is not None and workload.replicas is not None:
        return workload.replicas
    return next((launch.nodes_max for launch in launches if launch.nodes_max), None)


def _is_of_jobset(job: Workload, group: _Group) -> bool:
    owned = any(o.kind == "JobSet" and o.name == group.name for o in job.owners)
    return job.namespace == group.namespace and (owned or job.labels.get(_JOBSET) == group.name)


def _min_available(members: list[Pod], launches: list[Launch], workload: Workload | None) -> int | None:
    """Members with which the job can start: from the gang scheduler's words, or from an elastic launcher."""
    label = _number(members[0].labels.get(_COSCHEDULING_MIN))
    if label is not None:
        return label
    tasks = members[0].annotations.get(_YUNIKORN_TASKS)
    if tasks:
        return _yunikorn_minimum(tasks)
    for pod in members:
        scheduled = pod.condition("PodScheduled")
        said = _MIN_AVAILABLE.search(scheduled.message) if scheduled else None
        if said:
            return int(said[1])
    own = fewest_pods(workload.kind, workload.api_version, workload.spec) if workload is not None else None
    if own is not None:
        return own
    elastic = [x.nodes_min for x in launches if x.nodes_min is not None and x.nodes_min != x.nodes_max]
    return elastic[0] if elastic else None


def _yunikorn_minimum(tasks: str) -> int | None:
    try:
        return sum(int(task["minMember"]) for task in json.loads(tasks))
    except (ValueError, TypeError, KeyError):
        return None


def _gang_scheduler(group: _Group, members: list[Pod]) -> str:
    """Who would start them all or none; empty when pods are placed one by one."""
    first = members[0]
    by_system = {"Kueue": "kueue", "Coscheduling": "coscheduling", "PodGroup": "native", "KAI": "kai"}
    if group.system in by_system:
        return by_system[group.system]
    if first.scheduler == "volcano":
        return "volcano"
    if first.scheduler == "kai-scheduler":
        return "kai"
    if _YUNIKORN_TASKS in first.annotations:
        return "yunikorn"
    if first.pod_group:
        return "native"
    is_queued = "kueue.x-k8s.io/queue-name" in first.labels or "kueue.x-k8s.io/workload" in first.annotations
    return "kueue" if is_queued else ""


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
