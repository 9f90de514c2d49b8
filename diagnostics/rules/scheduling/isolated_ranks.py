"""Ranks that are each alone in a pod of one GPU: beside each other on a host, and yet cut off from each other.

A container sees the GPU that it asked for and has a host name and /dev/shm of its own. NCCL takes such ranks for
those of different hosts: neither NVLink (CUDA IPC) nor shared memory is used between them, and all share the host's
network interfaces. Source: NVIDIA NCCL user guide, troubleshooting, and NVIDIA/nccl src/init.cc (host hash).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from diagnostics.findings import Confidence, Evidence, Hit, Subject
from diagnostics.gpu_models import has_nvlink
from diagnostics.placement import Room, fitted
from diagnostics.rules.scheduling.isolated_fix import isolated_fix
from diagnostics.snapshot import Container, Gang, Pod, Snapshot
from diagnostics.text import counted, listed, printable

GPU = "nvidia.com/gpu"
FEWEST = 2
"""One rank on a host has nobody beside it."""


class Isolation(NamedTuple):
    """Where the ranks of one job stand side by side in pods of their own."""

    hosts: dict[str, int]
    """Node -> ranks on it, for the nodes with enough of them."""
    most_gpus: int
    """GPUs fitted in the smallest of these nodes."""
    paths: tuple[str, ...] = ()
    """What the members' logs say NCCL uses: `NET`, `SHM`."""


def isolated_ranks(
    placed: Sequence[Pod], given: Mapping[str, Room], snapshot: Snapshot, least: int
) -> Isolation | None:
    """The hosts on which `least` ranks or more, or as many as it has GPUs, stand side by side; None for none.

    None too where a member has more than one GPU or a share of one, may reach the others' GPUs, or is seen to; and
    on boards without NVLink or with an NVLink domain over hosts, which pods of one GPU can use.
    """
    if not placed or not all(_is_alone(pod) for pod in placed):
        return None
    own = {pod.key for pod in placed}
    paths = {
        told.words.get("transport", "")
        for told in snapshot.signals
        if told.signal == "nccl-path" and told.pod_key in own
    }
    if "P2P" in paths:
        return None
    hosts: dict[str, int] = {}
    sizes = []
    for name, ranks in sorted(Counter(pod.node for pod in placed if pod.node).items()):
        node = given[name].node
        if node.nvlink_domain or node.gpu_replicas > 1 or has_nvlink(node.gpu_product) is False:
            continue
        size = fitted(node, GPU, snapshot.past)
        if size and ranks >= FEWEST and (ranks >= least or ranks >= size):
            hosts[name] = ranks
            sizes.append(int(size))
    return Isolation(hosts, min(sizes), tuple(sorted(paths - {""}))) if hosts else None


def _is_alone(pod: Pod) -> bool:
    """It asks the device plugin for one whole GPU, and nothing lets it see more. What claims give is not known here."""
    return pod.gpus == {GPU: 1.0} and not pod.resource_claims and not any(map(_sees_all, pod.containers))


def _sees_all(container: Container) -> bool:
    visible = container.env.get("NVIDIA_VISIBLE_DEVICES", "").strip().lower()
    return container.is_privileged or visible == "all" or "," in visible


def alone_facts(placed: Sequence[Pod]) -> tuple[Evidence, ...]:
    """What a job that is spread gets to know besides, where each of its ranks has a pod of its own."""
    if not all(_is_alone(pod) for pod in placed):
        return ()
    said = "1: put on one host, they could still not use NVLink, which takes the ranks of a host in one pod"
    return (Evidence("GPUs per pod", said, source=f"limit {GPU} of its pods"),)


def isolated_hit(gang: Gang, subject: Subject, placed: Sequence[Pod], found: Isolation) -> Hit:
    """The finding, medium in confidence unless the log shows the network between the ranks of one host."""
    most = max(found.hosts.values())
    where = listed([f"{printable(name, 80)} {ranks}" for name, ranks in found.hosts.items()], 8)
    hosts = counted(len(found.hosts), "host")
    all_on_one = len({pod.node for pod in placed}) == 1
    sees_network = all_on_one and "NET" in found.paths
    facts = [
        Evidence(
            "collective", gang.collective, source="kind, labels, command, environment and logs of its pods"
        ),
        Evidence("GPUs per pod", "1", "GPU", f"limit {GPU} of its pods"),
        Evidence("pods per host", where, source="spec.nodeName of its pods"),
        Evidence("GPUs of a host", str(found.most_gpus), "GPUs", f"capacity {GPU}, label {GPU}.count"),
    ]
    if found.paths:
        facts.append(
            Evidence("NCCL uses", listed(list(found.paths)), source="NCCL INFO Channel lines in logs")
        )
    return Hit(
        subject=subject,
        cause="ranks-isolated-in-single-gpu-pods",
        title=f"{printable(str(subject), 160)} has {most} ranks on one host, each in a pod of one GPU",
        summary="Each of these pods sees only its own GPU, so that NCCL cannot use NVLink or shared memory between the "
        f"ranks on {hosts}: their traffic passes the host's network interfaces, which all of them share. It works, "
        "and runs slower than with the ranks of a host in one pod.",
        evidence=tuple(facts),
        fix=isolated_fix(gang, placed, found.most_gpus),
        confidence=Confidence.HIGH if sees_network else Confidence.MEDIUM,
        gpus=sum(pod.gpu_count for pod in placed),
        nodes=tuple(found.hosts),
        pods=tuple(pod.key for pod in placed),
    )
