"""What the ledger and the topology would have stored of one workload."""

from datetime import datetime
from typing import Any

from diagnostics.models import (
    STATE_NUMBERS,
    Allocation,
    Cluster,
    GpuModel,
    LedgerState,
    Node,
    UsageHour,
    Workload,
)
from diagnostics.snapshot import State
from tests.builders import NOW, ago

A100 = "NVIDIA A100-SXM4-80GB"


def workload(
    of: Cluster, kind: str = "Job", namespace: str = "research", name: str = "train", **fields: Any
) -> Workload:
    """Its row, and a ledger that is final up to NOW."""
    LedgerState.objects.get_or_create(cluster=of, defaults={"complete_through": NOW})
    values = {"first_seen": ago(days=60), "last_seen": NOW} | fields
    row, _ = Workload.objects.update_or_create(
        cluster=of, kind=kind, namespace=namespace, name=name, defaults=values
    )
    return row


def spent(
    of: Workload,
    at: datetime,
    state: State,
    *,
    hours: float,
    wasted: float = 0.0,
    model: str = A100,
    **fields: Any,
) -> UsageHour:
    """GPU-hours that it spent in a state, in the hour of `at`."""
    return UsageHour.objects.create(
        cluster=of.cluster,
        hour=at.replace(minute=0, second=0, microsecond=0),
        workload=of,
        model=GpuModel.objects.get_or_create(name=model)[0],
        state=STATE_NUMBERS[state],
        gpu_ms=round(hours * 3_600_000),
        waste_ms=round(wasted * 3_600_000),
        **fields,
    )


def held(of: Workload, pod: str, node: str = "gpu-1", **fields: Any) -> Allocation:
    """A pod's hold on one device of a node, which lasts unless it has an end."""
    ever = {"first_seen": ago(days=60), "last_seen": NOW}
    row, _ = Node.objects.get_or_create(cluster=of.cluster, name=node, defaults=ever)
    defaults: dict[str, Any] = {"slots": ["00000000:10:00.0"], "started_at": ago(hours=2)}
    return Allocation.objects.create(
        cluster=of.cluster, workload=of, node=row, pod=pod, pod_uid=f"uid-{pod}"[:60], **(defaults | fields)
    )
