"""Queues and pod groups: what a batch scheduler or a quota holds back, and how many pods it starts at once."""

from datetime import datetime
from functools import cached_property

import msgspec

from diagnostics.snapshot.kubernetes import Condition, OwnerKey, Struct, gpu_resources


class Flavor(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one Kueue ResourceFlavor gives to a ClusterQueue, by resource."""

    name: str
    nominal: dict[str, float] = {}
    borrowing: dict[str, float] = {}
    """borrowingLimit; a resource without one may be borrowed without limit inside a cohort."""


class Queue(Struct, frozen=True, kw_only=True):
    """A Kueue ClusterQueue or LocalQueue, or a Volcano Queue. Amounts as in `kubernetes.Resources`."""

    system: str
    """kueue or volcano."""
    kind: str
    name: str
    namespace: str = ""
    """Of a LocalQueue; the others are cluster-wide."""
    api_version: str = ""
    parent: str = ""
    """A LocalQueue's ClusterQueue, a ClusterQueue's cohort, a Volcano Queue's parent."""
    state: str = ""
    """Volcano: Open, Closed, Closing, Unknown. Kueue: the stopPolicy, empty for None."""
    conditions: tuple[Condition, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    capability: dict[str, float] = {}
    """Volcano: the most that the queue may use; a resource that is not named is not limited."""
    deserved: dict[str, float] = {}
    """Volcano: its share, above which others may take back."""
    used: dict[str, float] = {}
    """Kueue: reserved quota over all flavours; Volcano: allocated."""
    pending: int | None = None
    """Workloads that wait in it, as its controller counts."""

    @cached_property
    def nominal(self) -> dict[str, float]:
        """Kueue's quota of each resource, over all flavours."""
        found: dict[str, float] = {}
        for flavor in self.flavors:
            for name, amount in flavor.nominal.items():
                found[name] = found.get(name, 0.0) + amount
        return found

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)


class PodSet(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods of one shape in a Kueue Workload."""

    name: str
    count: int
    requests: dict[str, float] = {}
    """Of one pod."""
    topology: str = ""
    """`required`, `preferred`, `unconstrained`; empty without a topology request."""

    @property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return int(sum(gpu_resources(self.requests).values()))


class QueuedWorkload(Struct, frozen=True, kw_only=True):
    """A Kueue Workload: a job, or a group of pods, that is admitted as a whole."""

    namespace: str
    name: str
    uid: str = ""
    api_version: str = ""
    owners: tuple[OwnerKey, ...] = ()
    """The job, the controller first; for a pod group all of its pods."""
    created_at: datetime | None = None
    queue: str = ""
    """LocalQueue."""
    cluster_queue: str = ""
    """Of its admission; empty before."""
    priority: int | None = None
    is_active: bool = True
    pod_sets: tuple[PodSet, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)

    def is_true(self, type_: str) -> bool:
        found = self.condition(type_)
        return found is not None and found.status == "True"

    @property
    def requests(self) -> dict[str, float]:
        """Of all of its pods together."""
        found: dict[str, float] = {}
        for pods in self.pod_sets:
            for name, amount in pods.requests.items():
                found[name] = found.get(name, 0.0) + amount * pods.count
        return found

    @property
    def gpu_count(self) -> int:
        return sum(pods.gpus * pods.count for pods in self.pod_sets)


class PodGroup(Struct, frozen=True, kw_only=True):
    """Pods that a gang scheduler starts together: Volcano's, the coscheduling plugin's, or Kubernetes' own."""

    system: str
    """volcano, coscheduling or native."""
    namespace: str
    name: str
    api_version: str = ""
    owners: tuple[OwnerKey, ...] = ()
    created_at: datetime | None = None
    min_member: int | None = None
    """Pods that must be able to start together; None without a gang policy."""
    min_resources: dict[str, float] = {}
    queue: str = ""
    phase: str = ""
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)
