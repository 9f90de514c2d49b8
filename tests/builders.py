"""Builders with sane defaults: a test names only what it is about."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from diagnostics.snapshot import (
    Condition,
    Container,
    Event,
    Gang,
    Gpu,
    Metrics,
    Node,
    OwnerKey,
    Pod,
    Snapshot,
    Source,
    SourceState,
    SourceStatus,
    Stat,
    Window,
)

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
GIB = 2**30


def ago(**parts: float) -> datetime:
    """A moment before NOW: `ago(minutes=12)`."""
    return NOW - timedelta(**parts)


def node(name: str = "gpu-1", gpus: int = 8, **fields: Any) -> Node:
    """A ready node with `gpus` fitted and allocatable A100s, 64 cores and 512 GiB."""
    amounts = {"cpu": 64.0, "memory": 512.0 * GIB, "pods": 110.0}
    labels = {"kubernetes.io/hostname": name}
    if gpus:
        amounts["nvidia.com/gpu"] = float(gpus)
        labels |= {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": str(gpus),
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/cuda.driver-version.full": "550.90.07",
        }
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "created_at": ago(days=30),
        "labels": labels | fields.pop("labels", {}),
        "capacity": amounts | fields.pop("capacity", {}),
        "allocatable": amounts | fields.pop("allocatable", {}),
        "conditions": (Condition("Ready", "True", since=ago(days=30)),),
    }
    return Node(name=name, **(defaults | fields))


def container(name: str = "main", gpus: int = 1, **fields: Any) -> Container:
    """A running, ready container asking for `gpus` GPUs, 4 cores and 32 GiB."""
    amounts = {"cpu": 4.0, "memory": 32.0 * GIB} | ({"nvidia.com/gpu": float(gpus)} if gpus else {})
    defaults: dict[str, Any] = {
        "image": "registry.example/team/train:1.0",
        "requests": amounts,
        "limits": amounts,
        "state": "running",
        "running_since": ago(hours=2),
        "is_ready": True,
    }
    return Container(name=name, **(defaults | fields))


def pod(name: str = "train-0", namespace: str = "research", gpus: int = 1, **fields: Any) -> Pod:
    """A running, ready pod on node gpu-1, two hours old, bare unless `root` or `owners` is given."""
    key = OwnerKey("Pod", namespace, name, "v1", f"uid-{name}")
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "root": key,
        "created_at": ago(hours=2),
        "started_at": ago(hours=2),
        "node": "gpu-1",
        "phase": "Running",
        "scheduler": "default-scheduler",
        "conditions": (
            Condition("PodScheduled", "True", since=ago(hours=2)),
            Condition("Ready", "True", since=ago(hours=2)),
        ),
        "containers": (container(gpus=gpus),),
    }
    return Pod(namespace=namespace, name=name, **(defaults | fields))


def pending_pod(
    name: str = "wait-0",
    message: str = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    **fields: Any,
) -> Pod:
    """An unbound pod that the scheduler refused 20 minutes ago."""
    defaults: dict[str, Any] = {
        "node": None,
        "phase": "Pending",
        "started_at": None,
        "created_at": ago(minutes=20),
        "conditions": (Condition("PodScheduled", "False", "Unschedulable", message, ago(minutes=20)),),
        "containers": (container(gpus=fields.pop("gpus", 1), state="", running_since=None, is_ready=False),),
    }
    return pod(name, **(defaults | fields))


def owner(kind: str = "Job", name: str = "train", namespace: str = "research") -> OwnerKey:
    return OwnerKey(kind, namespace, name, "batch/v1" if kind == "Job" else "apps/v1", f"uid-{name}")


def stat(value: float, *, low: float | None = None, high: float | None = None) -> Stat:
    """A flat statistic, or one between `low` and `high` with `value` as its mean."""
    return Stat(value if low is None else low, value, value if high is None else high)


def window(**fields: Any) -> Window:
    """A fully covered 30-minute window of a busy GPU."""
    defaults: dict[str, Any] = {
        "span": timedelta(minutes=30),
        "coverage_ratio": 1.0,
        "utilization_ratio": stat(0.9),
        "gr_engine_ratio": stat(0.9),
        "sm_active_ratio": stat(0.7),
        "dram_active_ratio": stat(0.5),
        "tensor_active_ratio": stat(0.3),
        "memory_used_bytes": stat(60.0 * GIB),
        "power_w": stat(320.0, low=250.0, high=380.0),
    }
    return Window(**(defaults | fields))


def idle_window(memory_bytes: float = 20.0 * GIB, **fields: Any) -> Window:
    """A window without any engine activity, with a model resident, power at 60 W of 400 W."""
    nothing = stat(0.0)
    return window(
        **{
            "utilization_ratio": nothing,
            "gr_engine_ratio": nothing,
            "sm_active_ratio": nothing,
            "dram_active_ratio": nothing,
            "tensor_active_ratio": nothing,
            "memory_used_bytes": stat(memory_bytes),
            "power_w": stat(60.0),
            **fields,
        }
    )


def gpu(index: int = 0, node: str = "gpu-1", **fields: Any) -> Gpu:
    """A named, healthy, free A100 with a fresh sample; give `holders` to have it held."""
    pci = f"00000000:{index + 16:02x}:00.0"
    defaults: dict[str, Any] = {
        "slot": f"{node}/{pci}",
        "index": index,
        "pci": pci,
        "uuid": f"GPU-{node}-{index}",
        "model": "NVIDIA A100-SXM4-80GB",
        "is_healthy": True,
        "metrics": Metrics(
            sampled_at=NOW,
            utilization_ratio=0.9,
            memory_used_bytes=60.0 * GIB,
            memory_free_bytes=19.0 * GIB,
            power_w=320.0,
            power_limit_w=400.0,
            temperature_c=60.0,
            xid=0,
        ),
        "window": window(),
    }
    if fields.get("holders"):
        defaults["holder_source"] = "metric label"
    return Gpu(node=node, **(defaults | fields))


def gang(name: str = "train", namespace: str = "research", **fields: Any) -> Gang:
    """A collective Job."""
    defaults: dict[str, Any] = {
        "kind": "Job",
        "api_version": "batch/v1",
        "system": "Job",
        "collective": "torchrun in the command line",
    }
    return Gang(name=name, namespace=namespace, **(defaults | fields))


def event(reason: str, message: str = "", name: str = "train-0", **fields: Any) -> Event:
    defaults: dict[str, Any] = {
        "namespace": "research",
        "kind": "Pod",
        "type": "Warning",
        "first_at": ago(minutes=20),
        "last_at": ago(minutes=1),
    }
    return Event(reason=reason, message=message, name=name, **(defaults | fields))


def statuses(without: Iterable[Source] = (), partial: Iterable[Source] = ()) -> tuple[SourceStatus, ...]:
    """Every source ok, but for those named."""
    missing, incomplete = set(without), set(partial)
    state = dict.fromkeys(Source, SourceState.OK)
    state |= dict.fromkeys(incomplete, SourceState.PARTIAL) | dict.fromkeys(missing, SourceState.ABSENT)
    return tuple(SourceStatus(name=s, state=state[s]) for s in Source)


def snapshot(*parts: Any, without: Iterable[Source] = (), **fields: Any) -> Snapshot:
    """A snapshot at NOW of the given nodes, pods, GPUs, gangs and events, all sources ok but those `without`."""
    kinds: dict[type, str] = {Node: "nodes", Pod: "pods", Gpu: "gpus", Gang: "gangs", Event: "events"}
    found: dict[str, list[Any]] = {}
    for part in parts:
        found.setdefault(kinds[type(part)], []).append(part)
    grouped = {name: tuple(items) for name, items in found.items()}
    defaults: dict[str, Any] = {
        "taken_at": NOW,
        "cluster_id": "11111111-2222-3333-4444-555555555555",
        "cluster": "lab",
        "server_version": "v1.36.2",
        "sources": statuses(without),
    }
    return Snapshot(**(defaults | grouped | fields))
