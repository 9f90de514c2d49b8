"""Where a Kueue Workload stands: what keeps it from being admitted, from its conditions and its queues.

Wordings: Kueue's flavour assigner and queue manager, v0.6 to v0.17. A pod set of which one flavour only lacks quota
that is in use waits its turn; one that is larger than every flavour's most is never admitted.
"""

import re

from diagnostics.findings import Evidence
from diagnostics.rules.scheduling.board import Reading
from diagnostics.snapshot import Condition, Pod, Queue, QueuedWorkload, Snapshot
from diagnostics.text import listed, printable

INADMISSIBLE = "kueue-inadmissible"
WAITS_ITS_TURN = "kueue-waits-its-turn"
GATES = "kueue.x-k8s.io/"
_WORKLOAD = "kueue.x-k8s.io/workload"
_GROUP = "kueue.x-k8s.io/pod-group-name"
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_PER_POD_SET = re.compile(r"couldn't assign flavors to pod set ")
_NEVER = (
    "maximum capacity",
    "unavailable in clusterqueue",
    "not found",
    "untolerated taint",
    "doesn't match node affinity",
    "doesn't match clusterqueue selector",
    "doesn't match with clusterqueue",
)
_IN_USE = (
    "insufficient unused quota",
    "pending the preemption",
    "allows to fit only",
    "doesn't allow to fit",
)


def workload_of(pod: Pod, snapshot: Snapshot) -> QueuedWorkload | None:
    """The Kueue Workload that admits this pod: by its name on the pod, by pod group, or by its owners."""
    names = workload_names(pod)
    owners = {(o.kind, o.name) for o in (*pod.owners, *((pod.root,) if pod.root else ()))}
    for workload in snapshot.queued:
        if workload.namespace != pod.namespace:
            continue
        if workload.name in names or any((o.kind, o.name) in owners for o in workload.owners):
            return workload
    return None


def workload_names(pod: Pod) -> tuple[str, ...]:
    """Names of its Workload as far as the pod itself says them."""
    said = (pod.annotations.get(_WORKLOAD), pod.labels.get(_GROUP))
    return tuple(name for name in said if name)


def is_admitted(pod: Pod, snapshot: Snapshot) -> bool:
    """Kueue has admitted the pod's workload; a pod of a queue without its gate was let through."""
    workload = workload_of(pod, snapshot)
    if workload is not None:
        return workload.is_true("Admitted")
    return _QUEUE_NAME in pod.labels and not any(gate.startswith(GATES) for gate in pod.scheduling_gates)


def standing(workload: QueuedWorkload, snapshot: Snapshot) -> Reading | None:
    """What keeps the workload back; None once it is admitted or finished."""
    if workload.is_true("Finished") or workload.is_true("Admitted"):
        return None
    local = _queue("LocalQueue", workload.queue, workload.namespace, snapshot)
    name = (local.parent if local is not None else "") or workload.cluster_queue
    cluster = _queue("ClusterQueue", name, "", snapshot)
    reserved = workload.condition("QuotaReserved")
    said = reserved.message if reserved is not None else ""
    cause, words = _cause(workload, local, cluster, reserved, snapshot)
    facts = [
        Evidence("Kueue workload", printable(workload.name, 160), source=_source(workload)),
        Evidence("local queue", printable(workload.queue, 120) or "none", source=_source(workload)),
        Evidence("asks for", str(workload.gpu_count), "GPUs", f"spec.podSets of {_source(workload)}"),
        *_quota_facts(cluster),
    ]
    if said:
        facts.insert(0, Evidence("Kueue says", printable(said, 1000), source=_source(workload)))
    return Reading(cause, words, is_shortage=False, facts=tuple(facts), names=(name,))


def _cause(
    workload: QueuedWorkload,
    local: Queue | None,
    cluster: Queue | None,
    reserved: Condition | None,
    snapshot: Snapshot,
) -> tuple[str, str]:
    queue = printable(workload.queue, 80)
    if not workload.is_active:
        return "kueue-deactivated", "its Kueue workload is switched off (spec.active is false)"
    if reserved is not None and reserved.status == "True":
        return "kueue-admission-check", "its quota is reserved, and an admission check has not passed yet"
    evicted = workload.condition("Evicted")
    if evicted is not None and evicted.status == "True" and evicted.reason == "PodsReadyTimeout":
        return "kueue-pods-not-ready", "Kueue took its quota back because its pods were not ready in time"
    stopped = next((q for q in (local, cluster) if q is not None and _is_stopped(q)), None)
    if stopped is not None:
        name = printable(stopped.name, 80)
        return "queue-closed", f"its {stopped.kind} {name} admits nothing: {_why_stopped(stopped)}"
    said = (reserved.message if reserved is not None else "").lower()
    if "doesn't exist" in said or _is_missing(local, snapshot):
        return (
            INADMISSIBLE,
            f"the queue that it names, {queue or 'none'}, or the queue behind it, does not exist",
        )
    never = _never(said)
    if never or _larger_than(workload, cluster):
        why = never or "it asks for more than its ClusterQueue may ever give"
        return INADMISSIBLE, f"{why}: its queue can never admit it as it stands"
    if reserved is not None and reserved.reason == "Inadmissible" and not any(w in said for w in _IN_USE):
        return INADMISSIBLE, "Kueue calls it inadmissible"
    return WAITS_ITS_TURN, f"it waits its turn in queue {queue}: the quota is in use"


def _never(said: str) -> str:
    """Why a pod set can never be admitted, in words; empty where each of them may be one day."""
    for part in _PER_POD_SET.split(said):
        if any(word in part for word in _NEVER) and not any(word in part for word in _IN_USE):
            return (
                "it asks for more than a flavour's most"
                if "maximum capacity" in part
                else "no flavour of its queue suits it"
            )
    return ""


def _larger_than(workload: QueuedWorkload, cluster: Queue | None) -> bool:
    """Without a cohort there is nobody to borrow from."""
    if cluster is None or cluster.parent or not cluster.flavors:
        return False
    return any(amount > cluster.nominal.get(name, amount) for name, amount in workload.requests.items())


def _is_stopped(queue: Queue) -> bool:
    active = queue.condition("Active")
    return bool(queue.state) or (active is not None and active.status == "False")


def _why_stopped(queue: Queue) -> str:
    active = queue.condition("Active")
    if queue.state:
        return f"its stop policy is {printable(queue.state, 40)}"
    return (printable(active.message, 200) if active is not None else "") or "it is not active"


def _is_missing(local: Queue | None, snapshot: Snapshot) -> bool:
    """Only where the LocalQueues were read: one that is not among them does not exist."""
    return local is None and any(queue.kind == "LocalQueue" for queue in snapshot.queues)


def _queue(kind: str, name: str, namespace: str, snapshot: Snapshot) -> Queue | None:
    found = (q for q in snapshot.queues if (q.kind, q.name, q.namespace) == (kind, name, namespace))
    return next(found, None)


def _quota_facts(cluster: Queue | None) -> tuple[Evidence, ...]:
    if cluster is None:
        return ()
    rows = [
        f"{name} {cluster.used.get(name, 0.0):g} of {amount:g}"
        for name, amount in sorted(cluster.nominal.items())
        if "/" in name
    ]
    name = printable(cluster.name, 120)
    facts = [Evidence("cluster queue", name, source=f"LocalQueue, and ClusterQueue {name}")]
    if rows:
        facts.append(
            Evidence("quota in use", listed(rows, 4), source=f"spec and status of ClusterQueue {name}")
        )
    return tuple(facts)


def _source(workload: QueuedWorkload) -> str:
    return f"Workload {printable(f'{workload.namespace}/{workload.name}', 200)}"
