"""All objects of the cluster at one second, encoded, by resource; kept for as long as lists are read from it."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property
from threading import Lock

import msgspec

from diagnostics.simulator.build import build
from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.discovery import Resource
from diagnostics.simulator.manifests import (
    controllers,
    custom,
    device_claims,
    events,
    gpu_operator,
    network,
    nodes,
    policy,
    storage,
)
from diagnostics.simulator.manifests.pods import encoded_pod
from diagnostics.simulator.pages import Item
from diagnostics.simulator.workloads import Json, SimPod
from diagnostics.simulator.world import World

STATES_CACHED = 8
"""Pods of about so many different states are kept encoded; most are the same in all of them."""
MOST_KEPT_BYTES = 64 * 2**20

_FROM_THE_WORLD: dict[str, Callable[[World], list[Json]]] = {
    "persistentvolumeclaims": storage.claims,
    "persistentvolumes": storage.volumes,
    "storageclasses": storage.classes,
    "resourcequotas": policy.quotas,
    "limitranges": policy.limit_ranges,
    "networkpolicies": policy.network_policies,
    "endpointslices": policy.endpoint_slices,
    "runtimeclasses": policy.runtime_classes,
    "priorityclasses": policy.priority_classes,
    "poddisruptionbudgets": policy.budgets,
    "deviceclasses": device_claims.classes,
    "resourceclaims": device_claims.claims,
    "resourceclaimtemplates": device_claims.templates,
    "resourceslices": device_claims.slices,
    "clusterpolicies": gpu_operator.cluster_policies,
    "nvidiadrivers": gpu_operator.nvidia_drivers,
}


class ClusterState:
    """Lists are made when somebody asks for them. `keep` hands out the bytes that an equal object had before."""

    def __init__(self, world: World, keep: Callable[[bytes], bytes]) -> None:
        self.world = world
        self._keep = keep
        self._lists: dict[str, list[Item]] = {}
        self._lock = Lock()

    def items(self, resource: Resource) -> list[Item]:
        """In the order of their keys."""
        key = f"{resource.root}/{resource.name}"
        with self._lock:
            if key not in self._lists:
                self._lists[key] = self._make(resource)
            return self._lists[key]

    @cached_property
    def pods(self) -> dict[str, SimPod]:
        return {f"{p.namespace}/{p.name}": p for p in self.world.pods}

    @cached_property
    def _controllers(self) -> dict[str, list[Json]]:
        found = controllers.controllers(self.world.workloads, self.world.pods)
        for name, more in custom.children(self.world).items():
            found[name] = [*found[name], *more]
        return found

    @cached_property
    def _custom(self) -> dict[tuple[str, str], list[Json]]:
        return custom.custom(self.world)

    @cached_property
    def _events(self) -> list[events.Event]:
        return events.events(self.world)

    def _make(self, resource: Resource) -> list[Item]:
        world = self.world
        match resource.name:
            case name if resource.is_custom:
                objects = self._custom.get((name, resource.api_version), [])
            case "pods":
                found = [Item(f"{p.namespace}/{p.name}", encoded_pod(p)) for p in world.pods]
                return sorted(found, key=lambda i: i.key)
            case "nodes":
                found = [Item(n.name, nodes.encoded_node(world, n)) for n in world.nodes.values()]
                return sorted(found, key=lambda i: i.key)
            case "namespaces":
                objects = network.namespaces(world)
            case "services":
                objects = network.services(world.workloads)
            case "events" if resource.group:
                objects = events.modern_events(self._events)
            case "events":
                objects = events.core_events(self._events)
            case name if name in _FROM_THE_WORLD:
                objects = _FROM_THE_WORLD[name](world)
            case name:
                objects = self._controllers[name]
        return self._encoded(objects)

    def _encoded(self, objects: Iterable[Json]) -> list[Item]:
        found = []
        for one in objects:
            metadata = one["metadata"]
            namespace = metadata.get("namespace")
            key = f"{namespace}/{metadata['name']}" if namespace else metadata["name"]
            found.append(Item(key, self._keep(msgspec.json.encode(one))))
        return sorted(found, key=lambda i: i.key)


class StateStore:
    """States by second: the last few, so that the pages of one list come from one state."""

    def __init__(self, config: WorldConfig, most: int = 4) -> None:
        self.config = config
        self._most = most
        self._states: OrderedDict[datetime, ClusterState] = OrderedDict()
        self._bodies: dict[bytes, bytes] = {}
        self._kept_bytes = 0
        self._lock = Lock()

    def at(self, now: datetime) -> ClusterState:
        second = now.replace(microsecond=0)
        with self._lock:
            state = self._states.get(second)
            if state is None:
                world = build(self.config, second)
                if encoded_pod.cache_info().currsize > STATES_CACHED * len(world.pods) + 2_000:
                    encoded_pod.cache_clear()
                state = self._states[second] = ClusterState(world, self._keep)
                while len(self._states) > self._most:
                    self._states.popitem(last=False)
            return state

    def _keep(self, body: bytes) -> bytes:
        self._kept_bytes += len(body) if body not in self._bodies else 0
        if self._kept_bytes > MOST_KEPT_BYTES:
            self._bodies.clear()
            self._kept_bytes = len(body)
        return self._bodies.setdefault(body, body)
