"""How the boards of one node are cut (MIG), and how many boards it has."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from diagnostics.models import ChangeKind, Device
from diagnostics.topology.changes import Changes
from diagnostics.topology.nodes import Nodes
from diagnostics.topology.places import Places
from diagnostics.topology.slots import REST, UNNAMED, instance_board, naming

NO_MIG = "no MIG"


def note_layout(places: Places, nodes: Nodes, changes: Changes) -> bool:
    """Bring the node's model, number of boards and MIG layout up to date; True when the layout is another one."""
    row = places.seen.row
    is_told = not (nodes.is_first or places.seen.is_quiet)
    if not places.rows:  # the plugin says nothing: what was fitted still is
        return bool(places.gone) and any(gone.mig_profile for gone in places.gone)
    had_gpus = row.gpus > 0
    is_cut_anew = _note_mig(places, nodes, changes, is_told=is_told and had_gpus)
    count = boards_of(places)
    if is_told and had_gpus and count != row.gpus and not is_cut_anew:
        changes.add(ChangeKind.GPU_COUNT_CHANGED, row, row.name, row.gpus, count)
    model = next((device.model for device in places.rows.values() if device.model), "")
    nodes.assign(row, gpus=count, most_gpus=max(count, row.most_gpus), model=model or row.model)
    return is_cut_anew


def _note_mig(places: Places, nodes: Nodes, changes: Changes, *, is_told: bool) -> bool:
    row, now = places.seen.row, layout_of(places.rows.values())
    if now is None or now == row.mig_layout:
        return False
    before, after = _by_board(places.before.values()), _by_board(places.rows.values())
    common = before.keys() & after.keys()
    is_explained = any(before.values()) and all(before[key] == after[key] for key in common)
    earlier = row.mig_layout
    nodes.assign(row, mig_layout=now)
    if is_explained:  # a board that came or went took its instances along
        return False
    if is_told:
        changes.add(ChangeKind.MIG_CHANGED, row, row.name, earlier or NO_MIG, now or NO_MIG)
    return True


def layout_of(rows: Iterable[Device]) -> str | None:
    """`7x1g.10gb, 1x3g.40gb`; empty without MIG; None where the profile of an instance is unknown."""
    profiles: Counter[str] = Counter()
    for row in rows:
        if row.mig_profile:
            profiles[row.mig_profile] += 1
        elif instance_board(row.slot):
            return None
    return ", ".join(f"{count}x{profile}" for profile, count in sorted(profiles.items()))[:300]


def _by_board(rows: Iterable[Device]) -> dict[str, Counter[str]]:
    """Board -> its instances by profile; all unnamed places count as one board."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.slot.endswith(REST):
            continue
        on = instance_board(row.slot) or ("" if naming(row.slot) == UNNAMED else row.slot)
        found[on].update([row.mig_profile] if row.mig_profile else [])
    return found


def boards_of(places: Places) -> int:
    """Physical GPUs: the named ones, the unnamed, and as many as the slices of unnamed instances need.

    Under the MIG strategy `mixed` feature discovery counts the boards, too.
    """
    named: set[str] = set()
    whole, slices = 0, 0.0
    for row in places.rows.values():
        on = instance_board(row.slot)
        if on is not None:
            named.add(on)
        elif row.mig_profile:
            slices += row.parts / row.whole
        else:
            whole += 1
    labels = places.seen.node.labels
    told = places.seen.node.gpu_count_label if labels.get("nvidia.com/mig.strategy") == "mixed" else None
    return max(len(named) + whole + -int(-slices // 1), told or 0)
