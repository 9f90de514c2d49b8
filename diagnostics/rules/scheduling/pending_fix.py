"""Guided fixes for a waiting GPU pod: the steps of its cause, filled with its names."""

from collections.abc import Callable

import msgspec

from diagnostics.fixes import Fix, Step, in_order, mildest_first, steps
from diagnostics.fixes.sharing import offering
from diagnostics.rules.scheduling import (
    claim_steps,
    constraint_steps,
    queue_steps,
    reach_steps,
    shortage_steps,
    volume_steps,
)
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.owner_patch import delete_waiting
from diagnostics.snapshot import Pod, Snapshot


def pending_fix(pod: Pod, reading: Reading, snapshot: Snapshot) -> Fix:
    """Read-only steps first, then what the cause asks for, then how to see that it helped, then whom to ask."""
    reading = msgspec.structs.replace(reading, has_working=_has_working(pod, snapshot))
    causes = _CAUSES | _OF_CLAIMS if reading.claim_api or reading.cause in _CLAIMS_ALONE else _CAUSES
    offered = _offered(pod, snapshot) if reading.cause == "no-such-resource" else ()
    order = mildest_first if offered or reading.unused else in_order
    summary, make = causes.get(reading.cause, _CAUSES["unexplained"])
    made = (*make(pod, reading), *offered, *reach_steps.loosen(pod, reading))
    return Fix(
        summary,
        order(
            steps.describe_pod(pod),
            *made,
            *delete_waiting(pod, made),
            steps.verify_finding_gone("The pod is bound to a node; its finding closes."),
        ),
    )


def _has_working(pod: Pod, snapshot: Snapshot) -> bool:
    own = snapshot.pods_by_root.get(pod.root, []) if pod.root is not None else []
    return any(one.phase == "Running" for one in own)


def _offered(pod: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    """The other way round: a node that offers what the pod asks for, where its GPUs can be divided so."""
    ways = (found for name in sorted(pod.gpus) if (found := offering(name, snapshot)))
    return next(ways, ()) or claim_steps.by_claim(pod, snapshot)


_Maker = Callable[[Pod, Reading], tuple[Step, ...]]
_CAUSES: dict[str, tuple[str, _Maker]] = {
    "no-capacity": ("Free GPUs, add some, or let the job queue", shortage_steps.capacity),
    "preemption-blocked": ("Allow preemption, or wait", shortage_steps.capacity),
    "lower-priority-cannot-preempt": ("Wait, or raise its priority", shortage_steps.capacity),
    "fragmented": ("Free one whole node, and pack from now on", shortage_steps.fragmented),
    "pod-total-gpu-request-exceeds-node": (
        "Ask for the GPUs in one container only",
        shortage_steps.larger,
    ),
    "larger-than-any-node": ("Split the request over pods", shortage_steps.larger),
    "no-such-resource": ("Ask for a GPU resource that the cluster offers", shortage_steps.no_resource),
    "untolerated-taint": ("Tolerate the taint, or choose other nodes", reach_steps.taint),
    "selector-matches-no-node": ("Make selector and node labels agree", constraint_steps.selector),
    "node-cordoned": ("Find out why the node is cordoned, then put it back", constraint_steps.cordoned),
    "node-not-ready": ("Repair the node", constraint_steps.down),
    "cpu-or-memory-stranded": ("Fit CPU and memory to the GPUs", constraint_steps.stranded),
    "topology-spread": ("Loosen the spread constraint", constraint_steps.placement_rule),
    "affinity-excludes-gpu-node": ("Loosen the pod affinity", constraint_steps.placement_rule),
    "anti-affinity": ("Loosen the anti-affinity", constraint_steps.placement_rule),
    "host-ports": ("Do without host ports", constraint_steps.placement_rule),
    "volume-claim-missing": ("Create the volume claim that it names", volume_steps.volume),
    "storage-class-missing": ("Name a storage class that exists", volume_steps.volume),
    "no-default-storage-class": ("Name a storage class that exists", volume_steps.volume),
    "no-volume-to-bind": ("Provide a volume where the GPUs are", volume_steps.volume),
    "volume-provisioner-silent": ("Bring the storage provisioner back", volume_steps.volume),
    "volume-provisioning-failed": ("Repair what the storage provisioner fails at", volume_steps.volume),
    "volume-claim-unbound": ("Get its volume bound where the GPUs are", volume_steps.volume),
    "volume-in-another-zone": ("Bring the data to a zone with GPUs", volume_steps.volume),
    "volume-lost": ("Restore the volume that is lost", volume_steps.volume),
    "volume-in-use": ("Let one pod at a time use the volume", volume_steps.volume),
    "volume-attach-limit": ("Mount fewer volumes on one node", volume_steps.volume),
    "volume": ("Get its volume bound where the GPUs are", volume_steps.volume),
    "scheduling-gate": ("Wait for its turn, or ask who set the gate", constraint_steps.gate),
    "no-scheduler": ("Start the scheduler that it names, or name another", constraint_steps.scheduler),
    "pod-group-missing": ("Create the pod group that it names", shortage_steps.wait),
    "gang-does-not-fit": (queue_steps.summary_of("gang-does-not-fit"), queue_steps.whole_gang),
    "pod-group-too-few-pods": (queue_steps.summary_of("pod-group-too-few-pods"), queue_steps.too_few),
    "gpu-fragmentation-across-nodes": (
        "Free one whole node, and count room on nodes from now on",
        queue_steps.tas,
    ),
    **{cause: (queue_steps.summary_of(cause), queue_steps.queue) for cause in queue_steps.KEPT_BACK},
    "crashloop-pod-reserves-gpu": ("Repair or stop the pod that crashes", shortage_steps.elsewhere),
    "held-by-stuck-pods": ("Release the GPUs that stuck pods hold", shortage_steps.elsewhere),
    "gpus-unavailable-on-node": ("Bring the node's GPUs back", shortage_steps.elsewhere),
    "waiting-for-preemption": ("Wait for the preempted pods to end", shortage_steps.wait),
    "gang-waiting": ("Wait until the whole gang fits, or make room for it", shortage_steps.wait),
    "fits-now": ("Wait for the scheduler's next try", shortage_steps.wait),
    "unexplained": ("Read what its scheduler says", shortage_steps.wait),
}
_CLAIMS_ALONE: dict[str, tuple[str, _Maker]] = {
    "claim-missing": ("Create the claim that it names", claim_steps.missing),
    "claim-template-missing": ("Create the claim template that it names", claim_steps.missing),
    "claim-not-made": ("Find out why its claim is not made", claim_steps.not_made),
    "device-class-missing": ("Ask for a device class that exists", claim_steps.no_class),
    "claim-selector-matches-no-device": ("Make selector and devices agree", claim_steps.no_device),
    "device-memory-too-small": ("Ask for memory that a device has", claim_steps.no_device),
    "dra-driver-missing": ("Bring the DRA driver up", claim_steps.driver),
    "device-tainted": ("Repair the device that is tainted", claim_steps.tainted),
    "claim-not-allocatable": ("Make claim and devices agree", claim_steps.capacity),
}
_OF_CLAIMS: dict[str, tuple[str, _Maker]] = _CLAIMS_ALONE | {
    "larger-than-any-node": ("Ask for fewer devices per pod", claim_steps.no_device),
    "no-capacity": ("Free such devices, or let the job wait", claim_steps.capacity),
    "fragmented": ("Free such devices on one node, or let the job wait", claim_steps.capacity),
}
"""What a device claim waits for; of causes that others share, the steps that claims have."""
