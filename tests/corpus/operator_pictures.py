"""Turns the text of a recorded case of the GPU Operator into a snapshot: what its words say and nothing of its answer.

A line `# <component>, <status>` names the pod whose log follows; `kubectl get pods` rows are the node's other pods.
"""

import re
from datetime import timedelta
from typing import Any

import msgspec
import yaml

from diagnostics.collect.devices import joined
from diagnostics.collect.wire.nodes import NodeConverter, NodeWire
from diagnostics.operator_components import COMPONENTS
from diagnostics.snapshot import Condition, Container, Node, OwnerKey, Past, Pod, Snapshot
from tests.builders import NOW, container, node, pod, snapshot
from tests.rules.stack.operator_pods import component, crashing, pulling, ready, said, waiting_in_init

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_HEADER = re.compile(r"^# (?P<app>[\w-]+), (?P<status>\S+)$", re.MULTILINE)
_ROW = re.compile(
    r"^(?P<name>\S+)\s+(?P<ready>\d+)/\d+\s+(?P<status>\S+)\s+(?P<restarts>\d+)\s+(?P<age>\S+)$", re.MULTILINE
)
_NODE = re.compile(r"^# node made (?P<age>\S+) ago, (?P<how>ready|offers nothing)$", re.MULTILINE)


def picture(kind: str, text: str) -> Snapshot:
    """The snapshot of one case; `kind`: log, node or listing."""
    return _node_of(text) if kind == "node" else _pods_of(text)


def since(text: str) -> timedelta:
    """`3d20h`, `70s` as kubectl prints ages."""
    return sum((timedelta(**{_UNITS[u]: int(n)}) for n, u in re.findall(r"(\d+)([smhd])", text)), timedelta())


def _node_of(text: str) -> Snapshot:
    """The status of one node, read as the API's answer is."""
    ready_for = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-01T00:00:00Z"}
    body = yaml.safe_load(text)
    body["status"]["conditions"] = [ready_for]
    meta = {"name": "gpu-1", "creationTimestamp": "2026-05-01T00:00:00Z"}
    wire = msgspec.json.decode(msgspec.json.encode({"metadata": meta, "spec": {}} | body), type=NodeWire)
    host = NodeConverter()(wire)
    return snapshot(host, gpus=joined((host,), (), (), Past()))


def _pods_of(text: str) -> Snapshot:
    pods = [_pod(row) for row in _ROW.finditer(text)]
    header = _HEADER.search(text)
    signals: tuple[Any, ...] = ()
    host = _host(text)
    if header is not None:
        log = "\n".join(line for line in text.splitlines() if not (line.startswith("#") or _ROW.match(line)))
        speaker = _speaker(header["app"], header["status"])
        signals = said(speaker, log)
        pods.append(speaker)
        if header["app"] == "nvidia-mig-manager":
            labels = {"nvidia.com/mig.config": "all-balanced", "nvidia.com/mig.config.state": "failed"}
            host = msgspec.structs.replace(host, labels=host.labels | labels)
    return snapshot(host, *pods, gpus=joined((host,), tuple(pods), (), Past()), signals=signals)


def _host(text: str) -> Node:
    found = _NODE.search(text)
    if found is None:
        return node()
    made = NOW - since(found["age"])
    fields: dict[str, Any] = {"created_at": made, "conditions": (Condition("Ready", "True", since=made),)}
    if found["how"] == "ready":
        return node(**fields)
    return node(gpus=0, labels={"feature.node.kubernetes.io/pci-10de.present": "true"}, **fields)


def _speaker(app: str, status: str) -> Pod:
    box = ready("main") if status == "Running" else crashing("main")
    condition = Condition("Ready", str(status == "Running"), since=NOW - timedelta(hours=1))
    return component(app, box, minutes=60, conditions=(condition,), name=f"{app}-said")


def _pod(row: re.Match[str]) -> Pod:
    name, status, born = row["name"], row["status"], NOW - since(row["age"])
    app = max((a for a in COMPONENTS if name.startswith(f"{a}-")), key=len, default="")
    times: dict[str, Any] = {"created_at": born, "started_at": born}
    if not app:
        phase: dict[str, Any] = {"phase": "Failed", "reason": status, "conditions": ()}
        return pod(
            name, containers=(container(state="", is_ready=False, running_since=None),), **times, **phase
        )
    is_well = row["ready"] != "0"
    times["conditions"] = (Condition("Ready", str(is_well), since=born),)
    if status == "Completed":
        times["phase"] = "Succeeded"
    if app == "gpu-operator":
        times["owners"] = (OwnerKey("ReplicaSet", "gpu-operator", "gpu-operator-75b97", "apps/v1"),)
    return component(app, _box(status, int(row["restarts"])), name=name, **times)


def _box(status: str, restarts: int) -> Container:
    match status:
        case "Running" | "Completed":
            return ready("main")
        case "CrashLoopBackOff":
            return crashing("main", restarts=restarts)
        case "ImagePullBackOff" | "ErrImagePull":
            return pulling("main")
        case "ContainerCreating":
            return Container(name="main", state="waiting", waiting_reason=status)
    return waiting_in_init("validation")
