"""Nodes as the API server shows them: labels of NFD, GFD and the GPU Operator, capacity, conditions, images."""

from datetime import datetime
from functools import lru_cache

import msgspec

from diagnostics.simulator.devices import CPU_CORES, DRIVER, MEMORY_GIB, MEMORY_MIB, MODEL, SimNode
from diagnostics.simulator.identity import hex_of, uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.operator_stack import COMPONENTS
from diagnostics.simulator.templates import NOTEBOOK, PYTORCH, TRITON, VLLM
from diagnostics.simulator.timestamps import rfc3339, seconds
from diagnostics.simulator.workloads import Json
from diagnostics.simulator.world import World

HEARTBEAT_S = 300
_CPU_FLAGS = ("ADX", "AESNI", "AMXBF16", "AMXINT8", "AMXTILE", "AVX", "AVX2", "AVX512F", "AVX512VNNI", "FMA3")
_PRODUCT = MODEL.replace(" ", "-")


_ENCODED: dict[tuple[object, ...], bytes] = {}


def encoded_node(world: World, node: SimNode) -> bytes:
    """The same bytes as long as nothing of it changes."""
    key = (
        *(world.config.seed, node.name, node.rack, node.pool, node.taints, node.created, node.lost_since),
        *(node.boots, node.ready_since, node.is_cordoned, node.conditions),
        *(node.driver_gone_since, _heartbeat(world, node), *node.labels.items()),
        *(*node.allocatable().items(), *node.capacity().items()),
    )
    if key not in _ENCODED:
        # A few heartbeats of each: older ones do not come back.
        if len(_ENCODED) > 4 * len(world.nodes) + 64:
            _ENCODED.clear()
        _ENCODED[key] = msgspec.json.encode(node_object(world, node))
    return _ENCODED[key]


def node_object(world: World, node: SimNode) -> Json:
    labels = dict(
        sorted((_kubelet_labels(node) | _feature_labels(node) | _operator_labels(node) | node.labels).items())
    )
    features = [k.removeprefix("feature.node.kubernetes.io/") for k in _feature_labels(node)]
    annotations = {
        "nfd.node.kubernetes.io/feature-labels": ",".join(sorted(features)),
        "node.alpha.kubernetes.io/ttl": "0",
        "nvidia.com/gpu-driver-upgrade-enabled": "true",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    heartbeat = _heartbeat(world, node)
    metadata = meta.metadata(
        node.name,
        "",
        uuid_of(world.config.seed, "Node", node.name),
        node.created,
        (heartbeat, node.allocatable(), labels),
        labels=labels,
        annotations=annotations,
    )
    spec = _spec(node)
    metadata["managedFields"] = _managed(node, spec, heartbeat)
    return {"metadata": metadata, "spec": spec, "status": _status(world, node, heartbeat)}


def _heartbeat(world: World, node: SimNode) -> datetime:
    """The kubelet repeats an unchanged status every 5 minutes, each node at its own second."""
    until = node.lost_since or world.now
    age = int((until - node.created).total_seconds())
    return node.created + seconds(age - (age + node.position * 17) % HEARTBEAT_S)


def _kubelet_labels(node: SimNode) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "example.com/pool": node.pool,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "network.topology.nvidia.com/leaf": node.rack,
        "node.kubernetes.io/instance-type": "metal",
        "topology.kubernetes.io/region": "eu-north-1",
        "topology.kubernetes.io/zone": "eu-north-1a",
    }


def _feature_labels(node: SimNode) -> dict[str, str]:
    """Of NFD, and of GFD unless the driver is gone (then GFD cannot run, and NFD drops its labels)."""
    prefix = "feature.node.kubernetes.io/"
    labels = {f"{prefix}cpu-cpuid.{flag}": "true" for flag in _CPU_FLAGS} | {
        f"{prefix}cpu-hardware_multithreading": "true",
        f"{prefix}cpu-model.family": "6",
        f"{prefix}cpu-model.id": "143",
        f"{prefix}cpu-model.vendor_id": "Intel",
        f"{prefix}kernel-config.NO_HZ": "true",
        f"{prefix}kernel-version.full": "5.15.0-122-generic",
        f"{prefix}kernel-version.major": "5",
        f"{prefix}kernel-version.minor": "15",
        f"{prefix}kernel-version.revision": "0",
        f"{prefix}memory-numa": "true",
        f"{prefix}pci-10de.present": "true",
        f"{prefix}pci-15b3.present": "true",
        f"{prefix}pci-15b3.sriov.capable": "true",
        f"{prefix}rdma.available": "true",
        f"{prefix}rdma.capable": "true",
        f"{prefix}storage-nonrotationaldisk": "true",
        f"{prefix}system-os_release.ID": "ubuntu",
        f"{prefix}system-os_release.VERSION_ID": "22.04",
        f"{prefix}system-os_release.VERSION_ID.major": "22",
        f"{prefix}system-os_release.VERSION_ID.minor": "04",
    }
    return labels if node.driver_gone_since else labels | _gfd_labels(node)


def _gfd_labels(node: SimNode) -> dict[str, str]:
    major, minor, revision = DRIVER.split(".")
    whole = node.fitted("nvidia.com/gpu")
    labels = {
        "cuda.driver-version.full": DRIVER,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.runtime-version.full": "12.4",
        "cuda.runtime-version.major": "12",
        "cuda.runtime-version.minor": "4",
        "cuda.runtime.major": "12",
        "cuda.runtime.minor": "4",
        "gfd.timestamp": str(int(node.created.timestamp()) + 95),
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
        "gpu.count": str(whole),
        "gpu.family": "hopper",
        "gpu.machine": "DGXH100",
        "gpu.memory": str(MEMORY_MIB),
        "gpu.mode": "compute",
        "gpu.product": _PRODUCT,
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "mig.capable": "true",
        "mig.strategy": "mixed",
        "mps.capable": "false",
        "vgpu.present": "false",
    }
    for profile in sorted({d.mig_profile for d in node.devices if d.mig_profile}):
        count = sum(d.mig_profile == profile for d in node.devices)
        labels |= {
            f"mig-{profile}.count": str(count),
            f"mig-{profile}.memory": "9984",
            f"mig-{profile}.product": f"{_PRODUCT}-MIG-{profile}",
            f"mig-{profile}.replicas": "1",
            f"mig-{profile}.sharing-strategy": "none",
            f"mig-{profile}.slices.ci": "1",
            f"mig-{profile}.slices.gi": "1",
        }
    return {f"nvidia.com/{k}": v for k, v in labels.items()}


def _operator_labels(node: SimNode) -> dict[str, str]:
    switches = {f"nvidia.com/gpu.deploy.{c.switch}": "true" for c in COMPONENTS}
    is_split = any(d.mig_profile for d in node.devices)
    return switches | {
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        "nvidia.com/gpu.deploy.dcgm": "true",
        "nvidia.com/gpu.deploy.node-status-exporter": "true",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/mig.config": "custom-config" if is_split else "all-disabled",
        "nvidia.com/mig.config.state": "success",
    }


def _spec(node: SimNode) -> Json:
    cidr = f"10.{244 + node.position // 256 % 8}.{node.position % 256}.0/24"
    spec: Json = {"podCIDR": cidr, "podCIDRs": [cidr]}
    taints = [{"key": k, "value": v, "effect": e} for k, v, e in node.taints]
    if node.lost_since:
        noticed = rfc3339(node.lost_since + seconds(50))
        key = "node.kubernetes.io/unreachable"
        taints += [{"key": key, "effect": e, "timeAdded": noticed} for e in ("NoSchedule", "NoExecute")]
    if node.is_cordoned:
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        spec["unschedulable"] = True
    return spec | ({"taints": taints} if taints else {})


def _status(world: World, node: SimNode, heartbeat: datetime) -> Json:
    capacity = {k: str(v) for k, v in node.capacity().items()}
    allocatable = {k: str(v) for k, v in node.allocatable().items()}
    pages = {"hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    return {
        "capacity": {"cpu": str(CPU_CORES), "ephemeral-storage": "28121987Mi"}
        | pages
        | {"memory": f"{MEMORY_GIB}Gi"}
        | capacity
        | {"pods": "110"},
        "allocatable": {"cpu": f"{CPU_CORES * 1000 - 500}m", "ephemeral-storage": "26539057Mi"}
        | pages
        | {"memory": f"{MEMORY_GIB - 4}Gi"}
        | allocatable
        | {"pods": "110"},
        "conditions": _conditions(node, heartbeat),
        "addresses": [{"type": "InternalIP", "address": node.ip}, {"type": "Hostname", "address": node.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": hex_of(32, world.config.seed, "machine", node.name),
            "systemUUID": uuid_of(world.config.seed, "system", node.name),
            "bootID": uuid_of(world.config.seed, "boot", node.name, *([node.boots] if node.boots else [])),
            "kernelVersion": "5.15.0-122-generic",
            "osImage": "Ubuntu 22.04.5 LTS",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.36.2",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": _images(),
        "runtimeHandlers": [
            {"name": n, "features": {"recursiveReadOnlyMounts": True, "userNamespaces": n != "nvidia"}}
            for n in ("", "runc", "nvidia")
        ],
        "features": {"supplementalGroupsPolicy": True},
    }


def _conditions(node: SimNode, heartbeat: datetime) -> list[Json]:
    good = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    lost = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    changed = node.ready_since or node.created + seconds(30)
    if node.lost_since:
        changed = node.lost_since + seconds(50)
    return [
        {
            "type": kind,
            "status": (lost if node.lost_since else said)[0],
            "lastHeartbeatTime": rfc3339(heartbeat),
            "lastTransitionTime": rfc3339(changed),
            "reason": (lost if node.lost_since else said)[1],
            "message": (lost if node.lost_since else said)[2],
        }
        for kind, *said in good
    ] + [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": rfc3339(heartbeat),
            "lastTransitionTime": rfc3339(heartbeat),
            "reason": reason,
            "message": message,
        }
        for kind, status, reason, message in node.conditions
    ]


@lru_cache(maxsize=1)
def _images() -> list[Json]:
    names = {PYTORCH, TRITON, VLLM, NOTEBOOK} | {
        c["image"] for part in COMPONENTS for c in (part.app, *part.inits)
    }
    return [
        {
            "names": [f"{n.rsplit(':', 1)[0]}@sha256:{hex_of(64, 'image', n)}", n],
            "sizeBytes": 300_000_000 + int(hex_of(8, "size", n), 16) * 4,
        }
        for n in sorted(names)
    ]


def _managed(node: SimNode, spec: Json, heartbeat: datetime) -> list[Json]:
    def tree(labels: dict[str, str]) -> Json:
        return meta.field_set({"metadata": {"labels": labels}})

    entries = [
        meta.managed("gpu-operator", "v1", node.created, tree(_operator_labels(node))),
        meta.managed(
            "kubelet", "v1", node.created, tree(_kubelet_labels(node)) | meta.field_set({"spec": spec})
        ),
        meta.managed("nfd-master", "v1", node.created + seconds(95), tree(_feature_labels(node))),
    ]
    resources = {"allocatable": node.allocatable(), "capacity": node.capacity()}
    return [
        *entries,
        meta.managed("kubelet", "v1", heartbeat, meta.field_set({"status": resources}), "status"),
    ]
