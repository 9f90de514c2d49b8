"""Pods whose device claims are not allocated (dynamic resource allocation): each for another reason."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from diagnostics.simulator.dra import DRIVER, SimDeviceClaim, exactly
from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.identity import suffix
from diagnostics.simulator.lifecycle import running, unschedulable
from diagnostics.simulator.templates import single
from diagnostics.simulator.timestamps import MINUTE, seconds
from diagnostics.simulator.workloads import Json, PodState, PodTemplate
from diagnostics.simulator.world import World

AGE = 45 * MINUTE
NAMESPACE = "genomics"
_CANNOT = (
    "0/{n} nodes are available: {n} cannot allocate all claims. still not schedulable, preemption: 0/{n} nodes are "
    "available: {n} Preemption is not helpful for scheduling."
)
_NO_CLASS = (
    "0/{n} nodes are available: request gpu: device class {name} does not exist. no new claims to deallocate, "
    "preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."
)
_MEMORY = "device.capacity['" + DRIVER + "'].memory.compareTo(quantity('{size}')) >= 0"
_PRODUCT = "device.attributes['" + DRIVER + "'].productName.startsWith('{name}')"


def _claimed_node(world: World) -> str:
    """A node whose GPUs the driver gives out; faults of this family share one."""
    if not world.dra.nodes:
        world.dra.take_over(world.take_spare_node(keep=8))
    return min(world.dra.nodes)


def _template(app: str, template: str, claimed: int) -> PodTemplate:
    found = single(app, 0, memory="64Gi", cpu="8")
    found.containers[0]["resources"]["claims"] = [{"name": "gpus"}]
    found.claimed = claimed
    found.more = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": template}]}
    return found


def _pod(
    world: World,
    name: str,
    request: Json,
    *,
    cause: str = "",
    says: str = _CANNOT,
    has_template: bool = True,
) -> None:
    """A bare pod with a claim from a template: bound where there is no `cause`, else waiting since AGE."""
    node = _claimed_node(world)
    template = f"{name}-gpus"
    if has_template:
        world.dra.claims.append(SimDeviceClaim(NAMESPACE, template, request, is_template=True))
    pod = world.add(
        "Pod",
        f"{NAMESPACE}/{name}",
        _template(name, template, 0 if cause else request["count"]),
        age=AGE,
    )
    made = f"{name}-gpus-{suffix(5, world.config.seed, name, 'claim')}"
    claim = SimDeviceClaim(NAMESPACE, made, request)
    if cause:
        state = PodState(phase="Pending", is_ready=False)
        if has_template:
            words = says.format(n=len(world.nodes), name=request["deviceClassName"])
            state = replace(unschedulable(), unscheduled_message=words, claims=(("gpus", made),))
            world.dra.claims.append(claim)
        world.queue(pod, 0, state)
        world.expect("pending-gpu-pod", pod, cause)
        return
    state = replace(running(pod.created + seconds(4)), claims=(("gpus", made),))
    placed = world.place(pod, node, 0, state)
    world.dra.claims.append(replace(claim, given=placed.devices, pod=placed.name, pod_uid=placed.uid))


def _too_many(world: World, count: int) -> None:
    is_fault = count > world.config.gpus_per_node
    _pod(world, "fold-proteins", exactly(count), cause="more devices than any node has" if is_fault else "")


def _no_template(world: World, *, exists: bool) -> None:
    cause = "" if exists else "its claim template does not exist"
    _pod(world, "align-reads", exactly(1), cause=cause, has_template=exists)


def _no_class(world: World, device_class: str) -> None:
    cause = "" if device_class == DRIVER else "its device class does not exist"
    _pod(world, "call-variants", exactly(1, device_class), cause=cause, says=_NO_CLASS)


def _memory(world: World, size: str) -> None:
    cause = "no device has so much memory" if size == "180Gi" else ""
    _pod(world, "assemble", exactly(1, DRIVER, _MEMORY.format(size=size)), cause=cause)


def _product(world: World, name: str) -> None:
    cause = "its selector picks no device" if "H100" not in name else ""
    _pod(world, "cluster-cells", exactly(1, DRIVER, _PRODUCT.format(name=name)), cause=cause)


def _tainted(world: World, effect: str) -> None:
    """All GPUs of the node are asked for; one has a taint."""
    node = world.nodes[_claimed_node(world)]
    sick = node.devices[-1]
    world.dra.taints[sick.uuid] = {"key": f"{DRIVER}/xid", "value": "79", "effect": effect}
    cause = "" if effect == "None" else "one of the devices is tainted"
    _pod(world, "train-folds", exactly(world.config.gpus_per_node), cause=cause)


def _driver(world: World, *, is_installed: bool) -> None:
    """Another vendor's class is there; its driver is not."""
    _claimed_node(world)
    name = DRIVER if is_installed else "gpu.amd.com"
    if not is_installed:
        world.dra.classes[name] = {"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]}
    cause = "" if is_installed else "its class has no driver that publishes devices"
    _pod(world, "basecall", exactly(1, name), cause=cause)


def _fault(
    slug: str, twin: str, name: str, cause: str, apply: Callable[[World], None], also: tuple[str, ...] = ()
) -> Fault:
    return Fault(slug, "pending-gpu-pod", twin, "Pod", name, cause, apply, namespace=NAMESPACE, also=also)


FAULTS = (
    _fault(
        "claim-too-many-devices",
        "claim-of-a-whole-node",
        "fold-proteins",
        "larger than any node",
        partial(_too_many, count=24),
    ),
    _fault(
        "claim-template-missing",
        "claim-template-present",
        "align-reads",
        "claim template missing",
        partial(_no_template, exists=False),
    ),
    _fault(
        "device-class-missing",
        "device-class-present",
        "call-variants",
        "device class missing",
        partial(_no_class, device_class="gpu.intel.com"),
    ),
    _fault(
        "claim-memory-too-large",
        "claim-memory-present",
        "assemble",
        "device memory too small",
        partial(_memory, size="180Gi"),
    ),
    _fault(
        "claim-selector",
        "claim-matching-selector",
        "cluster-cells",
        "selector picks no device",
        partial(_product, name="NVIDIA B200"),
    ),
    _fault(
        "claim-device-tainted",
        "claim-device-noted",
        "train-folds",
        "device tainted",
        partial(_tainted, effect="NoSchedule"),
        also=("fewer-gpus-than-fitted",),
    ),
    _fault(
        "claim-driver-missing",
        "claim-driver-present",
        "basecall",
        "driver of the class missing",
        partial(_driver, is_installed=False),
    ),
)
TWINS = (
    Twin("claim-of-a-whole-node", "asks for as many devices as a node has", partial(_too_many, count=8)),
    Twin("claim-template-present", "its template exists", partial(_no_template, exists=True)),
    Twin("device-class-present", "names a class that exists", partial(_no_class, device_class=DRIVER)),
    Twin("claim-memory-present", "asks for memory that a device has", partial(_memory, size="40Gi")),
    Twin("claim-matching-selector", "selects what the nodes have", partial(_product, name="NVIDIA H100")),
    Twin("claim-device-noted", "the taint has no effect", partial(_tainted, effect="None")),
    Twin("claim-driver-present", "its class has a driver", partial(_driver, is_installed=True)),
)
