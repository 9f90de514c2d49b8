"""Fix steps that change one container of a workload: its memory limit, its environment, its probes."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests
from diagnostics.snapshot import Container, OwnerKey, Pod

PATCHABLE = {"Deployment", "StatefulSet", "DaemonSet"}
"""Kinds whose pod template may change in place; a Job's may not, and custom resources differ."""

HEADROOM = 1.3
"""Memory limit over the highest observed use (ours)."""


def limit_text(amount_bytes: float) -> str:
    """A Kubernetes quantity, rounded up to whole Gi, or to whole Mi below 4 Gi."""
    unit, step = ("Gi", 2**30) if amount_bytes >= 4 * 2**30 else ("Mi", 2**20)
    return f"{math.ceil(amount_bytes / step)}{unit}"


def change_container(
    pod: Pod, container: Container, changes: Mapping[str, Any], *, title: str, why: str, expect: str
) -> Step:
    """A patch of the pod's root owner where its kind allows one, else the lines to change in its manifest."""
    owner = pod.root or OwnerKey("Pod", pod.namespace, pod.name, "v1")
    if owner.kind not in PATCHABLE:
        lines = {
            "initContainers" if container.is_init else "containers": [{"name": container.name, **changes}]
        }
        return Step(
            kind=StepKind.FIX,
            title=title,
            why=f"{why} A {owner.kind} cannot be changed in place: change these lines of the pod template in "
            f"its "
            "manifest and create it anew; the running attempt is lost.",
            risk=Risk.DISRUPTIVE,
            manifest=manifests.to_yaml(lines),
            expect=expect,
        )
    patch = manifests.container_patch({container.name: changes}, kind=owner.kind)
    if container.is_init:
        template = patch["spec"]["template"]["spec"]
        template["initContainers"] = template.pop("containers")
    return Step(
        kind=StepKind.FIX,
        title=title,
        why=f"{why} The pods of {owner.kind} {owner.name} restart one after another.",
        risk=Risk.DISRUPTIVE,
        command=kubectl.patch(owner.kind.lower(), owner.name, owner.namespace, manifests.to_json(patch)),
        manifest=manifests.to_yaml(patch),
        expect=expect,
    )


def set_environment(
    pod: Pod, container: Container, values: Mapping[str, str], *, title: str, why: str, expect: str
) -> Step:
    env = [{"name": name, "value": value} for name, value in values.items()]
    return change_container(pod, container, {"env": env}, title=title, why=why, expect=expect)


def mount_in_memory(
    pod: Pod,
    container: Container,
    volume: str,
    path: str,
    size_bytes: float,
    *,
    title: str,
    why: str,
    expect: str,
) -> Step:
    """A volume in memory of this size at `path`: a new one, or an equally named one of the pod with another size."""
    volumes = [{"name": volume, "emptyDir": {"medium": "Memory", "sizeLimit": limit_text(size_bytes)}}]
    mounts = {"volumeMounts": [{"name": volume, "mountPath": path}]}
    step = change_container(pod, container, mounts, title=title, why=why, expect=expect)
    owner = pod.root or OwnerKey("Pod", pod.namespace, pod.name, "v1")
    if owner.kind not in PATCHABLE:
        lines = {"containers": [{"name": container.name, **mounts}], "volumes": volumes}
        return msgspec.structs.replace(step, manifest=manifests.to_yaml(lines))
    patch = manifests.container_patch({container.name: mounts}, kind=owner.kind)
    patch["spec"]["template"]["spec"]["volumes"] = volumes
    return msgspec.structs.replace(
        step,
        command=kubectl.patch(owner.kind.lower(), owner.name, owner.namespace, manifests.to_json(patch)),
        manifest=manifests.to_yaml(patch),
    )


def raise_memory_limit(pod: Pod, container: Container, amount_bytes: float, *, why: str) -> Step:
    """Request and limit to the same amount, so that node pressure does not make it the first to go."""
    amount = limit_text(amount_bytes)
    return change_container(
        pod,
        container,
        {"resources": {"requests": {"memory": amount}, "limits": {"memory": amount}}},
        title=f"Raise the host memory of container {container.name} to {amount} at least",
        why=why,
        expect="The pod starts and its highest working set stays below the new limit over a whole load cycle.",
    )
