"""A large cluster minute by minute: one collected snapshot, moved on with pods that come and go and GPUs that work."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from diagnostics.collect import Target, take_snapshot
from diagnostics.simulator.config import DEMO, WorldConfig
from diagnostics.simulator.server import SimulatedCluster
from diagnostics.snapshot import Event, Gpu, Metrics, OwnerKey, Pod, Snapshot, State

MINUTE = timedelta(minutes=1)
CHANGED = 0.01
"""Share of the cluster's pods that are replaced each minute; all of them hold GPUs, which costs most."""
EVENT_TTL = timedelta(hours=1)


def collected(nodes: int, pods: int, at: datetime) -> Snapshot:
    """A simulated cluster of this size with the faults of the demonstration, read over HTTP."""
    config = WorldConfig(nodes=nodes, pods=pods, epoch=at, faults=DEMO.faults)
    with TemporaryDirectory() as folder, SimulatedCluster(config, lambda: at) as cluster:
        kubeconfig = cluster.write_kubeconfig(Path(folder) / "kubeconfig")
        target = Target(
            name="bench",
            kubeconfig=kubeconfig,
            exporters=tuple(cluster.exporter_urls),
            log_pods=0,
            poll_timeout_s=300,
        )
        return take_snapshot(target, clock=lambda: at).snapshot


@dataclass
class Steady:
    """Moves `snapshot` on."""

    snapshot: Snapshot
    chance: Random = field(default_factory=lambda: Random(8_000))
    number: int = 0

    def minutes(self) -> Iterator[Snapshot]:
        """One snapshot a minute, for ever; each is valid by itself."""
        while True:
            self.snapshot = self._next()
            yield self.snapshot

    def _next(self) -> Snapshot:
        now = self.snapshot.taken_at + MINUTE
        by_key = {pod.key: pod for pod in self.snapshot.pods}
        holding = sorted({holder for gpu in self.snapshot.gpus for holder in gpu.holders})
        count = int(CHANGED * len(by_key))
        fresh = {key: self._renewed(by_key[key], now) for key in self.chance.sample(holding, count)}
        names = {key: pod.key for key, pod in fresh.items()}
        gangs = tuple(
            replace(gang, members=tuple(names.get(key, key) for key in gang.members))
            for gang in self.snapshot.gangs
        )
        events = [event for event in self.snapshot.events if (event.last_at or now) > now - EVENT_TTL]
        return replace(
            self.snapshot,
            taken_at=now,
            pods=tuple(fresh.get(pod.key, pod) for pod in self.snapshot.pods),
            gpus=tuple(self._measured(gpu, names, now) for gpu in self.snapshot.gpus),
            gangs=gangs,
            events=(*events, *(event for pod in fresh.values() for event in _events(pod, now))),
        )

    def _renewed(self, pod: Pod, now: datetime) -> Pod:
        """Another pod in its place: of the same workload, or every other time of a new one."""
        self.number += 1
        root = pod.root
        if root is not None and self.number % 2:
            root = OwnerKey(
                root.kind, root.namespace, f"next-{self.number}", root.api_version, f"r{self.number}"
            )
        return replace(
            pod,
            name=f"pod-{self.number}",
            uid=f"uid-{self.number}",
            root=root,
            created_at=now,
            started_at=now,
        )

    def _measured(self, gpu: Gpu, names: dict[str, str], now: datetime) -> Gpu:
        is_new = any(holder in names for holder in gpu.holders)
        holders = tuple(names.get(holder, holder) for holder in gpu.holders)
        state = gpu.state
        if holders:
            state = State.STARTING if is_new else State.EFFECTIVE
        metrics = gpu.metrics and self._moved(gpu.metrics, now)
        return replace(gpu, holders=holders, state=state, metrics=metrics)

    def _moved(self, metrics: Metrics, now: datetime) -> Metrics:
        """A new sample; one in twenty of the GPUs that work is below the mark."""
        if not metrics.sm_active_ratio:
            return replace(metrics, sampled_at=now)
        activity = (
            self.chance.uniform(0.2, 0.4) if self.chance.random() < 0.05 else self.chance.uniform(0.6, 0.9)
        )
        return replace(
            metrics,
            sampled_at=now,
            sm_active_ratio=activity,
            dram_active_ratio=activity * 0.6,
            power_w=300 + 300 * activity,
        )


def _events(pod: Pod, now: datetime) -> list[Event]:
    return [
        Event(
            namespace=pod.namespace,
            type="Normal",
            reason=reason,
            message=f"{reason} {pod.name}",
            kind="Pod",
            name=pod.name,
            uid=pod.uid,
            first_at=now,
            last_at=now,
        )
        for reason in ("Scheduled", "Pulled", "Created", "Started")
    ]
