"""GPUs that drivers publish for claims (dynamic resource allocation), each with the pods its claims are kept for. Pure.

Partitions of one board exclude each other through shared counters: those that are held are shown, and of the rest the
largest that still fit beside them, so that a board is never counted twice.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from diagnostics.collect.claimed import resource_name
from diagnostics.collect.readings import DeviceReading
from diagnostics.snapshot import Allocation, Gpu, Node, Origin, Pod
from diagnostics.snapshot.resource_claims import Device, ResourceSlice, is_gpu_driver

CLAIM_STATUS = "claim:"
"""How `allocatedResourcesStatus` names a device of a claim (KEP-4680): `claim:<claim>/<request>`."""
SHUTS_OUT = frozenset({"NoSchedule", "NoExecute"})
_NUMBER = re.compile(r"gpu-(\d+)")
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])")

Key = tuple[str, str, str]
"""Driver, pool, device."""


class Published(msgspec.Struct, frozen=True):
    """What one node's slices say."""

    gpus: tuple[Gpu, ...] = ()
    boards: frozenset[str] = frozenset()
    """Physical GPUs behind them, by UUID, or by counter set or device where there is none."""
    uuids: frozenset[str] = frozenset()
    """Of the boards and of their partitions."""


def slices_by_node(dra: Allocation) -> dict[str, list[tuple[ResourceSlice, tuple[Device, ...]]]]:
    """Node -> current slices of GPU drivers with their devices there. Devices of several nodes are nobody's."""
    found: dict[str, list[tuple[ResourceSlice, tuple[Device, ...]]]] = defaultdict(list)
    for one in dra.current:
        if not is_gpu_driver(one.driver):
            continue
        if one.node:
            found[one.node].append((one, one.devices))
            continue
        for name in {device.node for device in one.devices if device.node}:
            found[name].append((one, tuple(d for d in one.devices if d.node == name)))
    return found


def published(
    node: Node,
    slices: Iterable[tuple[ResourceSlice, tuple[Device, ...]]],
    dra: Allocation,
    pods: Mapping[str, Pod],
    readings: list[DeviceReading],
) -> Published:
    """`pods`: those on the node that are not finished, by key. Readings are matched by UUID or PCI address."""
    slices = list(slices)
    found = [((s.driver, s.pool, d.name), d) for s, devices in slices for d in devices]
    if not found:
        return Published()
    boards = {key: _board(key, device) for key, device in found}
    join = _Join(readings, {d.text("uuid"): d for _, d in found if d.text("uuid")})
    health = {
        d.device: d.health for p in pods.values() for d in p.devices if d.resource.startswith(CLAIM_STATUS)
    }
    shown = _without_overlaps(found, _totals(slices), dra)
    gpus = [_gpu(node, key, device, dra, pods, join, health) for key, device in shown]
    return Published(
        gpus=tuple(gpus),
        boards=frozenset(boards.values()),
        uuids=frozenset(u for _, d in found for u in (d.text("uuid"), d.text("parentUUID")) if u),
    )


def _board(key: Key, device: Device) -> str:
    parent = device.text("parentUUID") or ("" if device.text("type") == "mig" else device.text("uuid"))
    return parent or "/".join((*key[:2], next(iter(device.counters), device.name)))


def _totals(slices: Iterable[tuple[ResourceSlice, tuple[Device, ...]]]) -> dict[Key, float]:
    """(driver/pool, counter set, counter) -> what the board has of it."""
    return {
        (f"{s.driver}/{s.pool}", name, counter): amount
        for s, _ in slices
        for name, counters in s.counters.items()
        for counter, amount in counters.items()
    }


def _without_overlaps(
    found: list[tuple[Key, Device]], left: dict[Key, float], dra: Allocation
) -> list[tuple[Key, Device]]:
    """The held devices, then the largest others that the counters still allow. A passed-through GPU (vfio) is the same
    board once more: it counts while it is held.
    """
    held = [pair for pair in found if pair[0] in dra.claims_on]
    for key, device in held:
        _take(key, device, left)
    others = [p for p in found if p[0] not in dra.claims_on and p[1].text("type") != "vfio"]
    others.sort(
        key=lambda p: -sum(amount for counters in p[1].counters.values() for amount in counters.values())
    )
    kept = [pair for pair in others if _take(*pair, left)]
    order = {key: place for place, (key, _) in enumerate(found)}
    return sorted([*held, *kept], key=lambda pair: order[pair[0]])


def _take(key: Key, device: Device, left: dict[Key, float]) -> bool:
    """Take the device's share of its counters out of `left`, if it is there."""
    wanted = {
        (f"{key[0]}/{key[1]}", name, counter): amount
        for name, counters in device.counters.items()
        for counter, amount in counters.items()
    }
    is_there = all(left.get(place, 0.0) >= amount for place, amount in wanted.items())
    for place, amount in wanted.items() if is_there else ():
        left[place] -= amount
    return is_there


class _Join:
    """The readings of one node, to be found by device."""

    def __init__(self, readings: list[DeviceReading], devices: Mapping[str, Device]) -> None:
        self._readings = readings
        self._devices = devices

    def whole(self, uuid: str, pci: str | None) -> DeviceReading | None:
        return next(
            (
                r
                for r in self._readings
                if r.mig_instance is None and ((uuid and r.uuid == uuid) or (pci and r.pci == pci))
            ),
            None,
        )

    def board_pci(self, parent: str) -> str | None:
        """PCI address of a partition's board: from its own device, or from a reading."""
        device = self._devices.get(parent)
        known = pci_of(device) if device is not None else None
        return known or next((r.pci for r in self._readings if parent and r.uuid == parent and r.pci), None)

    def partition(self, parent: str, profile: str, holders: tuple[str, ...]) -> DeviceReading | None:
        """Metrics name a MIG instance by board, profile and pod: the one of its holder, or the only one."""
        alike = [
            r
            for r in self._readings
            if r.mig_instance is not None and parent and r.uuid == parent and r.mig_profile == profile
        ]
        mine = [r for r in alike if set(r.pods) & set(holders)] or alike
        return mine[0] if len(mine) == 1 and holders else None


def pci_of(device: Device) -> str | None:
    """`resource.kubernetes.io/pciBusID` as metrics spell it: lower case, eight-digit domain."""
    found = _PCI.fullmatch(device.text("pciBusID").lower())
    return f"{(found[1] or '').zfill(8)[-8:]}:{found[2]}" if found else None


def _gpu(
    node: Node,
    key: Key,
    device: Device,
    dra: Allocation,
    pods: Mapping[str, Pod],
    join: _Join,
    health: Mapping[str, str],
) -> Gpu:
    claims = dra.claims_on.get(key, [])
    holders = tuple(dict.fromkeys(pod for claim in claims for pod in claim.pods if pod in pods))
    profile = device.text("profile")
    uuid, parent, pci = device.text("uuid"), device.text("parentUUID"), pci_of(device)
    if profile:
        pci = pci or join.board_pci(parent)
        reading = join.partition(parent, profile, holders)
    else:
        reading = join.whole(uuid, pci)
        pci = pci or (reading.pci if reading is not None else None)
    board = pci or parent or uuid
    if profile and board:
        instance = f"mig-{reading.mig_instance}" if reading is not None else device.name
        slot = f"{node.name}/{board}/{instance}"
    else:
        slot = f"{node.name}/{board or '/'.join(key)}"
    number = _NUMBER.match(device.name)
    said = health.get("/".join(key))
    is_shut = any(taint.effect in SHUTS_OUT for taint in device.taints)
    told = holders or (reading.pods if reading is not None and not dra.claims else ())
    return Gpu(
        slot=slot,
        node=node.name,
        index=reading.index if reading is not None else int(number[1]) if number else None,
        pci=pci,
        uuid=uuid or None,
        model=device.text("productName") or node.gpu_product,
        resource=resource_name(key[0], profile),
        origin=Origin.DRA,
        mig_profile=profile or None,
        mig_instance=reading.mig_instance if reading is not None else None,
        device="/".join(key),
        taints=device.taints,
        claims=tuple(claim.key for claim in claims),
        is_healthy=False if is_shut or said == "Unhealthy" else True if said == "Healthy" else None,
        holders=told,
        holder_source="claim" if holders else "metric label" if told else "",
        metrics=reading.metrics if reading is not None else None,
        window=reading.window if reading is not None else None,
    )
