"""A GPU container keeps being killed by its own liveness or startup probe.

## Meaning
The kubelet restarts a container whose probe fails often enough. The container may be healthy: the probe asks
for a path or port that the server does not have, or asks before the model is loaded, or gives up too soon.

## Impact
The model server starts over and over and holds its GPUs meanwhile; clients see it come and go. Exit code 137
or 143 then comes from the kubelet, not from memory.

## Evidence
Events `Unhealthy` (what the probe got) and `Killing` ("failed liveness probe, will be restarted") of the pod,
restart counts, and the probes of the owner's pod template where it could be read.

## Not reported
Failing readiness probes: they restart nothing. A probe that failed without a kill. One kill of a container
with fewer restarts than `restarts_min`. Containers that were OOMKilled: that is the cause. Pods without GPUs.

## References
https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, manifests, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.memory.changes import PATCHABLE, change_container
from diagnostics.rules.memory.failing import probe_events
from diagnostics.snapshot import Container, Event, Pod, Snapshot, Source
from diagnostics.text import counted, listed, printable

MISCONFIGURED = "liveness-probe-misconfigured"
TOO_EARLY = "liveness-probe-before-model-loaded"
TOO_SLOW = "liveness-probe-times-out"
UNHEALTHY = "server-reports-unhealthy"
UNKNOWN = "unknown"

_STATUS = re.compile(r"statuscode: (\d{3})")
_NOT_THERE = {404, 405, 410, 401, 403, 400, 501}
"""Answers of a server that runs and does not serve this path so: a probe cannot log in or change its
method."""

MEANINGS = {
    MISCONFIGURED: "The server answers, but does not serve what the probe asks for: the probe is wrong.",
    TOO_EARLY: "Nothing listens yet when the probe gives up: the model takes longer to load than the probe allows.",
    TOO_SLOW: "The server listens, but does not answer within the probe's time-out: busy, or hung.",
    UNHEALTHY: "The server itself says that it is not healthy; its log knows why.",
    UNKNOWN: "The events do not say what the probe got.",
}


class _Case(msgspec.Struct, frozen=True):
    pod: Pod
    container: Container
    kills: tuple[Event, ...]
    failed: tuple[Event, ...]
    cause: str


@rule(
    code="GPU403",
    slug="probe-killed",
    severity=Severity.CRITICAL,
    needs={Source.PODS, Source.EVENTS},
    uses={Source.WORKLOADS},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per root owner whose containers the kubelet kills for a probe."""
    found: dict[Subject, list[_Case]] = {}
    for pod in snapshot.pods:
        if not pod.gpus or pod.is_finished or pod.deletion_at is not None:
            continue
        for container in pod.containers:
            if (case := _case(snapshot, limits, pod, container)) is not None:
                found.setdefault(Subject.of_pod(pod), []).append(case)
    for subject, cases in found.items():
        yield _hit(snapshot, subject, cases)


def _case(snapshot: Snapshot, limits: Limits, pod: Pod, container: Container) -> _Case | None:
    ended = container.terminated or container.last_terminated
    if ended is not None and ended.reason == "OOMKilled":
        return None
    events = probe_events(snapshot, pod, container)
    kills = tuple(e for e in events if e.reason == "Killing")
    if not kills:
        return None
    count = sum(e.count for e in kills)
    if count < 2 and container.restarts < limits.of(pod).values.restarts_min:
        return None
    failed = tuple(e for e in events if e.reason == "Unhealthy")
    return _Case(pod, container, kills, failed, _cause(failed))


def _cause(failed: tuple[Event, ...]) -> str:
    """From the newest answer that a probe got."""
    for event in reversed(failed):
        text = event.message.lower()
        status = _STATUS.search(text)
        if status is not None:
            return MISCONFIGURED if int(status[1]) in _NOT_THERE else UNHEALTHY
        if "connection refused" in text or "no route to host" in text:
            return TOO_EARLY
        if "deadline exceeded" in text or "timeout" in text or "timed out" in text:
            return TOO_SLOW
        if "command not found" in text or "no such file" in text or "executable file not found" in text:
            return MISCONFIGURED
    return UNKNOWN


def _hit(snapshot: Snapshot, subject: Subject, cases: list[_Case]) -> Hit:
    case = min(cases, key=lambda c: (c.cause == UNKNOWN, -c.container.restarts, c.pod.key))
    pods = tuple(sorted({c.pod.key for c in cases}))
    probes = probes_of(snapshot, case.pod, case.container)
    return Hit(
        subject=subject,
        cause=case.cause,
        title=f"{subject}: container {case.container.name} is killed by its liveness probe",
        summary=f"{MEANINGS[case.cause]} The kubelet has restarted it "
        f"{counted(case.container.restarts, 'time')}; "
        "exit codes 137 and 143 come from that, not from memory.",
        evidence=tuple(_evidence(snapshot, case, probes, pods)),
        fix=_fix(case, probes, snapshot),
        confidence=Confidence.LOW if case.cause == UNKNOWN else Confidence.HIGH,
        gpus=sum(snapshot.pod_by_key[key].gpu_count for key in pods),
        nodes=tuple(sorted({c.pod.node for c in cases if c.pod.node})),
        pods=pods,
    )


def probes_of(snapshot: Snapshot, pod: Pod, container: Container) -> Mapping[str, Any]:
    """`livenessProbe` and `startupProbe` of the container in the owner's pod template; empty where it is not
    known."""
    root = pod.root
    workload = snapshot.workload_by_key.get((root.kind, root.namespace, root.name)) if root else None
    spec: Any = workload.spec if workload else {}
    for name in ("template", "spec"):
        spec = spec.get(name) if isinstance(spec, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for found in containers if isinstance(containers, list) else ():
        if isinstance(found, dict) and found.get("name") == container.name:
            return {k: found[k] for k in ("livenessProbe", "startupProbe") if isinstance(found.get(k), dict)}
    return {}


def _evidence(
    snapshot: Snapshot, case: _Case, probes: Mapping[str, Any], pods: tuple[str, ...]
) -> Iterator[Evidence]:
    pod, container = case.pod, case.container
    for event in (*case.failed[-2:], *case.kills[-1:]):
        times = f"{counted(event.count, 'time')}, last {span(snapshot.age(event.last_at))} ago"
        yield Evidence(event.reason, printable(event.message, 300), source=f"event of pod {pod.key}, {times}")
    yield Evidence(
        "restarts", str(container.restarts), source=f"container status of {pod.key}/{container.name}"
    )
    ended = container.terminated or container.last_terminated
    if ended is not None:
        yield Evidence(
            "ended", f"{printable(ended.reason, 80) or 'no reason'}, exit code {ended.exit_code}",
            source=f"container status of {pod.key}/{container.name}: lastState",
        )  # fmt: skip
        if ended.started_at is not None and ended.finished_at is not None:
            yield Evidence("ran for", span(ended.finished_at - ended.started_at), source="container status")
    for name, probe in probes.items():
        yield Evidence(
            name, printable(_in_words(probe), 200), source=f"pod template of {Subject.of_pod(pod)}"
        )
    if probes and "startupProbe" not in probes:
        yield Evidence("startupProbe", "none", source=f"pod template of {Subject.of_pod(pod)}")
    yield Evidence(counted(len(pods), "pod"), listed(pods), source="pods of the owner that are killed so")


def _in_words(probe: Mapping[str, Any]) -> str:
    http = probe.get("httpGet")
    target = (
        f"GET {http.get('path', '/')} on port {http.get('port')}" if isinstance(http, dict) else "not HTTP"
    )
    periods = ", ".join(f"{k} {v}" for k, v in probe.items() if isinstance(v, int))
    return f"{target}; {periods}" if periods else target


def _fix(case: _Case, probes: Mapping[str, Any], snapshot: Snapshot) -> Fix:
    pod, container = case.pod, case.container
    own = _change(case, probes)
    return Fix(
        summary=own.title,
        steps=(
            steps.describe_pod(pod),
            steps.read_log(
                pod, container.name, previous=True,
                expect="Which path and port the server serves, and whether it was still loading when it was ended.",
            ),
            *old_pod_first([own], pod, snapshot),
            steps.verify_finding_gone(f"Container {container.name} becomes Ready and its restart count stays."),
            steps.escalate(
                "the owner of the workload",
                why="Which path means alive is the server's own business.",
                expect="A path, a port and a time to load from the image's documentation.",
            ),
        ),
    )  # fmt: skip


def _change(case: _Case, probes: Mapping[str, Any]) -> Step:
    pod, container = case.pod, case.container
    target = _target(probes)
    if case.cause == MISCONFIGURED or target is None:
        port = (target or {}).get("httpGet", {}).get("port", "<port>")
        right = {"httpGet": {"path": "<path that answers 200>", "port": port}}
        usual = next(
            (f" {name} usually serves {path}." for name, path in _USUAL.items() if name in container.image),
            "",
        )
        probe = {"livenessProbe": right, "startupProbe": {**deepcopy(right), **_BUDGET}}
        owner = pod.root.kind if pod.root else "Pod"
        lines: dict[str, Any] = {"containers": [{"name": container.name, **probe}]}
        if owner in PATCHABLE | {"Pod", "Job", "CronJob"}:
            lines = manifests.container_patch({container.name: probe}, kind=owner)
        return Step(
            kind=StepKind.FIX,
            title="Point the probe at a path and port that the server has",
            why=f"Take path and port from the server's log.{usual} The startup probe gives the model up to 30 minutes "
            "to load before the liveness probe begins. Changing the pod template restarts the pods.",
            risk=Risk.DISRUPTIVE,
            manifest=manifests.to_yaml(lines),
            expect="No Unhealthy event names this probe any more.",
        )
    if case.cause == UNHEALTHY:
        title = "Repair what the server reports, and give it time to start"
        why = (
            "A server that answers 5xx after it had started is really unwell: its log names the cause. While it loads, "
            "a startup probe keeps the liveness probe away."
        )
    else:
        title = "Give the model time to load with a startup probe"
        why = (
            "Until a startup probe has succeeded once, the liveness probe does not run: 180 tries of 10 s are 30 "
            "minutes. A probe that times out under load needs a longer timeoutSeconds instead."
        )
    probe = {"startupProbe": {**target, **_BUDGET}}
    return change_container(
        pod, container, probe, title=title, why=why, expect="The container becomes Ready without a restart."
    )


_BUDGET = {"periodSeconds": 10, "failureThreshold": 180, "timeoutSeconds": 5}
"""30 minutes: as long as a pod counts as starting."""

_USUAL = {
    "vllm": "GET /health on port 8000",
    "sglang": "GET /health on port 30000",
    "tritonserver": "GET /v2/health/live on port 8000",
    "text-generation-inference": "GET /health",
}
"""Part of an image's name -> where that server reports its health by default (its documentation)."""


def _target(probes: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the present liveness probe asks for; None where that is not known or is no plain address.

    Headers and commands are left out: they may hold what was masked, which must not be written back.
    """
    live = probes.get("livenessProbe", {})
    for kind, keys in (
        ("httpGet", ("path", "port", "scheme")),
        ("tcpSocket", ("port",)),
        ("grpc", ("port", "service")),
    ):
        asked = live.get(kind)
        if isinstance(asked, dict) and not asked.get("httpHeaders"):
            return {kind: {key: asked[key] for key in keys if isinstance(asked.get(key), str | int)}}
    return None
