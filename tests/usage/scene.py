"""A small cluster whose polls are entered into the ledger, each in a transaction of its own."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import transaction

from diagnostics import usage
from diagnostics.limits import Thresholds
from diagnostics.models import Cluster, Device, Node, StateInterval, UsageHour, Workload
from diagnostics.snapshot import Gpu, Metrics, Source, SourceState, SourceStatus, State
from diagnostics.stretches import share
from diagnostics.topology.known import Known
from diagnostics.usage.moments import from_ms
from tests import builders

MIN = 60_000
BASE = 1_780_002_000_000
"""2026-05-28T21:00:00Z"""
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
OWNERS = {name: builders.owner(name=name, namespace=f"team-{name}") for name in ("red", "blue")}
PODS = tuple(
    builders.pod(f"{name}-0", namespace=owner.namespace, root=owner) for name, owner in OWNERS.items()
)
MIG = {"gpu-1/b/mig-1": (0, 3, 7), "gpu-1/b/mig-2": (3, 4, 7)}


class Killed(Exception):
    """The worker died before the transaction was over."""


def at(minute: float) -> datetime:
    return from_ms(BASE + round(minute * MIN))


def busy(activity: float = 0.7) -> Metrics:
    return Metrics(utilization_ratio=0.9, sm_active_ratio=activity, memory_used_bytes=60e9)


QUIET = Metrics(utilization_ratio=0.0, sm_active_ratio=0.0, memory_used_bytes=60e9, power_w=60.0)
LOOKS: dict[str, dict[str, Any]] = {
    "free": {"state": State.FREE, "holders": ()},
    "broken": {"state": State.UNAVAILABLE, "holders": ()},
    "stuck": {"state": State.STUCK, "holders": ("team-red/red-0",)},
    "busy": {"state": State.EFFECTIVE, "holders": ("team-red/red-0",), "metrics": busy()},
    "slow": {"state": State.INEFFECTIVE, "holders": ("team-red/red-0",), "metrics": busy(0.1)},
    "quiet": {"state": State.IDLE_HELD, "holders": ("team-blue/blue-0",), "metrics": QUIET},
    "silent": {"state": State.NO_DATA, "holders": ("team-blue/blue-0",), "metrics": None},
    "shared": {
        "state": State.EFFECTIVE,
        "holders": ("team-blue/blue-0", "team-red/red-0"),
        "metrics": busy(0.4),
        "replicas": 3,
    },
    "swapped": {"state": State.FREE, "holders": (), "model": H100},
}


class Scene:
    """Polls are named by their minute; what each device looks like, by its slot."""

    def __init__(self, slug: str = "lab") -> None:
        self.cluster = Cluster.objects.create(slug=slug, name=slug)
        ever = {"first_seen": at(0), "last_seen": at(0)}
        self.node = Node.objects.create(cluster=self.cluster, name="gpu-1", **ever)
        rows = [Workload(cluster=self.cluster, **ever)]
        rows += [
            Workload(cluster=self.cluster, kind=o.kind, namespace=o.namespace, name=o.name, **ever)
            for o in OWNERS.values()
        ]
        self.nobody, *held = [row.pk for row in Workload.objects.bulk_create(rows)]
        self.workloads = dict(zip(OWNERS, held, strict=True))
        self.devices: dict[str, Device] = {}

    def poll(
        self,
        minute: float,
        looks: dict[str, str],
        *,
        nodes: SourceState = SourceState.OK,
        killed: bool = False,
    ) -> None:
        """One poll; if it is killed, nothing of it is kept."""
        gpus = [self._gpu(slot, LOOKS[look], at(minute)) for slot, look in looks.items()]
        sources = [status for status in builders.statuses() if status.name is not Source.NODES]
        snapshot = builders.snapshot(
            builders.node("gpu-1"),
            *gpus,
            *PODS,
            taken_at=at(minute),
            sources=(*sources, SourceStatus(name=Source.NODES, state=nodes)),
        )
        try:
            with transaction.atomic():
                known = self._known(gpus)
                usage.record(self.cluster, snapshot, known, timedelta(minutes=1), Thresholds())
                if killed:
                    raise Killed
        except Killed:
            pass

    def _gpu(self, slot: str, look: dict[str, Any], now: datetime) -> Gpu:
        gpu = Gpu(slot=slot, node="gpu-1", **({"model": A100} | look))
        if gpu.metrics is None:
            return gpu
        return msgspec.structs.replace(gpu, metrics=msgspec.structs.replace(gpu.metrics, sampled_at=now))

    def _known(self, gpus: list[Gpu]) -> Known:
        owners = {(o.kind, o.namespace, o.name): self.workloads[name] for name, o in OWNERS.items()}
        devices = {gpu.slot: self.device(gpu.slot, gpu.model or "") for gpu in gpus}
        return Known({"gpu-1": self.node}, devices, owners, self.nobody)

    def device(self, slot: str, model: str = A100) -> Device:
        """Its row, as the topology would leave it."""
        offset, parts, whole = MIG.get(slot, (0, 1, 1))
        device, _ = Device.objects.update_or_create(
            cluster=self.cluster,
            slot=slot,
            defaults={"node": self.node, "model": model, "offset": offset, "parts": parts, "whole": whole},
            create_defaults={
                **{"node": self.node, "model": model, "offset": offset, "parts": parts, "whole": whole},
                **{"first_seen": at(0), "last_seen": at(0)},
            },
        )
        return device

    def stays(self, slot: str) -> list[StateInterval]:
        return list(
            StateInterval.objects.filter(cluster=self.cluster, device__slot=slot).order_by("start_ms")
        )

    def weighed_ms(self) -> int:
        """GPU-milliseconds of all stays, the present ones included."""
        rows = StateInterval.objects.filter(cluster=self.cluster)
        spans = [(row.device_id, row.start_ms, row.end_ms) for row in rows]
        spans += [(pk, stay.start, stay.end) for pk, stay in usage.open_stays(self.cluster).items()]
        devices = Device.objects.in_bulk([pk for pk, _, _ in spans])
        return sum(
            share(start, end, devices[pk].offset, devices[pk].parts, devices[pk].whole)
            for pk, start, end in spans
        )

    def sums(self) -> dict[tuple[Any, ...], tuple[int, int]]:
        """Everything that the hours hold."""
        fields = ("hour", "workload", "model", "state", "is_gap", "is_backfilled", "gpu_ms", "waste_ms")
        return {
            tuple(row[:6]): (row[6], row[7])
            for row in UsageHour.objects.filter(cluster=self.cluster).values_list(*fields)
        }

    def total_ms(self) -> int:
        return sum(gpu_ms for gpu_ms, _ in self.sums().values())
