"""Fix steps that change one container's environment or resources in its owner's manifest."""

from collections.abc import Mapping
from typing import Any

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests
from diagnostics.snapshot import Container, OwnerKey, Pod

_PATCHABLE = {"Deployment", "StatefulSet", "DaemonSet"}
"""Kinds whose pod template may change in place; a Job's may not, and custom resources differ."""


def change(
    pod: Pod, container: Container, changes: Mapping[str, Any], *, title: str, why: str, expect: str
) -> Step:
    """A patch of the pod's owner where its kind allows one, else the lines to change in its manifest."""
    owner = pod.root or OwnerKey("Pod", pod.namespace, pod.name, "v1")
    key = "initContainers" if container.is_init else "containers"
    if owner.kind in _PATCHABLE:
        patch = manifests.container_patch({container.name: changes}, kind=owner.kind)
        template = patch["spec"]["template"]["spec"]
        template[key] = template.pop("containers")
        command = kubectl.patch(owner.kind.lower(), owner.name, owner.namespace, manifests.to_json(patch))
        why = f"{why} The pods of {owner.kind} {owner.name} restart one after another."
        return Step(
            kind=StepKind.FIX, title=title, why=why, risk=Risk.DISRUPTIVE, command=command, expect=expect
        )
    return Step(
        kind=StepKind.FIX,
        title=title,
        why=f"{why} A {owner.kind} cannot be changed in place: change these lines in its manifest and create it anew; "
        "the running attempt is lost.",
        risk=Risk.DISRUPTIVE,
        manifest=manifests.to_yaml({key: [{"name": container.name, **changes}]}),
        expect=expect,
    )


def set_env(pod: Pod, container: Container, name: str, value: str, **words: str) -> Step:
    return change(pod, container, {"env": [{"name": name, "value": value}]}, **words)
