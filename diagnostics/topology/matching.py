"""Which row is a device's place: by its slot, and where that fails by board and by count.

A board that is silent at one poll is counted under an unnamed slot, or named by the UUID that pod status carries. It
is still the same place: nothing was lost, nothing is doubled.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from diagnostics.models import Device
from diagnostics.snapshot import Gpu
from diagnostics.topology.slots import BY_ADDRESS, BY_INDEX, BY_UUID, UNNAMED, family, instance_board, naming

type Kind = tuple[str, str]
"""Resource (shared or not) and MIG profile: devices of one kind can stand for each other."""


def matched(
    rows: Mapping[str, Device], gpus: Sequence[Gpu], profile: Callable[[Gpu], str]
) -> tuple[dict[str, Device], list[Gpu]]:
    """Slot of the snapshot -> row, for the devices of one node, and the devices that have no row yet.

    `rows`: slot -> live row. Each row is given to one device at most.
    """
    found = {gpu.slot: rows[gpu.slot] for gpu in gpus if gpu.slot in rows}
    if len(found) == len(gpus):
        return found, []
    left = {slot: row for slot, row in rows.items() if slot not in found}
    unknown = [gpu for gpu in gpus if gpu.slot not in found]
    unknown = _by_uuid(left, unknown, found)
    unknown.sort(key=lambda gpu: -naming(gpu.slot))
    by_kind: dict[Kind, list[Device]] = defaultdict(list)
    for row in sorted(left.values(), key=lambda row: (naming(row.slot), row.slot)):
        by_kind[family(row.resource), row.mig_profile].append(row)
    new: list[Gpu] = []
    for gpu in unknown:
        candidates = by_kind[family(gpu.resource), profile(gpu)]
        place = next((row for row in candidates if _may_be(row, gpu)), None)
        if place is None:
            new.append(gpu)
            continue
        candidates.remove(place)
        found[gpu.slot] = place
    return found, new


def _by_uuid(left: dict[str, Device], unknown: list[Gpu], found: dict[str, Device]) -> list[Gpu]:
    """Whole boards under another name for the same UUID; gives those that remain."""
    owners = {row.uuid: row for row in left.values() if row.uuid and instance_board(row.slot) is None}
    remaining: list[Gpu] = []
    for gpu in unknown:
        row = owners.get(gpu.uuid or "")
        if row is None or gpu.mig_instance or not _is_same_address(row.slot, gpu.slot):
            remaining.append(gpu)
            continue
        found[gpu.slot] = row
        del left[row.slot], owners[row.uuid]
    return remaining


def _is_same_address(one: str, other: str) -> bool:
    """Two PCI addresses are two places: a board that moved between them is a change."""
    return BY_ADDRESS not in (naming(one), naming(other)) or one == other or naming(one) != naming(other)


def _may_be(row: Device, gpu: Gpu) -> bool:
    """Nothing says that the row's place is another one than the device's."""
    names = {naming(row.slot), naming(gpu.slot)}
    if UNNAMED in names:
        return True
    if len(names) == 1:
        return False
    if not row.uuid or not gpu.uuid or row.mig_profile:
        return BY_UUID in names or BY_INDEX in names
    return row.uuid == gpu.uuid
