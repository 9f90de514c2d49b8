"""Steps for a pod whose device claims are not allocated, with manifests in the version that the cluster serves."""

from typing import Any

from diagnostics.fixes import Risk, Step, StepKind, kubectl, manifests, steps
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.owner_patch import in_words, patch_of_owner
from diagnostics.snapshot import Pod, Snapshot
from diagnostics.snapshot.resource_claims import is_gpu_driver
from diagnostics.text import printable

PLUGIN_RESOURCE, WHOLE_CLASS = "nvidia.com/gpu", "gpu.nvidia.com"
"""The device plugin's name for a whole GPU, and the DRA driver's class for one."""
FLAT = "resource.k8s.io/v1beta1"
"""The one served version in which a request is not under `exactly`."""


def see_claims(pod: Pod) -> Step:
    return steps.look(
        title="List the resource claims of the namespace",
        why="A claim or its template can be missing, name a device class that does not exist, or select no device.",
        command=kubectl.kubectl(
            "get", "resourceclaims,resourceclaimtemplates", "-n", pod.namespace, "-o", "wide"
        ),
        expect="The claim that the pod names, allocated or not.",
    )


def see_devices() -> Step:
    return steps.look(
        title="List the device classes and the devices that drivers publish",
        why="The claim can only be allocated from these.",
        command=kubectl.kubectl("get", "deviceclasses,resourceslices", "-o", "wide"),
        expect="The class of the claim, and slices of its driver.",
    )


def missing(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    """The claim, or the template that it is to be made from, is written anew."""
    name = reading.names[0] if reading.names else "gpu"
    is_template = reading.cause == "claim-template-missing"
    kind = "ResourceClaimTemplate" if is_template else "ResourceClaim"
    spare = reading.names[1:]
    return (
        see_claims(pod),
        see_devices(),
        *_write(
            pod,
            reading,
            kind,
            name,
            _gpu_class(spare),
            title=f"Create the {kind} {printable(name, 120)}, or name one that exists",
            why="The pod waits for ever for an object that is not in its namespace. Check the name first: a claim that "
            "several pods name is shared by them, one made from a template belongs to one pod.",
        ),
    )


def not_made(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        see_claims(pod),
        steps.look(
            title="Read what the claim controller says",
            why="kube-controller-manager makes claims from templates, and writes an event where it cannot.",
            command=kubectl.events_of("pod", pod.name, pod.namespace),
            expect="A FailedResourceClaimCreation event with the reason, or none yet.",
        ),
        steps.escalate(
            "whoever runs the control plane",
            why="The controller that makes claims does not run, or may not make this one.",
            expect="The claim is there within a minute.",
        ),
    )


def no_class(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    """Another class, which is there; or the driver that brings this one."""
    spare = reading.names[1:]
    return (
        see_devices(),
        *_of_its_own(
            pod,
            reading,
            _gpu_class(spare),
            title="Ask for a device class that exists",
            why="Classes are installed with a driver. A claim's spec cannot be changed: the template, or a new claim, "
            "must name another class, and the pod be made anew.",
        ),
        steps.escalate(
            "whoever runs the cluster",
            why="If the class is right, its driver is not installed.",
            expect="`kubectl get deviceclasses` shows it.",
        ),
    )


def no_device(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    """The selector, the memory or the number is brought in line with what there is."""
    device_class = reading.names[0] if reading.names else "<device class>"
    return (
        see_claims(pod),
        see_devices(),
        *_of_its_own(
            pod,
            reading,
            device_class,
            title="Ask for what the nodes have",
            why="No device can ever meet this claim as it is. A claim's spec cannot be changed, and an allocation "
            "never grows or shrinks: write the template or the claim anew, then make the pod anew. Selectors are left "
            "out here; add them again with values that the devices have.",
        ),
        steps.escalate(
            "whoever runs the cluster",
            why="If the workload really needs such a device, the cluster must get one.",
            expect="A slice that lists it.",
        ),
    )


def driver(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        see_devices(),
        steps.look(
            title="Look for the pods of the DRA driver",
            why="Its kubelet plugin runs on each node with devices and publishes them; else no claim is allocated.",
            command=kubectl.kubectl("get", "pods", "-A", "-o", "wide"),
            expect="A running kubelet plugin of the driver on every GPU node; if there is none, it is not installed.",
        ),
        steps.escalate(
            "whoever runs the cluster",
            why="Installing or repairing the driver is theirs. Pods that ask for an extended resource, such as "
            "nvidia.com/gpu, are served by a device plugin instead where one runs.",
            expect="`kubectl get resourceslices` shows slices of the driver.",
        ),
    )


def tainted(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    nodes = reading.places[:2]
    return (
        steps.look(
            title="Read the taints of the devices",
            why="A driver, or an administrator by a DeviceTaintRule, marks a device that should not be used; key and "
            "value say why, for example the Xid.",
            command=kubectl.kubectl("get", "resourceslices", "-o", "yaml"),
            expect="The tainted device with key, value and time.",
        ),
        *(steps.read_kernel_log(node) for node in nodes),
        steps.escalate(
            "the hardware team",
            why="A taint for a Xid or a lost GPU ends when the device is repaired. Tolerating it puts work on a broken "
            "GPU.",
            expect="The taint is gone, and the claim is allocated.",
        ),
    )


def capacity(pod: Pod, reading: Reading) -> tuple[Step, ...]:
    return (
        see_claims(pod),
        steps.look(
            title="See which claims hold devices, and for which pods",
            why="A claim keeps its devices for as long as it is reserved for a pod; one that is named can be shared by "
            "several.",
            command=kubectl.kubectl("get", "resourceclaims", "-A"),
            expect="State `allocated,reserved` with pods that really run.",
        ),
        steps.escalate(
            "the owners of the claims that hold such devices",
            why="Only they can say what may end; an allocation is not taken away for a pod of equal priority.",
            expect="A device is free, and the claim is allocated at the scheduler's next try.",
        ),
    )


def by_claim(pod: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    """A claim instead of `nvidia.com/gpu`, where no node offers that and a DRA driver publishes whole GPUs.

    Nothing for a pod of which several containers ask for GPUs, or that asks for parts of one.
    """
    api = next((a.api_version for a in snapshot.apis if a.resource == "resourceclaims"), "")
    asking = [c for c in pod.containers if c.gpus]
    has_devices = any(s.driver == WHOLE_CLASS and s.devices for s in snapshot.dra.slices)
    if not api or not has_devices or WHOLE_CLASS not in snapshot.dra.class_by_name:
        return ()
    if len(asking) != 1 or asking[0].is_init or asking[0].gpus.keys() != {PLUGIN_RESOURCE}:
        return ()
    name = f"{pod.root.name if pod.root is not None else pod.name}-gpu"
    count = int(asking[0].gpus[PLUGIN_RESOURCE])
    template = manifest(api, "ResourceClaimTemplate", pod.namespace, name, WHOLE_CLASS, count)
    resources = {part: {PLUGIN_RESOURCE: None} for part in ("limits", "requests")}
    spec = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
        "containers": [{"name": asking[0].name, "resources": {**resources, "claims": [{"name": "gpu"}]}}],
    }
    lines = patch_of_owner(pod, spec)
    return (
        Step(
            kind=StepKind.FIX,
            title="Ask for the GPUs by a claim",
            why="No device plugin offers GPUs here; a DRA driver does, and gives them to claims alone. Each pod gets a "
            f"claim of its own from the template, and holds it until it ends.{in_words(pod, spec)}",
            risk=Risk.DISRUPTIVE,
            manifest="---\n".join(text for text in (manifests.to_yaml(template), lines) if text),
            expect="The claim is made and allocated; the pod is bound to a node.",
        ),
    )


def _gpu_class(names: tuple[str, ...]) -> str:
    """A class for whole GPUs among these; else a place to fill in."""
    return next((name for name in names if is_gpu_driver(name)), "<device class>")


def _of_its_own(pod: Pod, reading: Reading, device_class: str, *, title: str, why: str) -> tuple[Step, ...]:
    """Its template, or its claim where it names one, written anew."""
    if not pod.resource_claims:
        return ()
    template = next(iter(pod.claim_templates.values()), "")
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    return _write(pod, reading, kind, template or pod.resource_claims[0], device_class, title=title, why=why)


def _write(
    pod: Pod, reading: Reading, kind: str, name: str, device_class: str, *, title: str, why: str
) -> tuple[Step, ...]:
    """Nothing where it is not known in which version the cluster would take it."""
    if not reading.claim_api:
        return ()
    count = max(1, int(sum(pod.claimed_gpus.values())))
    if reading.most:
        count = min(count, reading.most)
    return (
        Step(
            kind=StepKind.FIX,
            title=title,
            why=why,
            risk=Risk.SAFE,
            manifest=manifests.to_yaml(
                manifest(reading.claim_api, kind, pod.namespace, name, device_class, count)
            ),
            expect="The claim is made and allocated; the pod is bound to a node.",
        ),
    )


def manifest(api: str, kind: str, namespace: str, name: str, device_class: str, count: int) -> dict[str, Any]:
    """A claim or a template for so many devices of a class. `api`: a served version, v1beta1 or later."""
    wanted: dict[str, Any] = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    request = {"name": "gpu", **wanted} if api == FLAT else {"name": "gpu", "exactly": wanted}
    spec: dict[str, Any] = {"devices": {"requests": [request]}}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec,
    }
