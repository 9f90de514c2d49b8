"""The state of the whole cluster at one instant: nodes, GPUs, workloads, and who holds what."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from diagnostics.simulator import operator_jobs, scheduling
from diagnostics.simulator.claims import SimClaim
from diagnostics.simulator.config import FEWEST_NODES, WorldConfig
from diagnostics.simulator.devices import GPU, Device, SimNode, make_node
from diagnostics.simulator.dra import Dra
from diagnostics.simulator.lifecycle import running, unschedulable
from diagnostics.simulator.timestamps import DAY, seconds
from diagnostics.simulator.workloads import Json, PodState, PodTemplate, SimPod, Workload


def pod_name(workload: Workload, key: object) -> str:
    """Of the pod with this index; an operator names its pods in a way of its own."""
    if workload.kind in operator_jobs.KINDS:
        return operator_jobs.pod_name(workload, key)
    return workload.pod_name(key)


class NoRoom(ValueError):
    """A workload does not fit where it is told to go: these faults need a larger cluster."""


@dataclass(frozen=True)
class Expected:
    """What a fault leaves to be found: the subject's identity, never a text."""

    rule: str
    kind: str
    namespace: str
    name: str
    cause: str
    """In words."""


@dataclass(frozen=True)
class Note:
    """An event about a workload or a claim, in its controller's words."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    reason: str
    message: str
    component: str
    first: datetime
    last: datetime
    count: int = 1
    type: str = "Warning"


class World:
    """Filled by `build.build`. Everything that will ever run takes its GPUs in the same order whatever the
    time, so that nobody's GPUs change when something else starts or ends."""

    def __init__(self, config: WorldConfig, now: datetime) -> None:
        self.config = config
        self.now = now
        self.epoch = config.epoch or now
        self.nodes = {
            n.name: n for n in (make_node(config, i, self.before(40 * DAY)) for i in range(config.nodes))
        }
        self.workloads: list[Workload] = []
        self.pods: list[SimPod] = []
        self.expected: list[Expected] = []
        self.claims: dict[str, SimClaim] = {}
        """By `namespace/name`."""
        self.custom: list[tuple[tuple[str, str], Json]] = []
        """Queues and their like, by plural and API version."""
        self.quotas: dict[str, dict[str, str]] = {}
        """By namespace: what its quota allows."""
        self.notes: list[Note] = []
        """Events about other objects than pods."""
        self.pods_on: dict[str, list[SimPod]] = {}
        """By node, once finished: the pods with a GPU."""
        self.dra = Dra()
        self._addresses: dict[str, int] = {}

    def before(self, age: timedelta) -> datetime:
        """The moment of this age at the epoch."""
        return (self.epoch - age).replace(microsecond=0)

    def add(
        self,
        kind: str,
        path: str,
        template: PodTemplate,
        *,
        age: timedelta = DAY,
        created: datetime | None = None,
        **attributes: Any,
    ) -> Workload:
        """A workload without pods yet. `path` is `namespace/name`, `age` counts to the epoch; attributes are
        other fields of Workload. Raises NoRoom when the name is taken."""
        namespace, name = path.split("/")
        if any((w.kind, w.namespace, w.name) == (kind, namespace, name) for w in self.workloads):
            raise NoRoom(f"{kind} {path} is there already: a fault and its twin exclude each other")
        template.labels = {"app": name} | template.labels
        born = created or self.before(age)
        workload = Workload(kind, namespace, name, template, born, self.config.seed, **attributes)
        self.workloads.append(workload)
        return workload

    def workload(self, path: str) -> Workload:
        """One that was added before, by `namespace/name`."""
        return next(w for w in self.workloads if f"{w.namespace}/{w.name}" == path)

    def place(
        self,
        workload: Workload,
        node: str,
        key: object = 0,
        state: PodState | None = None,
        **changes: datetime,
    ) -> SimPod:
        """One pod bound to a node, with the GPUs it asks for. Raises NoRoom."""
        created = changes.get("created", workload.created)
        state = state or running(created + seconds(4))
        home = self.nodes[node]
        pod = SimPod(
            workload=workload,
            name=pod_name(workload, key),
            key=str(key),
            created=created,
            node=node,
            node_ip=home.ip,
            address=self._address(home),
            devices=self._devices(workload, home, state),
            state=state,
        )
        self.pods.append(pod)
        return pod

    def queue(
        self, workload: Workload, key: object = 0, state: PodState | None = None, **changes: datetime
    ) -> None:
        """One pod that no node has been found for."""
        created = changes.get("created", workload.created)
        self.pods.append(
            SimPod(workload, pod_name(workload, key), str(key), created, state=state or unschedulable())
        )

    def run(self, workload: Workload, nodes: Iterable[str]) -> Workload:
        """Healthy pods, one on each of the named nodes, which may come more than once."""
        for index, node in enumerate(nodes):
            self.place(workload, node, index)
        return workload

    def pick_node(self, gpus: int) -> str:
        """A node for a workload that does not mind where it runs. Raises NoRoom."""
        for name in ("gpu-10", *list(self.nodes)[FEWEST_NODES:], "gpu-09", "gpu-11"):
            if sum(device.resource == GPU for device in self.nodes[name].free) >= gpus:
                return name
        raise NoRoom(f"no node has {gpus} GPUs left: give the cluster more nodes, or choose fewer faults")

    def take_spare_node(self, keep: int = 0) -> SimNode:
        """A node that nobody uses, for a fault that needs it whole; `keep` GPUs of it can still be had. Raises
        NoRoom."""
        for name in ("gpu-11", *list(self.nodes)[FEWEST_NODES:], "gpu-10", "gpu-04", "gpu-03"):
            node = self.nodes[name]
            if len(node.free) == len(node.devices):
                node.free = node.free[:keep]
                return node
        raise NoRoom("no unused node is left for this fault: give the cluster more nodes")

    def claim(self, path: str, storage_class: str, *, age: timedelta = DAY, **attributes: Any) -> SimClaim:
        """A volume claim; `path` is `namespace/name`, attributes are other fields of SimClaim."""
        namespace, name = path.split("/")
        claim = SimClaim(namespace, name, storage_class, self.before(age), **attributes)
        self.claims[claim.key] = claim
        return claim

    def expect(self, rule: str, subject: Workload | SimNode | Device, cause: str) -> None:
        match subject:
            case Workload():
                known = operator_jobs.KINDS.get(subject.kind)
                kind = known.kind if known else subject.kind
                namespace, name = subject.namespace, subject.name
            case SimNode():
                kind, namespace, name = "Node", "", subject.name
            case _:
                kind, namespace = "GPU", ""
                name = f"{subject.node}/{subject.pci_bus_id.lower()}"
        self.expected.append(Expected(rule, kind, namespace, name, cause))

    def finish(self) -> None:
        """Leave out what does not exist yet, and let the scheduler and the device plugin speak."""
        self.workloads = sorted(
            (w for w in self.workloads if w.created <= self.now), key=lambda w: (w.namespace, w.name)
        )
        living = sorted((p for p in self.pods if p.created <= self.now), key=lambda p: (p.namespace, p.name))
        self.pods = [self._with_health(p) for p in living]
        waiting = [p for p in self.pods if p.state.unscheduled and not p.state.unscheduled_message]
        if waiting:
            usage = scheduling.usage_of(self.pods)
            nodes = list(self.nodes.values())
            words = {p.uid: scheduling.explain(nodes, usage, p, self.claims, self.pods) for p in waiting}
            self.pods = [
                replace(p, state=replace(p.state, unscheduled_message=words[p.uid])) if p.uid in words else p
                for p in self.pods
            ]

        for pod in self.pods:
            if pod.devices:
                self.pods_on.setdefault(pod.node, []).append(pod)

    def _with_health(self, pod: SimPod) -> SimPod:
        if not pod.devices:
            return pod
        sick = self.nodes[pod.node].unhealthy & {d.uuid for d in pod.devices}
        return replace(pod, unhealthy=frozenset(sick)) if sick else pod

    def _devices(self, workload: Workload, node: SimNode, state: PodState) -> tuple[Device, ...]:
        template = workload.template
        count, resource = template.device_count or template.claimed, template.device_resource or GPU
        if not count:
            return ()
        if not state.holds:
            return tuple(node.devices[:count])
        chosen = [d for d in node.free if d.resource == resource][:count]
        if len(chosen) < count:
            raise NoRoom(
                f"{workload.namespace}/{workload.name} needs {count} {resource} on {node.name}, where {len(chosen)} "
                "are free: give the cluster more nodes, or choose fewer faults"
            )
        node.free = [d for d in node.free if d not in chosen]
        return tuple(chosen)

    def _address(self, node: SimNode) -> str:
        count = self._addresses[node.name] = self._addresses.get(node.name, 19) + 1
        return f"10.{244 + node.position // 256 % 8}.{node.position % 256}.{count}"
