"""From what Prometheus kept of a span to small snapshots, one for every step, by the functions of live polls. Pure.

What changes seldom (nodes, pods, who holds what) is worked out once for every run of steps in which it stays; the
metrics of each step are then put in.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from diagnostics.collect import devices
from diagnostics.collect.assemble import with_roots
from diagnostics.collect.dcgm import Skips
from diagnostics.collect.dcgm_labels import DeviceKey, is_exporter
from diagnostics.collect.history.courses import DeviceCourse
from diagnostics.collect.history.grid import Grid
from diagnostics.collect.history.objects import Objects
from diagnostics.collect.history.owners import Known, owned
from diagnostics.collect.history.runs import Run
from diagnostics.collect.readings import DeviceReading
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits
from diagnostics.snapshot import (
    Container,
    Gang,
    Gpu,
    Node,
    OwnerKey,
    Past,
    Pod,
    Snapshot,
    Source,
    SourceState,
    SourceStatus,
    State,
    Workload,
)
from diagnostics.states import with_states

NO_NODE = "nothing says on which node the device is"
KEPT_LABELS = ("nvidia.com/gpu.product", "nvidia.com/gpu.replicas")
"""What boards a node has and how they are shared; how many there were, the past itself must say."""
GONE = "series names a pod that had ended or was elsewhere"


class Cluster(msgspec.Struct, frozen=True):
    """What is known of the cluster from elsewhere than the span that is read."""

    nodes: dict[str, Node] = {}
    """As they were last seen: product, sharing, place."""
    slots: frozenset[str] = frozenset()
    """Slots that polls have seen."""
    node_by_uuid: dict[str, str] = {}
    """UUID of a board -> the node in which it was last seen."""
    owners: Known = Known()
    workloads: tuple[Workload, ...] = ()
    """Owners whose own owners are known."""
    gangs: tuple[Gang, ...] = ()
    """Collective jobs that polls have seen: their members then count for nothing, their size does."""


class _Run(NamedTuple):
    """Steps from `start` on, until before `end`, in which nothing but metrics changes."""

    start: int
    end: int
    base: Snapshot
    courses: list[DeviceCourse | None]
    """For each of the snapshot's devices its metrics, or None."""


def snapshots(
    courses: list[DeviceCourse], objects: Objects, cluster: Cluster, grid: Grid, limits: Limits, skips: Skips
) -> Iterator[Snapshot]:
    """One for each step at which there is any device, oldest first: nodes, GPU pods, GPUs with states, gangs."""
    homes = _homes(courses, objects, cluster, skips)
    placed = [course for course in courses if course.key in homes]
    edges = sorted({0, grid.count, *_edges(objects.pods), *_edges(objects.nodes), *_turns(placed, grid)})
    for start, end in itertools.pairwise(edges):
        run = _run(start, end, placed, homes, objects, cluster, grid, skips)
        if not run.base.gpus:
            continue
        for place in range(start, end):
            yield _at(run, place, grid, limits)


def _edges[T](runs: list[Run[T]]) -> Iterator[int]:
    for run in runs:
        yield run.start
        yield run.end


def _turns(courses: list[DeviceCourse], grid: Grid) -> Iterator[int]:
    """Steps at which a device comes, goes or changes hands."""
    for course in courses:
        owners = course.owners
        yield from (place for place in range(1, grid.count) if owners[place] != owners[place - 1])


def _homes(
    courses: list[DeviceCourse], objects: Objects, cluster: Cluster, skips: Skips
) -> dict[DeviceKey, str]:
    """Device -> its node. Without the pods of that time the exporter's own name need not say where it ran."""
    names = {run.item.name for run in objects.nodes} | cluster.nodes.keys()
    short = {name.partition(".")[0]: name for name in sorted(names)}
    homes = {}
    for course in courses:
        found = None
        for hint in course.hints:
            for key in devices.keys_of(hint):
                found = found or (key if key in names else short.get(key) or objects.exporters.get(key))
        found = found or cluster.node_by_uuid.get(course.key.device)
        if found is None and not objects.nodes:
            found = next((hint for hint in course.hints if not _is_address(hint)), None)
            found = None if found is None or is_exporter("", found, "") else found
        if found is None:
            skips.add(NO_NODE, course.key.device)
        else:
            homes[course.key] = found
    return homes


def _is_address(hint: str) -> bool:
    host = hint.rpartition(":")[0] or hint
    return ":" in host or host.replace(".", "").isdigit()


def _run(
    start: int,
    end: int,
    courses: list[DeviceCourse],
    homes: dict[DeviceKey, str],
    objects: Objects,
    cluster: Cluster,
    grid: Grid,
    skips: Skips,
) -> _Run:
    present = [course for course in courses if course.owners[start] is not None]
    readings = {}
    by_metrics = {}
    for course in present:
        reading = msgspec.structs.replace(course.reading(start), node_hints=(homes[course.key],))
        readings[course.key] = reading
        by_metrics[id(reading.metrics)] = course
    told = {run.item.key: run.item for run in objects.pods if run.start <= start < run.end}
    nodes = _nodes(start, readings.values(), objects, cluster)
    pods = _pods(told, readings, {run.item.key for run in objects.pods}, skips)
    workloads = (*cluster.workloads, *objects.workloads)
    pods = with_roots(owned(pods, cluster.owners, workloads), workloads)
    slots = {devices.slot_of(homes[course.key], course.reading(start)) for course in courses}
    gpus = devices.joined(nodes, pods, readings.values(), Past(), slots | cluster.slots)
    # A place that only the counts know, and no poll ever saw, would be counted besides the board that sits there.
    gpus = tuple(gpu for gpu in gpus if gpu.is_named or gpu.slot in cluster.slots)
    base = Snapshot(
        taken_at=grid.at(start),
        nodes=nodes,
        pods=pods,
        gpus=gpus,
        gangs=_gangs(pods, cluster.gangs),
        sources=(SourceStatus(name=Source.PODS, state=SourceState.OK if told else SourceState.ABSENT),),
        has_pod_labels=any(reading.pods for reading in readings.values()),
    )
    return _Run(start, end, base, [by_metrics.get(id(gpu.metrics)) for gpu in gpus])


def _nodes(
    place: int, readings: Collection[DeviceReading], objects: Objects, cluster: Cluster
) -> tuple[Node, ...]:
    """Those of kube-state-metrics, and those that devices name: with the boards that they have now."""
    boards: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for reading in readings:
        boards[reading.node_hints[0]][_resource(reading)] += 1
    found = {
        run.item.name: _like_now(run.item, boards[run.item.name], cluster.nodes.get(run.item.name))
        for run in objects.nodes
        if run.start <= place < run.end
    }
    for name in boards.keys() - found.keys():
        now = cluster.nodes.get(name)
        replicas = 1 if now is None else now.gpu_replicas
        amounts = {
            resource: float(count * (1 if "/mig-" in resource else replicas))
            for resource, count in boards[name].items()
        }
        found[name] = _like_now(Node(name=name, capacity=amounts, allocatable=amounts), boards[name], now)
    return tuple(found[name] for name in sorted(found))


def _resource(reading: DeviceReading) -> str:
    profile = reading.mig_profile
    return f"nvidia.com/mig-{profile.replace('+', '.')}" if profile else devices.WHOLE_GPU


def _like_now(node: Node, boards: dict[str, int], now: Node | None) -> Node:
    """With the product and the shares that the node has now, unless its capacity then speaks against the shares."""
    if now is None:
        return node
    labels = {name: now.labels[name] for name in KEPT_LABELS if name in now.labels}
    whole = max((node.capacity.get(devices.WHOLE_GPU + end, 0.0) for end in ("", ".shared")), default=0.0)
    if whole < now.gpu_replicas * boards.get(devices.WHOLE_GPU, 0):
        labels.pop("nvidia.com/gpu.replicas", None)
    return msgspec.structs.replace(node, labels=labels)


def _pods(
    told: dict[str, Pod], readings: dict[DeviceKey, DeviceReading], ever: set[str], skips: Skips
) -> tuple[Pod, ...]:
    """Pods of kube-state-metrics, and those that it never named but the metrics' labels do."""
    held: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for reading in readings.values():
        for key in reading.pods:
            if key in told:
                pod = told[key]
                if pod.is_finished or pod.node != reading.node_hints[0]:
                    skips.add(GONE, key)
            elif key in ever:
                skips.add(GONE, key)
            else:
                held[key, reading.node_hints[0]][_resource(reading)] += 1
    made = (_made(key, node, dict(resources)) for (key, node), resources in sorted(held.items()))
    return (*told.values(), *made)


def _made(key: str, node: str, gpus: dict[str, float]) -> Pod:
    """A pod of which only the labels of its devices are known."""
    namespace, _, name = key.partition("/")
    container = Container(name="", requests=gpus)
    return Pod(namespace=namespace, name=name, node=node, phase="Running", containers=(container,))


def _gangs(pods: tuple[Pod, ...], known: tuple[Gang, ...]) -> tuple[Gang, ...]:
    """Gangs that the owners' kinds give away, and jobs that are known to be collective, with the pods of that time."""
    found = {(gang.kind, gang.namespace, gang.name): gang for gang in gangs_of(pods, ())}
    by_root: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for pod in pods:
        if pod.root is not None and pod.gpus and not pod.is_finished:
            by_root[_key(pod.root)].append(pod.key)
    for gang in known:
        key = (gang.kind, gang.namespace, gang.name)
        if key in by_root and key not in found:
            found[key] = msgspec.structs.replace(gang, members=tuple(sorted(by_root[key])))
    return tuple(found[key] for key in sorted(found))


def _key(owner: OwnerKey) -> tuple[str, str, str]:
    return owner.kind, owner.namespace, owner.name


def _at(run: _Run, place: int, grid: Grid, limits: Limits) -> Snapshot:
    base = run.base
    if place > run.start:
        gpus = tuple(
            gpu if course is None else msgspec.structs.replace(gpu, metrics=course.metrics(place))
            for gpu, course in zip(base.gpus, run.courses, strict=True)
        )
        base = msgspec.structs.replace(base, taken_at=grid.at(place), gpus=gpus)
    states = with_states(base, limits)
    judged = tuple(_judged(gpu, states[gpu.slot][0]) for gpu in base.gpus)
    return msgspec.structs.replace(base, gpus=judged)


def _judged(gpu: Gpu, state: State) -> Gpu:
    return msgspec.structs.replace(gpu, state=state)
