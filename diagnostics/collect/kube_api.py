"""One pass over the Kubernetes API: every source with its objects, its status and what it cost."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import msgspec

from diagnostics.collect.claimed import with_claimed
from diagnostics.collect.custom_apis import CUSTOM
from diagnostics.collect.custom_resources import CustomResources, reader_of, told_apart
from diagnostics.collect.discovery import Discovery, discover, path_of
from diagnostics.collect.kube_client import KubeConnection
from diagnostics.collect.listing import Listing, read_list
from diagnostics.collect.readings import ClusterObjects
from diagnostics.collect.refusal import Refused
from diagnostics.collect.several_lists import (
    Lists,
    Reader,
    allocation_of,
    claim_readers,
    policy_of,
    policy_readers,
    storage_of,
    storage_readers,
)
from diagnostics.collect.target import Target
from diagnostics.collect.wire.events import EventConverter, EventWire
from diagnostics.collect.wire.listing import ItemReader
from diagnostics.collect.wire.nodes import (
    NamespaceConverter,
    NamespaceWire,
    NodeConverter,
    NodeWire,
    ServiceConverter,
    ServiceWire,
)
from diagnostics.collect.wire.pods import PodConverter, PodWire
from diagnostics.collect.wire.workloads import WorkloadConverter, WorkloadWire
from diagnostics.garbage import garbage_paused
from diagnostics.snapshot import (
    Event,
    Namespace,
    ServedApi,
    Service,
    Skipped,
    Source,
    SourceState,
    SourceStatus,
    Workload,
)
from diagnostics.text import listed

KUBERNETES_SOURCES = (
    Source.NODES, Source.PODS, Source.EVENTS, Source.NAMESPACES, Source.SERVICES, Source.WORKLOADS,
    Source.STORAGE, Source.POLICY, Source.CUSTOM, Source.CLAIMS,
)  # fmt: skip
_WORKLOADS = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs")
_NO_CUSTOM = (
    "this cluster serves no queues, pod groups, jobs of operators or GPU Operator that are known here"
)
_SYSTEM_NAMESPACE = "kube-system"


@garbage_paused()
def read_cluster(connection: KubeConnection, target: Target) -> ClusterObjects:
    """Nodes, pods, events, namespaces, services, workloads and custom resources with a status each; raises nothing.

    Nodes and pods are read beside the other lists: pods cost us most, the others make us wait for the server.
    """
    pass_ = _Pass(connection, target, discover(connection))
    nodes = pass_.one(Source.NODES, "nodes", lambda _: ItemReader(NodeWire, NodeConverter()))
    with ThreadPoolExecutor(1, thread_name_prefix="lists") as beside:
        others = beside.submit(_others, pass_)
        pods = pass_.one(Source.PODS, "pods", lambda _: ItemReader(PodWire, PodConverter()))
        events, namespaces, services, workloads, storage, policy, custom, claims = others.result()
    dra = allocation_of(claims)
    pods = list(with_claimed(pods, dra))
    pass_.statuses.sort(key=lambda status: KUBERNETES_SOURCES.index(status.name))
    pass_.apis.sort(key=lambda api: (api.group, api.resource))
    return ClusterObjects(
        cluster_id=_cluster_id(connection, namespaces),
        server_version=pass_.discovery.server_version,
        server_time=connection.server_time,
        apis=tuple(pass_.apis),
        statuses=tuple(pass_.statuses),
        nodes=tuple(nodes),
        pods=tuple(pods),
        # Where two kinds share a name, the built-in one is found by it: it comes last.
        workloads=(*custom.workloads, *workloads),
        events=tuple(events),
        namespaces=tuple(namespaces),
        services=tuple(services),
        storage=storage_of(storage, pods),
        policy=policy_of(policy, pods),
        queues=custom.queues,
        queued=custom.queued,
        pod_groups=custom.pod_groups,
        operator_resources=custom.operator_resources,
        dra=dra,
    )


def _others(
    pass_: "_Pass",
) -> tuple[list[Event], list[Namespace], list[Service], list[Workload], Lists, Lists, CustomResources, Lists]:
    """Events before workloads and the rest, which change least."""
    return (
        pass_.one(Source.EVENTS, "events", lambda _: ItemReader(EventWire, EventConverter())),
        pass_.one(Source.NAMESPACES, "namespaces", lambda _: ItemReader(NamespaceWire, NamespaceConverter())),
        pass_.one(Source.SERVICES, "services", lambda _: ItemReader(ServiceWire, ServiceConverter())),
        pass_.workloads(),
        pass_.several(Source.STORAGE, storage_readers()),
        pass_.several(Source.POLICY, policy_readers()),
        pass_.custom(),
        pass_.several(Source.CLAIMS, claim_readers()),
    )


def unread_cluster(refused: Refused) -> ClusterObjects:
    """What a cluster gives that could not even be connected to: every source with the same refusal."""
    return ClusterObjects(
        statuses=tuple(
            SourceStatus(name=source, state=refused.state, detail=refused.detail)
            for source in KUBERNETES_SOURCES
        )
    )


class _Pass:
    """The running account of one pass."""

    def __init__(self, connection: KubeConnection, target: Target, discovery: Discovery) -> None:
        self._connection = connection
        self._target = target
        self.discovery = discovery
        self.statuses: list[SourceStatus] = []
        self.apis: list[ServedApi] = []

    def one[T](self, source: Source, resource: str, reader: Callable[[ServedApi], ItemReader[T]]) -> list[T]:
        """Read a source that is one list, and note its status."""
        started, read_at = time.monotonic(), self._connection.clock()
        listing = self._listing(resource, reader, keeps_broken=source is Source.EVENTS)
        self.statuses.append(
            SourceStatus(
                name=source,
                state=listing.state,
                detail=listing.detail,
                items=len(listing.items) if listing.state.is_usable else None,
                seconds=time.monotonic() - started,
                read_at=read_at,
                skipped=listing.skipped,
            )
        )
        return listing.items

    def workloads(self) -> list[Workload]:
        """The controllers' lists in one source."""
        found = self.several(
            Source.WORKLOADS,
            dict.fromkeys(
                _WORKLOADS,
                lambda api: ItemReader(WorkloadWire, WorkloadConverter(api.kind, api.api_version)),
            ),
        )
        return [item for items in found.values() for item in items or ()]

    def several(self, source: Source, readers: dict[str, Reader]) -> Lists:
        """Read several lists as one source: partial where some of them are missing, which are None."""
        started, read_at = time.monotonic(), self._connection.clock()
        listings = {
            resource: self._listing(resource, reader, keeps_broken=False)
            for resource, reader in readers.items()
        }
        self._note(source, listings, started, read_at)
        return {
            resource: listing.items if listing.state.is_usable else None
            for resource, listing in listings.items()
        }

    def custom(self) -> CustomResources:
        """Read the custom resources that are served into one source; kinds that are not there are no lack."""
        started, read_at = time.monotonic(), self._connection.clock()
        listings = {resource: self._custom(resource) for resource in CUSTOM}
        there = {name: one for name, one in listings.items() if one.state is not SourceState.ABSENT}
        none: Listing[Any] = Listing([], SourceState.ABSENT, _NO_CUSTOM)
        self._note(Source.CUSTOM, there or {"": none}, started, read_at)
        return told_apart(item for listing in there.values() for item in listing.items)

    def _custom(self, resource: str) -> Listing[Any]:
        why = self.discovery.guessed.get(resource)
        if why and not self.discovery.served[resource]:
            said = f"which of them are served is not known: the list of APIs could not be read ({why})"
            return Listing([], self.discovery.refusal, said)
        return self._listing(resource, reader_of(resource), keeps_broken=False)

    def _note(
        self, source: Source, listings: dict[str, Listing[Any]], started: float, read_at: datetime
    ) -> None:
        """The status of a source that is several lists."""
        state, detail = _joint(listings)
        self.statuses.append(
            SourceStatus(
                name=source,
                state=state,
                detail=detail,
                items=sum(len(one.items) for one in listings.values()) if state.is_usable else None,
                seconds=time.monotonic() - started,
                read_at=read_at,
                skipped=_merged(skip for listing in listings.values() for skip in listing.skipped),
            )
        )

    def _listing[T](
        self, resource: str, reader: Callable[[ServedApi], ItemReader[T]], *, keeps_broken: bool
    ) -> Listing[T]:
        """The list in the first served version that this user may read."""
        candidates = self.discovery.served[resource]
        listing: Listing[T] = Listing(
            [], SourceState.ABSENT, f"this cluster serves no {resource} that can be read"
        )
        for api in candidates:
            listing = read_list(
                self._connection,
                path_of(api),
                reader(api),
                page_size=self._target.page_size,
                keeps_broken=keeps_broken,
            )
            if listing.state.is_usable:
                self.apis.append(api)
                break
            if listing.state is SourceState.FAILED:
                break
        why = self.discovery.guessed.get(resource)
        if why and listing.state.is_usable:
            note = f"read in its usual version, since the list of APIs could not be read ({why})"
            return msgspec.structs.replace(listing, detail="; ".join(filter(None, (listing.detail, note))))
        return listing


def _joint(listings: dict[str, Listing[Any]]) -> tuple[SourceState, str]:
    """State and detail of a source that is several lists."""
    states = {listing.state for listing in listings.values()}
    unread = {name: listing for name, listing in listings.items() if not listing.state.is_usable}
    details = list(dict.fromkeys(listing.detail for listing in listings.values() if listing.detail))
    if len(unread) == len(listings):
        state = states.pop() if len(states) == 1 else SourceState.FAILED
        return state, "; ".join(details[:3])
    if unread:
        return SourceState.PARTIAL, f"without {listed(list(unread), len(unread))}: {'; '.join(details[:3])}"
    return (SourceState.OK if states == {SourceState.OK} else SourceState.PARTIAL), "; ".join(details[:3])


def _merged(skips: Iterable[Skipped]) -> tuple[Skipped, ...]:
    """Skips of several lists, one for each reason."""
    merged: dict[str, Skipped] = {}
    for skip in skips:
        before = merged.get(skip.reason, Skipped(skip.reason, 0, skip.example))
        merged[skip.reason] = Skipped(skip.reason, before.count + skip.count, before.example)
    return tuple(merged.values())


class _Identified(msgspec.Struct):
    uid: str = ""


class _SystemNamespace(msgspec.Struct):
    metadata: _Identified


def _cluster_id(connection: KubeConnection, namespaces: list[Namespace]) -> str:
    """UID of kube-system, from the list or, where that is refused, from the object; empty when neither may be read."""
    for namespace in namespaces:
        if namespace.name == _SYSTEM_NAMESPACE:
            return namespace.uid
    if namespaces:
        return ""
    try:
        body = connection.get(f"/api/v1/namespaces/{_SYSTEM_NAMESPACE}").body
        return msgspec.json.decode(body, type=_SystemNamespace).metadata.uid
    except (Refused, msgspec.MsgspecError):
        return ""
