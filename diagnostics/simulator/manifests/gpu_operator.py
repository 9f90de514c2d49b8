"""The GPU Operator's ClusterPolicy, with the state that follows from its pods; this site has no NVIDIADriver."""

from diagnostics.simulator.devices import DRIVER
from diagnostics.simulator.identity import uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.operator_stack import COMPONENTS, NAMESPACE
from diagnostics.simulator.timestamps import DAY, rfc3339
from diagnostics.simulator.workloads import Json
from diagnostics.simulator.world import World

_STATES = {
    "nvidia-driver-daemonset": "state-driver",
    "nvidia-container-toolkit-daemonset": "state-container-toolkit",
    "nvidia-operator-validator": "state-operator-validation",
    "nvidia-device-plugin-daemonset": "state-device-plugin",
    "nvidia-dcgm-exporter": "state-dcgm-exporter",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-mig-manager": "state-mig-manager",
}
"""DaemonSet -> the operator's name for it."""


def cluster_policies(world: World) -> list[Json]:
    created = world.before(39 * DAY)
    unwell = [p for p in world.pods if p.namespace == NAMESPACE and not p.state.is_ready]
    names = {p.workload.name for p in unwell}
    states = [_STATES[c.name] for c in COMPONENTS if c.name in names]
    since = max((p.state.changed or p.created for p in unwell if p.workload.name in _STATES), default=created)
    reason = "OperandNotReady" if states else "Reconciled"
    message = f"states not ready: [{' '.join(states)}]" if states else "ClusterPolicy is ready"
    conditions = [
        _condition("Ready", "False" if states else "True", reason, message, rfc3339(since)),
        _condition("Error", "False", reason, "", rfc3339(since)),
    ]
    metadata = meta.metadata(
        "cluster-policy",
        "",
        uuid_of(world.config.seed, "ClusterPolicy", "cluster-policy"),
        created,
        tuple(states),
        labels={"app.kubernetes.io/managed-by": "gpu-operator", "helm.sh/chart": "gpu-operator-v24.9.2"},
        generation=1,
    )
    status = {"conditions": conditions, "namespace": NAMESPACE, "state": "notReady" if states else "ready"}
    return [{"metadata": metadata, "spec": _SPEC, "status": status}]


def nvidia_drivers(_: World) -> list[Json]:
    return []


def _condition(kind: str, status: str, reason: str, message: str, since: str) -> Json:
    return {
        "lastTransitionTime": since, "message": message, "reason": reason, "status": status, "type": kind,
    }  # fmt: skip


_SPEC: Json = {
    "daemonsets": {"priorityClassName": "system-node-critical", "updateStrategy": "RollingUpdate"},
    "dcgmExporter": {"enabled": True, "serviceMonitor": {"enabled": False}},
    "devicePlugin": {"enabled": True},
    "driver": {"enabled": True, "repository": "nvcr.io/nvidia", "usePrecompiled": False, "version": DRIVER},
    "gfd": {"enabled": True},
    "mig": {"strategy": "mixed"},
    "migManager": {"enabled": True},
    "operator": {"defaultRuntime": "containerd", "runtimeClass": "nvidia"},
    "toolkit": {"enabled": True},
}
