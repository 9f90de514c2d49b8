"""What runs on the cluster: controllers, their pod templates, and pods in every state of their life."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from diagnostics.simulator.devices import GPU, Device
from diagnostics.simulator.identity import hex_of, suffix, uuid_of

Json = dict[str, Any]

TOLERATES_GPU = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


def container(
    name: str,
    image: str,
    *,
    gpus: int = 0,
    cpu: str = "",
    memory: str = "",
    resource: str = GPU,
    **more: Any,
) -> Json:
    """One container of a pod template. Requests equal limits, save for the CPU, which has no limit."""
    limits = {k: v for k, v in (("memory", memory), (resource, str(gpus) if gpus else "")) if v}
    requests = ({"cpu": cpu} if cpu else {}) | limits
    resources = {k: v for k, v in (("limits", limits), ("requests", requests)) if v}
    return {"name": name, "image": image, **more, "resources": resources}


@dataclass(eq=False)
class PodTemplate:
    containers: list[Json]
    init_containers: list[Json] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    volumes: list[Json] = field(default_factory=list)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Json] = field(default_factory=list)
    restart_policy: str = "Always"
    grace_seconds: int = 30
    claimed: int = 0
    """GPUs that its pods are given by a claim, not by a resource."""
    more: Json = field(default_factory=dict)
    """Other fields of the pod's spec."""

    @property
    def app(self) -> Json:
        return self.containers[0]

    def requests(self) -> dict[str, str]:
        """Of the first container: here the only one that asks for anything."""
        requests: dict[str, str] = self.app["resources"].get("requests", {})
        return requests

    @property
    def device_resource(self) -> str:
        return next((r for r in self.requests() if "/" in r), "")

    @property
    def device_count(self) -> int:
        """Of all containers together."""
        name = self.device_resource
        asked = (c["resources"].get("requests", {}).get(name, 0) for c in self.containers)
        return sum(map(int, asked)) if name else 0

    @property
    def memory_gib(self) -> float:
        text = self.requests().get("memory", "0Gi")
        return float(text[:-2]) / (1 if text.endswith("Gi") else 1024)

    @property
    def cpu_cores(self) -> float:
        text = self.requests().get("cpu", "0")
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


@dataclass(eq=False)
class Workload:
    """Equal to another that would look the same, also one of a later moment. Not to be changed once placed."""

    kind: str
    """Deployment, StatefulSet, DaemonSet, Job, Pod for a bare one, or a key of `operator_jobs.KINDS`."""
    namespace: str
    name: str
    template: PodTemplate
    created: datetime
    seed: int
    replicas: int = 1
    activity: str = "training"
    """What its GPUs do while it runs: a name of `activity.PROFILES`."""
    host_memory: str = "steady"
    """What it does with host memory: a name of `prometheus.cadvisor.PROFILES`."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    service_port: int = 0
    is_indexed: bool = True
    """Of a Job: each pod has an index."""
    cron_schedule: str = ""
    """The Job was made by a CronJob of this schedule."""
    is_suspended: bool = False
    """Of a Job: it has no pods until somebody lifts that."""
    queue: str = ""
    """Of a Volcano Job."""
    group_size: int = 1
    """Of a LeaderWorkerSet: pods in one group."""

    @cached_property
    def fingerprint(self) -> str:
        spec = {k: v for k, v in vars(self).items() if k in self.__dataclass_fields__ and k != "template"}
        return json.dumps([spec, vars(self.template)], default=str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def uid(self) -> str:
        return uuid_of(self.seed, self.kind, self.namespace, self.name)

    @cached_property
    def template_hash(self) -> str:
        return suffix(10, self.seed, "template", self.namespace, self.name)

    @property
    def replica_set(self) -> str:
        return f"{self.name}-{self.template_hash}"

    @property
    def replica_set_uid(self) -> str:
        return uuid_of(self.seed, "ReplicaSet", self.namespace, self.replica_set)

    def pod_name(self, key: object) -> str:
        """Of the pod with this index, or of a DaemonSet's pod on this node."""
        end = suffix(5, self.seed, self.namespace, self.name, key)
        match self.kind:
            case "Pod":
                return self.name
            case "StatefulSet":
                return f"{self.name}-{key}"
            case "Deployment":
                return f"{self.replica_set}-{end}"
            case "Job" if self.is_indexed:
                return f"{self.name}-{key}-{end}"
        return f"{self.name}-{end}"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    code: int
    reason: str
    started: datetime
    finished: datetime
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodState:
    """Where a pod is in its life. Without a word it runs and is ready."""

    phase: str = "Running"
    started: datetime | None = None
    """Of the app container that runs now."""
    is_ready: bool = True
    restarts: int = 0
    waiting: str = ""
    """Reason why the app container does not run: CrashLoopBackOff, ImagePullBackOff, …"""
    waiting_message: str = ""
    exit: Exit | None = None
    """The app container has ended and stays so."""
    last_exit: Exit | None = None
    init_at: int | None = None
    """The init container that is not done; the later ones and the app wait."""
    init_waiting: str = ""
    """Reason why that one does not run; empty: it runs and waits for something."""
    claims: tuple[tuple[str, str], ...] = ()
    """Claims made for the pod: its own name of one, and the claim's."""
    unscheduled: str = ""
    """Reason of the PodScheduled condition: Unschedulable or SchedulingGated."""
    unscheduled_message: str = ""
    """Empty: the scheduler's words are worked out from the cluster."""
    reason: str = ""
    message: str = ""
    changed: datetime | None = None
    """When it last became ready, or ceased to be."""
    deleted: datetime | None = None
    """When its deletion was asked for."""
    grace_seconds: int = 30
    log: tuple[str, ...] = ()
    """What the app container writes, beyond what its activity makes it write."""
    is_looping: bool = False
    """Fails again and again: the log of each run is `log`."""
    probe: str = ""
    """Which probe of the app container fails and what it gets, in the kubelet's words, with `{}` for the pod's address.
    Empty: none does, or what killed it was a liveness probe that had no answer in time."""

    @property
    def holds(self) -> bool:
        """Counted by the scheduler: every bound pod that has not ended."""
        return self.phase not in ("Succeeded", "Failed")

    @property
    def is_refused(self) -> bool:
        """The kubelet did not admit it: no container was ever made."""
        return self.reason == "UnexpectedAdmissionError" or self.reason.startswith("OutOf")

    @property
    def is_working(self) -> bool:
        """The app container runs."""
        return self.phase == "Running" and not self.waiting and self.init_at is None and self.exit is None


@dataclass(frozen=True, slots=True)
class SimPod:
    """A pod. All that its JSON shows follows from these fields, so that equal pods have equal bytes."""

    workload: Workload
    name: str
    key: str
    """Its index; of a DaemonSet's pod its node."""
    created: datetime
    node: str = ""
    node_ip: str = ""
    address: str = ""
    devices: tuple[Device, ...] = ()
    unhealthy: frozenset[str] = frozenset()
    """UUIDs of those of its devices that are marked unhealthy."""
    zone: str = ""
    state: PodState = PodState()
    incarnation: int = 0
    """How many pods of the same name there were before."""

    @property
    def namespace(self) -> str:
        return self.workload.namespace

    @property
    def uid(self) -> str:
        again = (self.incarnation,) if self.incarnation else ()
        return uuid_of(self.workload.seed, "Pod", self.namespace, self.name, *again)

    @property
    def container_id(self) -> str:
        return "containerd://" + hex_of(64, self.uid, self.state.restarts)
