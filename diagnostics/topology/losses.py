"""GPUs of one node that can no longer be given to pods, or can again."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from diagnostics.models import ChangeKind, Device
from diagnostics.snapshot import Gpu
from diagnostics.topology.changes import Changes
from diagnostics.topology.places import Places
from diagnostics.topology.slots import REST, board, family, instance_board

BEING_CUT = {"pending", "rebooting"}
"""States of `nvidia.com/mig.config.state` while the MIG manager works: the device plugin is down on purpose."""


def note_losses(
    places: Places, changes: Changes, moved: Mapping[str, str], *, is_first: bool, is_cut_anew: bool
) -> None:
    """Mark the rows that are lost or found, and tell of those whose node was there before.

    `moved`: UUID -> slot of the board's new place. `is_cut_anew`: another MIG layout explains what vanished.
    """
    if places.seen.node.labels.get("nvidia.com/mig.config.state") in BEING_CUT:
        return
    lost, found = _shifts(places)
    known = [row for row in lost if id(row) not in places.created]
    for row in lost:
        places.assign(row, lost_at=places.at)
    for row in found:
        places.assign(row, lost_at=None)
    if is_cut_anew:
        for row in places.gone:
            places.assign(row, lost_at=None)
    else:
        known += _vanished(places)
    if is_first or places.seen.is_quiet:
        return
    node = places.seen.row
    for slot, uuid in _subjects(known, places):
        after = f"now in {moved[uuid]}" if uuid in moved else ""
        changes.add(ChangeKind.GPU_LOST, node, slot, uuid, after)
    for slot, uuid in _subjects(found, places):
        changes.add(ChangeKind.GPU_FOUND, node, slot, "", uuid)


def _shifts(places: Places) -> tuple[list[Device], list[Device]]:
    """Rows that became lost and rows that came back.

    Where only the allocatable count says that a GPU is lost, which one is a guess that can change from poll to poll:
    a guess that moves is no news.
    """
    pairs = [(gpu, places.rows[gpu.slot]) for gpu in places.gpus]
    lost = [pair for pair in pairs if pair[0].is_healthy is False and pair[1].lost_at is None]
    found = [pair for pair in pairs if pair[0].is_healthy is not False and pair[1].lost_at is not None]
    if lost and found:
        guessed = [pair for pair in lost if pair[0].holder_source != "pod status"]
        silent = [pair for pair in found if pair[0].is_healthy is None]
        moved = _by_family(guessed) & _by_family(silent)
        lost, found = _without(lost, guessed, moved), _without(found, silent, moved)
    return [row for _, row in lost], [row for _, row in found]


def _by_family(pairs: Iterable[tuple[Gpu, Device]]) -> Counter[str]:
    return Counter(family(gpu.resource) for gpu, _ in pairs)


def _without(
    pairs: list[tuple[Gpu, Device]], among: list[tuple[Gpu, Device]], counts: Counter[str]
) -> list[tuple[Gpu, Device]]:
    left, dropped = Counter(counts), set()
    for gpu, row in among:
        if left[family(gpu.resource)] > 0:
            left[family(gpu.resource)] -= 1
            dropped.add(id(row))
    return [pair for pair in pairs if id(pair[1]) not in dropped]


def _vanished(places: Places) -> list[Device]:
    """Rows without a place any more whose board is gone with them; they count as lost from now on.

    Where not one device of an instance's node is left, the device plugin says nothing: no board is known to be gone.
    """
    if not places.gone:
        return []
    boards = {board(row.slot) for row in places.rows.values()}
    gone = [
        row
        for row in places.gone
        if not row.slot.endswith(REST) and row.lost_at is None and board(row.slot) not in boards
        if id(row) not in places.superseded
        if not row.mig_profile or (boards and instance_board(row.slot))
    ]
    for row in gone:
        places.assign(row, lost_at=places.at)
    return gone


def _subjects(rows: list[Device], places: Places) -> list[tuple[str, str]]:
    """(slot, UUID) to tell of: the board, where all its instances share its fate."""
    by_board: dict[str, list[Device]] = defaultdict(list)
    for row in rows:
        by_board[board(row.slot)].append(row)
    there = Counter(board(row.slot) for row in (*places.rows.values(), *places.gone))
    there.subtract(board(row.slot) for row in places.gone if row.slot.endswith(REST))
    return [
        pair
        for slot, group in by_board.items()
        for pair in (
            [(slot, group[0].uuid)] if len(group) == there[slot] else [(row.slot, row.uuid) for row in group]
        )
    ]
