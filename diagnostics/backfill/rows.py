"""The rows behind a rebuilt chunk: nodes, devices, workloads and allocations that only history knows are created."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from diagnostics.backfill.rebuilding import Hold, OwnerName, Rebuilt, SeenDevice
from diagnostics.models import Allocation, Cluster, Device, Node, Workload
from diagnostics.snapshot import OwnerKey
from diagnostics.storable import storable_text
from diagnostics.stretches import NOBODY, Piece
from diagnostics.topology import slices
from diagnostics.topology.slots import BY_ADDRESS, board, instance_board, naming
from diagnostics.usage.moments import from_ms, to_ms

BATCH = 1000


class Placed(NamedTuple):
    """Rows of one chunk."""

    devices: dict[str, Device]
    """Slot in the chunk -> row."""
    known_from: dict[str, int]
    """Slot -> since when the device was known before this chunk (ms); missing for a new one."""
    workloads: dict[int, int]
    """Place in `Rebuilt.owners`, counted from 1 -> primary key, of those that hold anything in the chunk."""


def placed(cluster: Cluster, found: Rebuilt, step: timedelta) -> Placed:
    """Find or create the rows, and move `first_seen` back, in the caller's transaction."""
    _without_unstorable(found)
    workloads = _workloads(cluster, found)
    nodes = _nodes(cluster, found, step)
    devices, known_from = _devices(cluster, found, nodes, step)
    _allocate(cluster, found, nodes, workloads, step)
    held = {place: workloads.get(_column(owner)) for place, owner in enumerate(found.owners, 1)}
    keys = {place: row.pk for place, row in held.items() if row is not None}
    return Placed(devices, known_from, keys)


def _without_unstorable(found: Rebuilt) -> None:
    """Labels can hold anything: what has a name that no column takes is left out, as in polls."""
    for slot, seen in list(found.devices.items()):
        node = seen.gpu.node
        if slot != storable_text(slot, 600) or node != storable_text(node, 253):
            del found.devices[slot], found.pieces[slot]


def _column(owner: OwnerKey) -> OwnerName:
    return (
        storable_text(owner.kind, 80) or "unknown",
        storable_text(owner.namespace, 253),
        storable_text(owner.name, 253),
    )


def translated(pieces: Iterable[Piece], workloads: dict[int, int]) -> list[Piece]:
    """Pieces whose holders are primary keys instead of places in `Rebuilt.owners`."""
    return [
        piece._replace(holders=tuple(sorted(workloads[place] for place in piece.holders)) or NOBODY)
        for piece in pieces
    ]


def _workloads(cluster: Cluster, found: Rebuilt) -> dict[OwnerName, Workload]:
    """By the names that are stored."""
    spans: dict[int, tuple[int, int]] = {}
    for pieces in found.pieces.values():
        for piece in pieces:
            for place in piece.holders:
                first, last = spans.get(place, (piece.start, piece.end))
                spans[place] = min(first, piece.start), max(last, piece.end)
    wanted = {_column(found.owners[place - 1]): span for place, span in spans.items()}
    rows = Workload.objects.filter(cluster=cluster, name__in={name for _, _, name in wanted})
    known = {(row.kind, row.namespace, row.name): row for row in rows}
    new = [
        Workload(
            cluster=cluster,
            kind=kind,
            namespace=namespace,
            name=name,
            first_seen=from_ms(first),
            last_seen=from_ms(last),
        )
        for (kind, namespace, name), (first, last) in wanted.items()
        if (kind, namespace, name) not in known
    ]
    Workload.objects.bulk_create(new, batch_size=BATCH)
    known |= {(row.kind, row.namespace, row.name): row for row in new}
    _moved_back(Workload, [(known[name], from_ms(first)) for name, (first, _) in wanted.items()])
    return known


def _moved_back(model: type[Workload | Node | Device], rows: Iterable[tuple[object, datetime]]) -> None:
    """Rows that were there earlier than is known."""
    earlier = []
    for row, first in rows:
        if row.first_seen > first:  # type: ignore[attr-defined]
            row.first_seen = first  # type: ignore[attr-defined]
            earlier.append(row)
    model._default_manager.bulk_update(earlier, ["first_seen"], batch_size=BATCH)  # type: ignore[arg-type]


def _nodes(cluster: Cluster, found: Rebuilt, step: timedelta) -> dict[str, Node]:
    seen: dict[str, list[SeenDevice]] = defaultdict(list)
    for device in found.devices.values():
        seen[device.gpu.node].append(device)
    known = {row.name: row for row in Node.objects.filter(cluster=cluster, name__in=seen)}
    new = []
    for name in seen.keys() - known.keys():
        gone = from_ms(max(device.last for device in seen[name])) + step
        boards = {board(device.gpu.slot) for device in seen[name]}
        new.append(
            Node(
                cluster=cluster,
                name=storable_text(name, 253),
                model=storable_text(next((d.gpu.model for d in seen[name] if d.gpu.model), ""), 120),
                gpus=len(boards),
                most_gpus=len(boards),
                first_seen=gone,
                last_seen=gone,
                removed_at=gone,
            )
        )
    Node.objects.bulk_create(new, batch_size=BATCH)
    known |= {row.name: row for row in new}
    _moved_back(Node, [(known[name], from_ms(min(d.first for d in every))) for name, every in seen.items()])
    return known


def _devices(
    cluster: Cluster, found: Rebuilt, nodes: dict[str, Node], step: timedelta
) -> tuple[dict[str, Device], dict[str, int]]:
    """A device that is known by its UUID or by a number alone is the same place."""
    rows = Device.objects.filter(cluster=cluster, node__in=nodes.values())
    by_slot = {row.slot: row for row in rows}
    by_uuid = {
        (row.node_id, row.uuid): row
        for row in by_slot.values()
        if row.uuid and naming(row.slot) != BY_ADDRESS and instance_board(row.slot) is None
    }
    placed: dict[str, Device] = {}
    new: list[Device] = []
    for slot, seen in found.devices.items():
        gpu, node = seen.gpu, nodes[seen.gpu.node]
        row = by_slot.get(slot)
        if row is None and gpu.uuid and not gpu.mig_instance:
            row = by_uuid.get((node.pk, gpu.uuid))
        if row is None:
            row = _new_device(cluster, node, seen, step)
            new.append(row)
        placed[slot] = row
    _weigh(new)
    known_from = {slot: to_ms(row.first_seen) for slot, row in placed.items() if row.pk}
    Device.objects.bulk_create(new, batch_size=BATCH)
    _moved_back(Device, [(row, from_ms(found.devices[slot].first)) for slot, row in placed.items()])
    return placed, known_from


def _new_device(cluster: Cluster, node: Node, seen: SeenDevice, step: timedelta) -> Device:
    gpu = seen.gpu
    gone = from_ms(seen.last) + step
    return Device(
        cluster=cluster,
        node=node,
        slot=storable_text(gpu.slot, 600),
        uuid=storable_text(gpu.uuid or "", 80),
        model=storable_text(gpu.model or node.model, 120),
        resource=storable_text(gpu.resource, 120),
        mig_profile=storable_text((gpu.mig_profile or "").replace("+", "."), 40),
        first_seen=gone,
        last_seen=gone,
        removed_at=gone,
    )


def _weigh(new: list[Device]) -> None:
    """The instances of a board share its slices; all of them are new, or those that are known keep what they have."""
    by_board: dict[str, list[Device]] = defaultdict(list)
    for row in new:
        if (home := instance_board(row.slot)) is not None:
            by_board[home].append(row)
    for rows in by_board.values():
        rows.sort(key=lambda row: row.slot)
        weights, _ = slices.side_by_side([row.mig_profile for row in rows], rows[0].model)
        for row, weight in zip(rows, weights, strict=True):
            row.offset, row.parts, row.whole = weight


def _allocate(
    cluster: Cluster,
    found: Rebuilt,
    nodes: dict[str, Node],
    workloads: dict[OwnerName, Workload],
    step: timedelta,
) -> None:
    """Each hold as an allocation, or as the earlier part of one that is known."""
    if not found.holds:
        return
    first = from_ms(min(hold.start for hold in found.holds)) - 2 * step
    last = from_ms(max(hold.end for hold in found.holds)) + 2 * step
    known: dict[tuple[int, int, str], list[Allocation]] = defaultdict(list)
    rows = Allocation.objects.filter(cluster=cluster, started_at__lte=last).exclude(ended_at__lt=first)
    for row in rows:
        known[row.workload_id, row.node_id, row.pod].append(row)
    new, earlier = [], []
    for hold in sorted(found.holds, key=lambda hold: -hold.start):
        workload = workloads.get(_column(hold.root))
        node = nodes.get(hold.pod.node or "")
        if workload is None or node is None:
            continue
        name = storable_text(hold.pod.name, 253)
        start, end = from_ms(hold.start), from_ms(hold.end)
        same = [row for row in known[workload.pk, node.pk, name] if _continues(row, hold, start, end, step)]
        if same:
            row = same[0]
            if row.started_at > start:
                row.started_at = start
                if row.pk:
                    earlier.append(row)
            continue
        row = Allocation(
            cluster=cluster,
            workload=workload,
            node=node,
            pod=name,
            pod_uid=storable_text(hold.pod.uid, 60),
            slots=[storable_text(slot, 600) for slot in hold.slots],
            started_at=start,
            ended_at=end,
            is_backfilled=True,
        )
        known[workload.pk, node.pk, name].append(row)
        new.append(row)
    Allocation.objects.bulk_create(new, batch_size=BATCH)
    Allocation.objects.bulk_update(earlier, ["started_at"], batch_size=BATCH)


def _continues(row: Allocation, hold: Hold, start: datetime, end: datetime, step: timedelta) -> bool:
    """The allocation is the same pod's on the same devices, and goes on where the hold ends, or overlaps it."""
    if row.pod_uid and hold.pod.uid and row.pod_uid != hold.pod.uid:
        return False
    if row.started_at <= start and (row.ended_at is None or row.ended_at >= end):
        return True
    if sorted(row.slots) != list(hold.slots):
        return False
    return row.started_at <= end + 2 * step and (row.ended_at is None or row.ended_at >= start - 2 * step)
