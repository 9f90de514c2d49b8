"""Events of the last hour, as the scheduler and the kubelet record them, in both APIs' shapes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from diagnostics.simulator.identity import hex_of, uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.timestamps import MINUTE, micro, rfc3339, seconds
from diagnostics.simulator.workloads import Json, SimPod
from diagnostics.simulator.world import World

RETRY = 5 * MINUTE
"""A quiet cluster's scheduler tries an unschedulable pod about this often."""


NO_ANSWER = 'Liveness probe failed: Get "http://{}:8000/health": context deadline exceeded'


@dataclass(frozen=True)
class Event:
    regarding: Json
    reason: str
    note: str
    type: str
    component: str
    host: str
    first: datetime
    last: datetime
    count: int = 1
    field_path: str = ""

    @property
    def is_new_style(self) -> bool:
        """The scheduler's recorder fills eventTime and series, the kubelet's the old fields."""
        return self.component == "default-scheduler"


def events(world: World) -> list[Event]:
    """Those that the API server has not forgotten yet."""
    oldest = world.now - world.config.event_ttl
    found = [e for e in _all(world) if e.last >= oldest and e.first <= world.now]
    return sorted(found, key=lambda e: (e.regarding["namespace"], e.regarding["name"], e.reason, e.first))


def _all(world: World) -> Iterator[Event]:
    recent = world.now - world.config.event_ttl
    for pod in world.pods:
        state = pod.state
        if pod.created >= recent or not state.is_ready or state.restarts:
            yield from _of_pod(pod, world.now)
    for note in world.notes:
        about = {"kind": note.kind, "namespace": note.namespace, "name": note.name, "uid": note.uid}
        about["apiVersion"] = note.api_version
        yield Event(
            about, note.reason, note.message, note.type, note.component, "", note.first, note.last, note.count
        )


def _of_pod(pod: SimPod, now: datetime) -> Iterator[Event]:
    if not pod.node:
        yield from _scheduling(pod, now)
        return
    state = pod.state
    place = f"Successfully assigned {pod.namespace}/{pod.name} to {pod.node}"
    yield _event(pod, "Scheduled", place, "default-scheduler", pod.created)
    app = pod.workload.template.app
    if state.is_refused:
        at = pod.created + seconds(1)
        yield _event(pod, state.reason, state.message, "kubelet", at, kind="Warning")
        return
    if state.waiting == "ImagePullBackOff":
        yield from _pulls(pod, now)
        return
    if state.init_at is not None and not state.init_waiting:
        return
    start = pod.created + seconds(3)
    yield from _starts(pod, start)
    since = state.last_exit.finished if state.last_exit else state.changed or start
    if state.waiting == "CrashLoopBackOff" or state.init_waiting == "CrashLoopBackOff":
        name = app["name"]
        if state.init_at is not None:
            name = pod.workload.template.init_containers[state.init_at]["name"]
        text = f"Back-off restarting failed container {name} in pod {pod.name}_{pod.namespace}({pod.uid})"
        count = max(1, state.restarts * 20)
        yield _event(pod, "BackOff", text, "kubelet", start, max(since, start), count, "Warning")
    yield from _probes(pod, start, now)
    if state.deleted and state.deleted <= now:
        yield _event(pod, "Killing", f"Stopping container {app['name']}", "kubelet", state.deleted)


def _probes(pod: SimPod, start: datetime, now: datetime) -> Iterator[Event]:
    """What a probe gets, and that the kubelet ends the container for it, which it does for no readiness probe."""
    state, name = pod.state, pod.workload.template.app["name"]
    is_killed = state.last_exit is not None and (state.last_exit.code, state.last_exit.reason) == (
        137,
        "Error",
    )
    if not is_killed and not state.probe:
        return
    said = (state.probe or NO_ANSWER).format(pod.address)
    end = state.last_exit.finished - seconds(31) if state.last_exit else now
    yield _event(pod, "Unhealthy", said, "kubelet", start, end, max(1, state.restarts) * 6, "Warning")
    if is_killed:
        which = said.partition(" ")[0].lower()
        killed = f"Container {name} failed {which} probe, will be restarted"
        yield _event(pod, "Killing", killed, "kubelet", start, end, state.restarts)


def _starts(pod: SimPod, start: datetime) -> Iterator[Event]:
    """Pulled, Created and Started, counted once a start."""
    app, count = pod.workload.template.app, pod.state.restarts + 1
    last = pod.state.last_exit.started if pod.state.last_exit and pod.state.waiting else pod.state.started
    last = max(last or start, start)
    present = f'Container image "{app["image"]}" already present on machine and can be accessed by the pod'
    for reason, note in (
        ("Pulled", present),
        ("Created", "Container created"),
        ("Started", "Container started"),
    ):
        yield _event(pod, reason, note, "kubelet", start, last, count)


def _pulls(pod: SimPod, now: datetime) -> Iterator[Event]:
    image = pod.workload.template.app["image"]
    start = pod.created + seconds(3)
    age: timedelta = now - start
    tries = max(1, int(age / RETRY))
    last = start + (tries - 1) * RETRY
    error = pod.state.waiting_message.split("ErrImagePull: ", 1)[-1]
    yield _event(pod, "Pulling", f'Pulling image "{image}"', "kubelet", start, last, tries)
    yield _event(
        pod, "Failed", f'Failed to pull image "{image}": {error}', "kubelet", start, last, tries, "Warning"
    )
    yield _event(pod, "Failed", "Error: ErrImagePull", "kubelet", start, last, tries, "Warning")
    back = max(1, int(age.total_seconds() // 15))
    yield _event(pod, "BackOff", f'Back-off pulling image "{image}"', "kubelet", start, now, back, "Normal")
    yield _event(pod, "Failed", "Error: ImagePullBackOff", "kubelet", start, now, back, "Warning")


def _scheduling(pod: SimPod, now: datetime) -> Iterator[Event]:
    """The first refusal, then one object with a series for the later ones; a gated pod is not even tried."""
    if pod.state.unscheduled != "Unschedulable":
        return
    text = pod.state.unscheduled_message
    yield _event(pod, "FailedScheduling", text, "default-scheduler", pod.created, kind="Warning")
    retries = (now - pod.created) // RETRY
    if retries:
        first, last = pod.created + RETRY, pod.created + retries * RETRY
        yield _event(pod, "FailedScheduling", text, "default-scheduler", first, last, retries, "Warning")


def _event(
    pod: SimPod,
    reason: str,
    note: str,
    component: str,
    first: datetime,
    last: datetime | None = None,
    count: int = 1,
    kind: str = "Normal",
) -> Event:
    regarding = {
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "apiVersion": "v1",
        "resourceVersion": meta.resource_version(pod.uid, "bound"),
    }
    if component == "kubelet":
        regarding["fieldPath"] = f"spec.containers{{{pod.workload.template.app['name']}}}"
    return Event(regarding, reason, note, kind, component, pod.node, first, last or first, count)


def core_events(found: Iterable[Event]) -> list[Json]:
    """As `v1` shows them."""
    objects = []
    for e in found:
        body: Json = {"metadata": _metadata(e), "involvedObject": e.regarding, "reason": e.reason}
        body |= {
            "message": e.note,
            "source": {} if e.is_new_style else {"component": e.component, "host": e.host},
        }
        body |= {
            "firstTimestamp": None if e.is_new_style else rfc3339(e.first),
            "lastTimestamp": None if e.is_new_style else rfc3339(e.last),
        }
        if not e.is_new_style:
            body["count"] = e.count
        body |= {"type": e.type} | _timing(e)
        if e.is_new_style:
            body["action"] = _action(e)
        objects.append(body | {"reportingComponent": e.component, "reportingInstance": _instance(e)})
    return objects


def modern_events(found: Iterable[Event]) -> list[Json]:
    """As `events.k8s.io/v1` shows them."""
    objects = []
    for e in found:
        body: Json = {"metadata": _metadata(e)} | _timing(e)
        body |= {"reportingController": e.component, "reportingInstance": _instance(e)}
        if e.is_new_style:
            body["action"] = _action(e)
        body |= {"reason": e.reason, "regarding": e.regarding, "note": e.note, "type": e.type}
        if e.is_new_style:
            body |= {
                "deprecatedSource": {},
                "deprecatedFirstTimestamp": None,
                "deprecatedLastTimestamp": None,
            }
        else:
            body |= {
                "deprecatedSource": {"component": e.component, "host": e.host},
                "deprecatedFirstTimestamp": rfc3339(e.first),
                "deprecatedLastTimestamp": rfc3339(e.last),
                "deprecatedCount": e.count,
            }
        objects.append(body)
    return objects


def _metadata(e: Event) -> Json:
    key = (e.regarding["uid"], e.reason, e.note, e.first)
    name = f"{e.regarding['name']}.18{hex_of(14, 'event', *key)}"
    manager = "kube-scheduler" if e.is_new_style else "kubelet"
    fields = ("note", "reason", "regarding", "reportingController", "reportingInstance", "type")
    tree: Json = {f"f:{f}": {} for f in fields}
    metadata = meta.metadata(name, e.regarding["namespace"], uuid_of(*key), e.first, (e.last, e.count))
    metadata["managedFields"] = [meta.managed(manager, "events.k8s.io/v1", e.first, tree)]
    return metadata


def _timing(e: Event) -> Json:
    if not e.is_new_style:
        return {"eventTime": None}
    timing: Json = {"eventTime": micro(e.first, e.regarding["uid"], e.reason)}
    if e.count > 1:
        timing["series"] = {"count": e.count, "lastObservedTime": micro(e.last, e.regarding["uid"], e.count)}
    return timing


def _action(e: Event) -> str:
    return "Binding" if e.reason == "Scheduled" else "Scheduling"


def _instance(e: Event) -> str:
    return "default-scheduler-control-plane-1" if e.is_new_style else e.host
