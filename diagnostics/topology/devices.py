"""All devices of one poll: loaded, settled node by node, compared, and written."""

from collections import defaultdict

from diagnostics.models import ChangeKind, Cluster, Device
from diagnostics.snapshot import Snapshot
from diagnostics.topology.changes import Changes
from diagnostics.topology.layout import note_layout
from diagnostics.topology.losses import note_losses
from diagnostics.topology.nodes import Nodes
from diagnostics.topology.places import Places
from diagnostics.topology.rows import is_old, write
from diagnostics.topology.slots import REST, board


class Devices:
    """The devices of all nodes of one poll."""

    def __init__(self, cluster: Cluster, snapshot: Snapshot, nodes: Nodes) -> None:
        self.cluster, self.at, self.nodes = cluster, snapshot.taken_at, nodes
        names = {seen.row.pk: name for name, seen in nodes.seen.items() if not seen.row._state.adding}
        before: dict[str, dict[str, Device]] = defaultdict(dict)
        self.absent: list[Device] = []
        """Live rows on nodes that this poll does not show."""
        self.moved_away: list[Device] = []
        """Those of them whose board is elsewhere now."""
        for row in Device.objects.filter(cluster=cluster, removed_at__isnull=True):
            name = names.get(row.node_id)
            if name is None:
                self.absent.append(row)
            else:
                before[name][row.slot] = row
        self.places = {
            name: Places(seen, before[name], snapshot.gpus_by_node.get(name, []), self.at)
            for name, seen in nodes.seen.items()
        }
        earlier = self._earlier(names)
        for name, places in self.places.items():
            places.settle(earlier[name])

    def _earlier(self, names: dict[int, str]) -> dict[str, dict[str, Device]]:
        """Node -> slot -> removed row, of the nodes where one may come back; no query while nothing is new."""
        found: dict[str, dict[str, Device]] = defaultdict(dict)
        wanted = [pk for pk, name in names.items() if self.places[name].needs_earlier_rows]
        if wanted:
            for row in Device.objects.filter(node__in=wanted, removed_at__isnull=False):
                found[names[row.node_id]][row.slot] = row
        return found

    def compare(self, changes: Changes) -> None:
        """Note what changed, node by node; boards that were swapped or moved first."""
        moved = self._note_boards(changes)
        for places in self.places.values():
            is_cut_anew = note_layout(places, self.nodes, changes)
            is_first = self.nodes.is_first
            note_losses(places, changes, moved, is_first=is_first, is_cut_anew=is_cut_anew)

    def _note_boards(self, changes: Changes) -> dict[str, str]:
        """Tell of boards in another place than before; gives UUID -> slot of its new place."""
        arrived = [
            (places, slot, uuid)
            for places in self.places.values()
            if places.changed
            for slot, uuid in _uuids(places).items()
            if uuid != places.uuids_before.get(slot)
        ]
        if not arrived:
            return {}
        came_from = self._left({uuid for _, _, uuid in arrived})
        for places, slot, uuid in arrived:
            self._note_arrival(changes, places, slot, uuid, came_from.get(uuid))
        moved = {uuid: slot for _, slot, uuid in arrived if uuid in came_from}
        for uuid, (origin, slot) in came_from.items():
            self._note_departure(changes, origin, slot, uuid, moved[uuid])
        return moved

    def _left(self, uuids: set[str]) -> dict[str, tuple[Places | None, str]]:
        """UUID -> where the board was before, unless it is still said to be there."""
        found: dict[str, tuple[Places | None, str]] = {
            row.uuid: (None, board(row.slot)) for row in self.absent if row.uuid in uuids
        }
        for places in self.places.values():
            for slot, uuid in places.uuids_before.items():
                if uuid in uuids and not any(
                    gpu.uuid == uuid and board(places.rows[gpu.slot].slot) == slot for gpu in places.gpus
                ):
                    found[uuid] = places, slot
        return found

    def _note_arrival(
        self,
        changes: Changes,
        places: Places,
        slot: str,
        uuid: str,
        origin: tuple[Places | None, str] | None,
    ) -> None:
        if self.nodes.is_first:
            return
        before = places.uuids_before.get(slot) or places.uuids_earlier.get(slot, "")
        if before == uuid:  # it is where it was when the place went
            before = ""
        after = f"{uuid}, was in {origin[1]}" if origin else uuid
        node = places.seen.row
        if before and not places.seen.is_quiet:
            changes.add(ChangeKind.GPU_REPLACED, node, slot, before, after)
        elif origin:
            changes.add(ChangeKind.GPU_FOUND, node, slot, f"in {origin[1]}", uuid)

    def _note_departure(
        self, changes: Changes, places: Places | None, slot: str, uuid: str, new_slot: str
    ) -> None:
        """The place that it left: empty, unless another board says that it is there now."""
        if places is None:  # its node was not read: it cannot be there
            self.moved_away += [row for row in self.absent if row.uuid == uuid]
            return
        empty = [row for row in places.rows.values() if board(row.slot) == slot and row.uuid == uuid]
        for row in empty:
            places.assign(row, uuid="")
        if empty and not (self.nodes.is_first or places.seen.is_quiet):
            changes.add(ChangeKind.GPU_REPLACED, places.seen.row, slot, uuid, f"now in {new_slot}")

    def write(self) -> None:
        """Write what changed, and once in a while when the rest was seen."""
        changed = [row for places in self.places.values() for row in places.changed.values()]
        if self.nodes.is_complete:
            for row in self.absent:
                row.removed_at, row.lost_at = self.at, None
            changed += self.absent
        else:
            for row in self.moved_away:
                row.uuid = ""
            changed += self.moved_away
        rows = [row for places in self.places.values() for row in places.rows.values()]
        if any(is_old(row.last_seen, self.at) for row in rows):
            unseen = [row.pk for row in self.absent]
            live = Device.objects.filter(cluster=self.cluster, removed_at__isnull=True)
            live.exclude(pk__in=unseen).update(last_seen=self.at)
            for row in rows:
                row.last_seen = self.at
        write(changed)

    def by_slot(self) -> dict[str, Device]:
        """Slot of the snapshot -> row, and the unused slices of boards under their own slots."""
        found: dict[str, Device] = {}
        for places in self.places.values():
            found |= places.rows
            found |= {f"{on}{REST}": row for on, row in places.rests.items()}
        return found


def _uuids(places: Places) -> dict[str, str]:
    """Slot of a board -> UUID that sits there now."""
    return {board(row.slot): row.uuid for row in places.rows.values() if row.uuid}
