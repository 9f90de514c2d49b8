"""Devices from metric readings, pod status and node counts, each with its holders. Pure.

A device is named by metrics or by pod status; what only the counts know stays an unnamed slot. Pod status
(KEP-4680) beats metric labels, since a label can name a finished pod (kubernetes/kubernetes issue 119423).
"""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from diagnostics.collect.published import CLAIM_STATUS, Published, published, slices_by_node
from diagnostics.collect.readings import DeviceReading
from diagnostics.snapshot import Allocation, Gpu, Node, Origin, Past, Pod, gpu_resources
from diagnostics.snapshot.claims import is_served_by_claims

WHOLE_GPU = "nvidia.com/gpu"
MIG_UUID_PREFIX = "MIG-"
PCI_COLONS = 2
"""`00000000:0f:00.0`"""


def joined(
    nodes: tuple[Node, ...],
    pods: tuple[Pod, ...],
    readings: Iterable[DeviceReading],
    past: Past,
    remembered: Iterable[str] = (),
    *,
    dra: Allocation | None = None,
) -> tuple[Gpu, ...]:
    """Every schedulable device of every node, by node and slot.

    `remembered`: slots that earlier polls named; a board that is fitted but silent now keeps its name. `dra`: where
    drivers publish a node's GPUs for claims, these are its devices, and a device plugin's come besides.
    """
    dra = dra or Allocation()
    slices_on = slices_by_node(dra)
    holders_on: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.holds_gpus and pod.node is not None:
            holders_on[pod.node].append(pod)
    pods_on: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node is not None:
            pods_on[pod.node].append(pod)
    read_on = _by_node(nodes, pods, readings)
    silent: dict[str, list[str]] = defaultdict(list)
    for slot in sorted({*remembered, *past.xids, *past.last_active}):
        silent[slot.partition("/")[0]].append(slot)
    found: list[Gpu] = []
    for node in nodes:
        living = {pod.key: pod for pod in pods_on[node.name] if not pod.is_finished}
        given = published(node, slices_on[node.name], dra, living, read_on[node.name])
        readings_left = [r for r in read_on[node.name] if not _is_published(r, given)]
        named = _named(node, _of_plugin(holders_on[node.name], given, dra), readings_left, given.uuids)
        filled = _filled(node, named, silent[node.name], past, given)
        held = _with_holders([*filled, *given.gpus], holders_on[node.name])
        if given.gpus:
            mine = [gpu for gpu in held if gpu.origin is Origin.DRA]
            found += [*mine, *_with_lost(node, [gpu for gpu in held if gpu.origin is not Origin.DRA])]
        elif is_served_by_claims(node, pods_on[node.name], dra):
            # The plugin's counts say nothing of these: neither what is lost, nor who holds them.
            found += [msgspec.structs.replace(gpu, origin=Origin.DRA) for gpu in held]
        else:
            found += _with_lost(node, held)
    return tuple(found)


def _is_published(reading: DeviceReading, given: Published) -> bool:
    """The reading is of a board that a DRA driver publishes, whole or in parts."""
    return bool(given.gpus) and (
        reading.uuid in given.uuids
        or any(gpu.pci == reading.pci for gpu in given.gpus if gpu.pci is not None)
    )


def _of_plugin(holders: list[Pod], given: Published, dra: Allocation) -> list[Pod]:
    """Those that a device plugin serves; a pod whose extended resource became a claim is named by its claim."""
    return holders if not given.gpus else [pod for pod in holders if pod.key not in dra.claims_of_pod]


def _by_node(
    nodes: tuple[Node, ...], pods: tuple[Pod, ...], readings: Iterable[DeviceReading]
) -> dict[str, list[DeviceReading]]:
    """Readings under the node that their hints name: a node, an exporter's pod, or a pod's address."""
    names = {node.name: node.name for node in nodes}
    for node in nodes:
        names.setdefault(node.name.partition(".")[0], node.name)
        names.setdefault(node.labels.get("kubernetes.io/hostname", node.name), node.name)
    for pod in pods:
        if pod.node is not None:
            names.setdefault(pod.name, pod.node)
            if pod.ip and not pod.host_network:
                names.setdefault(pod.ip, pod.node)
    found: dict[str, list[DeviceReading]] = defaultdict(list)
    for reading in readings:
        node_name = next(
            (names[key] for hint in reading.node_hints for key in keys_of(hint) if key in names), None
        )
        if node_name is not None:
            found[node_name].append(reading)
    return found


def keys_of(hint: str) -> tuple[str, ...]:
    """A hint as it is, without a port, and without a domain."""
    host = hint.rpartition(":")[0] if hint.rpartition(":")[2].isdigit() else hint
    return (hint, host, host.partition(".")[0])


def _named(
    node: Node,
    holders: list[Pod],
    readings: list[DeviceReading],
    published_uuids: frozenset[str] = frozenset(),
) -> list[Gpu]:
    """One device per reading, and one per UUID that only pod status knows; none that a DRA driver publishes."""
    status = _status_by_uuid(holders)
    found: dict[str, Gpu] = {}
    for reading in readings:
        gpu = _from_reading(node, reading, status.get(reading.uuid or "", []))
        found.setdefault(gpu.slot, gpu)
    known = {gpu.uuid for gpu in found.values() if gpu.uuid} | published_uuids
    for uuid, seen in status.items():
        if uuid in known or _is_instance_shown(uuid, seen, found, node):
            continue
        slot = f"{node.name}/{uuid}"
        resource = seen[0][1]
        found[slot] = Gpu(
            slot=slot,
            node=node.name,
            uuid=uuid,
            model=node.gpu_product,
            resource=resource,
            origin=_origin(resource, node),
            replicas=node.gpu_replicas,
            is_healthy=all(health != "Unhealthy" for _, _, health in seen),
            holders=tuple(dict.fromkeys(key for key, _, _ in seen)),
            holder_source="pod status",
        )
    return list(found.values())


def _is_instance_shown(
    uuid: str, seen: list[tuple[str, str, str]], found: dict[str, Gpu], node: Node
) -> bool:
    """Whether a reading shows this MIG instance already; what pod status says of it then goes there.

    Metrics give an instance the UUID of its board, and pod status one of its own, so that only the pod joins them.
    Where the readings show as many instances as the node has, no other can exist, whatever its pod.
    """
    if not uuid.startswith(MIG_UUID_PREFIX):
        return False
    resource, pods = seen[0][1], {key for key, _, _ in seen}
    instances = [gpu for gpu in found.values() if gpu.mig_instance is not None and gpu.resource == resource]
    for gpu in instances:
        if gpu.holder_source == "metric label" and pods & set(gpu.holders):
            found[gpu.slot] = msgspec.structs.replace(
                gpu,
                is_healthy=all(health != "Unhealthy" for _, _, health in seen),
                holders=tuple(dict.fromkeys(key for key, _, _ in seen)),
                holder_source="pod status",
            )
            return True
    return len(instances) >= node.capacity.get(resource, 0.0)


def _status_by_uuid(holders: list[Pod]) -> dict[str, list[tuple[str, str, str]]]:
    """UUID -> (pod key, resource, health) of each container that was given it."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for pod in holders:
        for device in pod.devices:
            if device.resource.startswith(CLAIM_STATUS):
                continue
            uuid = device.device.partition("::")[0]
            found[uuid].append((pod.key, device.resource, device.health))
    return found


def slot_of(node: str, reading: DeviceReading) -> str:
    """How `Gpu.slot` spells a device that has readings."""
    board = reading.pci or reading.uuid or f"gpu{reading.index}"
    return f"{node}/{board}" + (f"/mig-{reading.mig_instance}" if reading.mig_instance else "")


def _from_reading(node: Node, reading: DeviceReading, status: list[tuple[str, str, str]]) -> Gpu:
    slot = slot_of(node.name, reading)
    is_mig = reading.mig_instance is not None
    resource = _mig_resource(node, reading.mig_profile) if is_mig else _plain_resource(node)
    healths = [health for _, _, health in status]
    return Gpu(
        slot=slot,
        node=node.name,
        index=reading.index,
        pci=reading.pci,
        uuid=reading.uuid,
        model=reading.model,
        resource=resource,
        origin=Origin.MIG if is_mig else _origin(resource, node),
        mig_profile=reading.mig_profile,
        mig_instance=reading.mig_instance,
        replicas=1 if is_mig else node.gpu_replicas,
        is_healthy=all(h != "Unhealthy" for h in healths) if healths else None,
        holders=tuple(dict.fromkeys(key for key, _, _ in status)) or reading.pods,
        holder_source="pod status" if status else "metric label" if reading.pods else "",
        metrics=reading.metrics,
        window=reading.window,
    )


def _mig_resource(node: Node, profile: str | None) -> str:
    name = f"nvidia.com/mig-{(profile or '').replace('+', '.')}"
    return name if name in node.capacity else WHOLE_GPU


def _plain_resource(node: Node) -> str:
    shared = f"{WHOLE_GPU}.shared"
    return shared if shared in node.capacity and not node.capacity.get(WHOLE_GPU) else WHOLE_GPU


def _origin(resource: str, node: Node) -> Origin:
    if "/mig-" in resource:
        return Origin.MIG
    return Origin.SHARED if node.gpu_replicas > 1 else Origin.PLUGIN


def fitted(node: Node, past: Past) -> dict[str, int]:
    """Physical devices per resource: max(capacity / replicas, `nvidia.com/gpu.count`, past maximum)."""
    counts = {
        name: int(amount // (node.gpu_replicas if name.startswith(WHOLE_GPU) else 1))
        for name, amount in gpu_resources(node.capacity).items()
    }
    has_mig = any("/mig-" in name for name in counts)
    label = node.gpu_count_label or 0
    if not has_mig and max(label, past.fitted.get(node.name, 0)):
        name = _plain_resource(node)
        counts[name] = max(counts.get(name, 0), label, past.fitted.get(node.name, 0))
    return counts


def _filled(node: Node, named: list[Gpu], silent: list[str], past: Past, given: Published) -> list[Gpu]:
    """`named` and a slot for each device that only the counts know: by its old name where there is one.

    Boards that a DRA driver publishes are among those that the labels count, and taken to be among the plugin's.
    """
    devices = list(named)
    taken = {gpu.slot for gpu in (*named, *given.gpus)}
    for resource, count in sorted(fitted(node, past).items()):
        have = sum(gpu.resource == resource for gpu in named)
        have += len(given.boards) if "/mig-" not in resource else 0
        names = [slot for slot in silent if slot not in taken and ("/mig-" in slot) == ("/mig-" in resource)]
        for number in range(have, count):
            slot = names.pop(0) if names else f"{node.name}/{resource}#{number}"
            devices.append(_unread(node, slot, resource))
    return devices


def _unread(node: Node, slot: str, resource: str) -> Gpu:
    """A device without a reading; the PCI address of one that had readings is in its slot."""
    board = slot.removeprefix(f"{node.name}/")
    return Gpu(
        slot=slot,
        node=node.name,
        pci=board if board.count(":") == PCI_COLONS else None,
        model=node.gpu_product,
        resource=resource,
        origin=_origin(resource, node),
        replicas=node.gpu_replicas if "/mig-" not in resource else 1,
    )


def _with_holders(devices: list[Gpu], holders: list[Pod]) -> list[Gpu]:
    """Each device with the holders that really hold; what the names do not settle is settled by count.

    A label is dropped when its pod is unknown, finished or elsewhere. Where a pod's remaining devices are the
    only ones left, they are its; else the slots are taken by count alone and say so, because which is unknown.
    """
    keys = {pod.key for pod in holders}
    kept = [
        msgspec.structs.replace(gpu, holders=true, holder_source=gpu.holder_source if true else "")
        for gpu in devices
        for true in (tuple(key for key in gpu.holders if key in keys or gpu.origin is Origin.DRA),)
    ]
    claims = [
        (pod, resource, int(amount) - sum(pod.key in g.holders and _serves(g, resource) for g in kept))
        for pod in holders
        for resource, amount in sorted(pod.gpus.items())
    ]
    open_claims = [claim for claim in claims if claim[2] > 0]
    for pod, resource, missing in open_claims:
        free = [i for i, gpu in enumerate(kept) if _serves(gpu, resource) and _has_room(gpu)]
        same = [claim for claim in open_claims if claim[1] == resource]
        settled = len(same) == 1 and len(free) == missing and kept[free[0]].replicas == 1
        source = "only devices left" if settled else "count"
        free.sort(key=lambda i: (kept[i].origin is Origin.DRA, kept[i].is_named, len(kept[i].holders)))
        for i in free[:missing]:
            kept[i] = msgspec.structs.replace(
                kept[i], holders=(*kept[i].holders, pod.key), holder_source=kept[i].holder_source or source
            )
    return kept


def _serves(gpu: Gpu, resource: str) -> bool:
    return gpu.resource == resource


def _has_room(gpu: Gpu) -> bool:
    return gpu.is_healthy is not False and not gpu.claims and len(gpu.holders) < gpu.replicas


def _with_lost(node: Node, devices: list[Gpu]) -> list[Gpu]:
    """Devices beyond what is allocatable are unhealthy: those known to be, then the free and nameless."""
    found = list(devices)
    for resource in {gpu.resource for gpu in devices}:
        mine = [i for i, gpu in enumerate(found) if gpu.resource == resource]
        replicas = max(found[i].replicas for i in mine)
        allocatable = int(node.allocatable.get(resource, 0.0) // replicas)
        known = sum(found[i].is_healthy is False for i in mine)
        lost = len(mine) - allocatable - known
        candidates = [i for i in mine if found[i].is_healthy is None and not found[i].holders]
        candidates.sort(key=lambda i: (found[i].metrics is not None, found[i].is_named))
        for i in candidates[: max(0, lost)]:
            found[i] = msgspec.structs.replace(found[i], is_healthy=False)
    return found
