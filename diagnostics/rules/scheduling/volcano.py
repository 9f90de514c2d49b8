"""What a Volcano Queue keeps back: closed, missing, or used up to its capability or its deserved share.

A PodGroup leaves phase Pending only when its queue has room for its minResources (Volcano, enqueue action; capacity
and proportion plugins). A Volcano Job has no pods before that.
"""

from diagnostics.findings import Evidence
from diagnostics.rules.scheduling.board import Reading
from diagnostics.snapshot import PodGroup, Queue, Snapshot, gpu_resources
from diagnostics.text import printable

_NOT_ENQUEUED = "queue resource quota insufficient"


def kept_back(group: PodGroup, snapshot: Snapshot) -> Reading | None:
    """Why the group's queue does not let it through; None where it does, or nothing says."""
    name = group.queue or "default"
    volcano = [queue for queue in snapshot.queues if queue.system == "volcano"]
    queue = next((queue for queue in volcano if queue.name == name), None)
    shown = printable(name, 80)
    if queue is None:
        if not volcano:
            return None
        return _reading("volcano-queue-missing", f"its queue {shown} does not exist", group, None)
    if queue.state in {"Closed", "Closing"}:
        words = f"its queue {shown} is {queue.state.lower()} and takes no new jobs"
        return _reading("volcano-queue-closed", words, group, queue)
    if group.phase not in {"", "Pending"}:
        return None
    return _by_quota(group, queue, shown) or (
        _reading("volcano-queue-quota-used", f"its queue {shown} has no quota left for it", group, queue)
        if _is_refused(group, snapshot)
        else None
    )


def _by_quota(group: PodGroup, queue: Queue, shown: str) -> Reading | None:
    wanted = _wanted(group)
    for name, amount in wanted.items():
        if amount > queue.capability.get(name, amount):
            words = f"it needs {amount:g} {name} at once, and its queue {shown} may never use more than "
            words += f"{queue.capability[name]:g}"
            return _reading("volcano-job-larger-than-queue", words, group, queue)
    for name, amount in wanted.items():
        most = queue.capability.get(name)
        if most is not None and queue.used.get(name, 0.0) + amount > most:
            words = f"its queue {shown} uses {queue.used.get(name, 0.0):g} of at most {most:g} {name}"
            return _reading("volcano-queue-over-capability", words, group, queue)
    for name, amount in wanted.items():
        share = queue.deserved.get(name)
        if share is not None and queue.used.get(name, 0.0) + amount > share:
            words = f"its queue {shown} uses {queue.used.get(name, 0.0):g} {name} of a deserved share of {share:g}"
            return _reading("volcano-queue-over-deserved", words, group, queue)
    return None


def _wanted(group: PodGroup) -> dict[str, float]:
    """GPUs that the group needs to start; minResources name requests, some of them twice as `limits.…`."""
    return gpu_resources(group.min_resources)


def _is_refused(group: PodGroup, snapshot: Snapshot) -> bool:
    said = [condition.message for condition in group.conditions if condition.status == "True"]
    events = snapshot.events_by_object.get(("PodGroup", group.namespace, group.name), ())
    return any(_NOT_ENQUEUED in text for text in (*said, *(event.message for event in events)))


def _reading(cause: str, words: str, group: PodGroup, queue: Queue | None) -> Reading:
    source = f"PodGroup {printable(f'{group.namespace}/{group.name}', 200)}"
    facts = [
        Evidence("pod group", f"phase {printable(group.phase, 40) or 'unknown'}", source=source),
        Evidence("queue", printable(group.queue or "default", 80), source=source),
    ]
    wanted = _wanted(group)
    for name, amount in wanted.items():
        facts.append(Evidence("needs at once", f"{amount:g}", name, f"spec.minResources of {source}"))
    if queue is not None:
        where = f"Queue {printable(queue.name, 80)}"
        facts.append(Evidence("state of the queue", queue.state or "unknown", source=f"status of {where}"))
        rows = (("capability", queue.capability), ("deserved", queue.deserved), ("in use", queue.used))
        facts += [
            Evidence(f"{label} of the queue", f"{amounts[name]:g}", name, f"{where}")
            for label, amounts in rows
            for name in sorted(amounts)
            if name in wanted
        ]
    return Reading(cause, words, is_shortage=False, facts=tuple(facts), names=(group.queue or "default",))
