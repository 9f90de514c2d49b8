"""A pod's status as the kubelet, or the scheduler before it, writes it."""

from collections.abc import Sequence
from datetime import datetime

from diagnostics.simulator.identity import hex_of, suffix
from diagnostics.simulator.timestamps import rfc3339, seconds
from diagnostics.simulator.workloads import Exit, Json, PodState, SimPod


def status_of(pod: SimPod) -> Json:
    state = pod.state
    if not pod.node:
        return _unscheduled(pod)
    started = pod.created + seconds(1)
    if state.is_refused:
        return _refused(pod, started)
    status: Json = {"observedGeneration": 1, "phase": state.phase, "conditions": _conditions(pod, started)}
    status |= {k: v for k, v in (("message", state.message), ("reason", state.reason)) if v}
    status |= {
        "hostIP": pod.node_ip,
        "hostIPs": [{"ip": pod.node_ip}],
        "podIP": pod.address,
        "podIPs": [{"ip": pod.address}],
        "startTime": rfc3339(started),
    }
    if pod.workload.template.init_containers:
        status["initContainerStatuses"] = _inits(pod, started)
    status["containerStatuses"] = [_app(pod, started)]
    return status | {"qosClass": quality_of_service(pod)} | _claims(pod)


def quality_of_service(pod: SimPod) -> str:
    requests = pod.workload.template.requests()
    limits = pod.workload.template.app["resources"].get("limits", {})
    if not {"cpu", "memory"} & set(requests):
        return "BestEffort"
    return "Guaranteed" if {"cpu", "memory"} <= set(limits) else "Burstable"


def _condition(kind: str, is_true: bool, moment: datetime, reason: str = "", message: str = "") -> Json:
    condition = {
        "type": kind,
        "observedGeneration": 1,
        "status": "True" if is_true else "False",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(moment),
    }
    return condition | {k: v for k, v in (("reason", reason), ("message", message)) if v}


def _unscheduled(pod: SimPod) -> Json:
    state = pod.state
    if not state.unscheduled:  # no scheduler has looked at it
        return {"phase": "Pending", "qosClass": quality_of_service(pod)} | _claims(pod)
    condition = _condition("PodScheduled", False, pod.created, state.unscheduled, state.unscheduled_message)
    return {
        "phase": "Pending",
        "conditions": [condition],
        "qosClass": quality_of_service(pod),
    } | _claims(pod)


def _claims(pod: SimPod) -> Json:
    made = [{"name": name, "resourceClaimName": claim} for name, claim in pod.state.claims]
    return {"resourceClaimStatuses": made} if made else {}


def _refused(pod: SimPod, started: datetime) -> Json:
    """A kubelet that does not admit a pod makes no container and gives no address."""
    state = pod.state
    return {
        "phase": state.phase,
        "conditions": [_condition("PodScheduled", True, pod.created)],
        "message": state.message,
        "reason": state.reason,
        "startTime": rfc3339(started),
        "qosClass": quality_of_service(pod),
    }


def _conditions(pod: SimPod, started: datetime) -> list[Json]:
    state = pod.state
    changed = state.changed or started + seconds(2)
    app = pod.workload.template.app["name"]
    has_ended = state.phase in ("Succeeded", "Failed")
    ended = "PodCompleted" if state.phase == "Succeeded" else "PodFailed"
    ready_reason, ready_message = "", ""
    if has_ended:
        ready_reason = ended
    elif not state.is_ready and not _is_forsaken(state):
        ready_reason, ready_message = "ContainersNotReady", f"containers with unready status: [{app}]"
    is_initialized = state.init_at is None
    names = [c["name"] for c in pod.workload.template.init_containers[state.init_at or 0 :]]
    incomplete = ("ContainersNotInitialized", f"containers with incomplete status: [{' '.join(names)}]")
    conditions = [
        _condition("PodReadyToStartContainers", not has_ended, started + seconds(1)),
        _condition("Initialized", is_initialized, started, *(() if is_initialized else incomplete)),
        _condition("Ready", state.is_ready, changed, ready_reason, ready_message),
        _condition(
            "ContainersReady", state.is_ready or _is_forsaken(state), changed, ready_reason, ready_message
        ),
        _condition("PodScheduled", True, pod.created),
    ]
    if state.deleted and _is_forsaken(state):
        words = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        conditions.append(_condition("DisruptionTarget", True, state.deleted, *words))
    return conditions


def _is_forsaken(state: PodState) -> bool:
    """Not ready only because its node is silent: the containers still say that they run."""
    return not state.is_ready and state.is_working


def _image_id(image: str) -> str:
    name = image.rsplit(":", 1)[0]
    return f"{name}@sha256:{hex_of(64, 'image', image)}"


def _terminated(end: Exit, container_id: str) -> Json:
    body = {"exitCode": end.code, "reason": end.reason}
    if end.message:
        body["message"] = end.message
    times = {"startedAt": rfc3339(end.started), "finishedAt": rfc3339(end.finished)}
    return {"terminated": body | times | {"containerID": container_id}}


def _mounts(pod: SimPod, container: Json) -> list[Json]:
    token = "kube-api-access-" + suffix(5, pod.uid, "token")
    own = [{"name": m["name"], "mountPath": m["mountPath"]} for m in container.get("volumeMounts", [])]
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    return [*own, {"name": token, "mountPath": path, "readOnly": True, "recursiveReadOnly": "Disabled"}]


def _status(pod: SimPod, container: Json, state: Json, **more: object) -> Json:
    """The common part of a container's status."""
    has_run = "waiting" not in state or bool(more.get("last"))
    status = {
        "name": container["name"],
        "state": state,
        "lastState": more.get("last", {}),
        "ready": more.get("ready", False),
        "restartCount": more.get("restarts", 0),
        "image": container["image"],
        "imageID": _image_id(container["image"]) if has_run else "",
    }
    if has_run:
        status["containerID"] = more.get("container_id") or pod.container_id
    return status | {"started": "running" in state}


def _inits(pod: SimPod, started: datetime) -> list[Json]:
    state = pod.state
    containers = pod.workload.template.init_containers
    at = len(containers) if state.init_at is None else state.init_at
    statuses = []
    for i, container in enumerate(containers):
        container_id = "containerd://" + hex_of(64, pod.uid, container["name"], state.restarts)
        mounts = {"volumeMounts": _mounts(pod, container)}
        if i < at:
            done = Exit(0, "Completed", started + seconds(i), started + seconds(i + 1))
            body = _terminated(done, container_id)
            statuses.append(_status(pod, container, body, ready=True, container_id=container_id) | mounts)
        elif i > at:
            statuses.append(_status(pod, container, {"waiting": {"reason": "PodInitializing"}}))
        else:
            statuses.append(_current_init(pod, container, container_id, started))
    return statuses


def _current_init(pod: SimPod, container: Json, container_id: str, started: datetime) -> Json:
    state = pod.state
    last = _terminated(state.last_exit, container_id) if state.last_exit else {}
    if state.init_waiting:
        body = {"waiting": {"reason": state.init_waiting, "message": _back_off(pod, container["name"])}}
    else:
        body = {"running": {"startedAt": rfc3339(state.started or started)}}
    return _status(pod, container, body, last=last, restarts=state.restarts, container_id=container_id)


def _back_off(pod: SimPod, container: str) -> str:
    delay = min(10 * 2 ** min(pod.state.restarts, 5), 300)
    minutes, rest = divmod(delay, 60)
    text = f"{minutes}m{rest}s" if minutes else f"{rest}s"
    return (
        f"back-off {text} restarting failed container={container} pod={pod.name}_{pod.namespace}({pod.uid})"
    )


def _app(pod: SimPod, started: datetime) -> Json:
    state, container = pod.state, pod.workload.template.app
    if state.init_at is not None:
        return _status(pod, container, {"waiting": {"reason": "PodInitializing"}})
    last = _terminated(state.last_exit, pod.container_id) if state.last_exit else {}
    if state.exit:
        body = _terminated(state.exit, pod.container_id)
    elif state.waiting:
        message = state.waiting_message or _back_off(pod, container["name"])
        body = {"waiting": {"reason": state.waiting, "message": message}}
    else:
        body = {"running": {"startedAt": rfc3339(state.started or started)}}
    is_ready = state.is_ready or _is_forsaken(state)
    status = _status(pod, container, body, last=last, restarts=state.restarts, ready=is_ready)
    requests = pod.workload.template.requests()
    if "running" in body:
        if requests:
            status |= {"allocatedResources": requests, "resources": container["resources"]}
        status["volumeMounts"] = _mounts(pod, container)
        status["user"] = {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0]}}
    if pod.devices and not pod.workload.template.claimed and "waiting" not in body:
        status["allocatedResourcesStatus"] = [_device_health(pod)]
    return status


def _device_health(pod: SimPod) -> Json:
    devices: Sequence[Json] = [
        {"resourceID": d.resource_id, "health": "Unhealthy" if d.uuid in pod.unhealthy else "Healthy"}
        for d in sorted(pod.devices, key=lambda d: d.resource_id)
    ]
    return {"name": pod.workload.template.device_resource, "resources": devices}
