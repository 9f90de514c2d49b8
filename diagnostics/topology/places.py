"""The places of one node: which rows its devices have, what each is now, what it weighs, and which are gone."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from diagnostics.models import Device
from diagnostics.snapshot import Gpu
from diagnostics.storable import storable_text
from diagnostics.topology import slices
from diagnostics.topology.matching import matched
from diagnostics.topology.nodes import SeenNode
from diagnostics.topology.rows import assign
from diagnostics.topology.slices import WHOLE_BOARD, Weight
from diagnostics.topology.slots import REST, board, instance_board, naming, profile_of

LONGEST_SLOT = 600


class Places:
    """One node's devices at one poll, beside their rows."""

    def __init__(self, seen: SeenNode, before: Mapping[str, Device], gpus: list[Gpu], at: datetime) -> None:
        """`before`: slot -> row that was live before this poll."""
        self.seen, self.before, self.at = seen, before, at
        storable = (gpu for gpu in gpus if gpu.slot == storable_text(gpu.slot, LONGEST_SLOT))
        self.gpus = tuple({gpu.slot: gpu for gpu in storable}.values())
        self.rests = {s.removesuffix(REST): row for s, row in before.items() if s.endswith(REST)}
        """Slot of a board -> its slices that no instance uses."""
        known = {s: row for s, row in before.items() if not s.endswith(REST)} if self.rests else before
        self.rows, self.new = matched(known, self.gpus, self._profile)
        """Slot of the snapshot -> row, and the devices that have none among those that were live."""
        self.uuids_before = {board(slot): row.uuid for slot, row in before.items() if row.uuid}
        """Slot of a board -> UUID that sat there at the last poll."""
        self.uuids_earlier: dict[str, str] = {}
        """The same of places that come back: what sat there when they went."""
        self.created: set[int] = set()
        """Identities (`id`) of rows that never were before."""
        self.superseded: set[int] = set()
        """Identities of unnamed rows that turned out to be a place that has a row of its own from earlier."""
        self.gone: list[Device] = []
        self.changed: dict[int, Device] = {}

    def _profile(self, gpu: Gpu) -> str:
        return storable_text(profile_of(gpu, self.seen.node), 40)

    @property
    def needs_earlier_rows(self) -> bool:
        """A place is new, is called by a better name, or a board is cut anew: an earlier row may be meant."""
        if self.new or len(self.rows) + len(self.rests) != len(self.before):
            return True
        return any(self._is_renamed(gpu, row) or self._is_recut(gpu, row) for gpu, row in self._pairs())

    def _pairs(self) -> Iterator[tuple[Gpu, Device]]:
        return ((gpu, self.rows[gpu.slot]) for gpu in self.gpus if gpu.slot in self.rows)

    def _is_renamed(self, gpu: Gpu, row: Device) -> bool:
        return row.slot != gpu.slot and naming(gpu.slot) > naming(row.slot)

    def _is_recut(self, gpu: Gpu, row: Device) -> bool:
        return bool(row.mig_profile or gpu.mig_profile) and self._profile(gpu) != row.mig_profile

    def settle(self, earlier: dict[str, Device]) -> None:
        """Give every device its row, and every row its facts. `earlier`: removed rows of this node by slot."""
        is_cut_anew = len(self.rows) + len(self.rests) != len(self.before) or bool(self.new)
        self._find_earlier(earlier)
        is_cut_anew |= bool(self.superseded)
        for gpu in self.new:
            self.rows[gpu.slot] = self._created(gpu.slot)
        for gpu in self.gpus:
            is_cut_anew |= self._describe(gpu, self.rows[gpu.slot])
        self._forget_other_boards()
        if is_cut_anew:
            self._weigh(earlier)
            kept = {id(row) for row in (*self.rows.values(), *self.rests.values())}
            self.gone = [row for row in self.before.values() if id(row) not in kept]
            for row in self.gone:
                self.assign(row, removed_at=self.at)

    def _find_earlier(self, earlier: dict[str, Device]) -> None:
        """Places that come back: by their slot; on a node that comes back also by board and count."""
        if not earlier:
            return
        for gpu, row in list(self._pairs()):
            if self._is_renamed(gpu, row) and gpu.slot in earlier:
                self.superseded.add(id(row))
                self.rows[gpu.slot] = self._revived(earlier.pop(gpu.slot))
                if row.lost_at is not None:
                    self.assign(self.rows[gpu.slot], lost_at=row.lost_at)
        if not self.new:
            return
        back = {slot: row for slot, row in earlier.items() if not slot.endswith(REST)}
        if not self.seen.is_quiet:
            wanted = {gpu.slot for gpu in self.new}
            back = {slot: row for slot, row in back.items() if slot in wanted}
        found, self.new = matched(back, self.new, self._profile)
        for slot, row in found.items():
            self.rows[slot] = self._revived(earlier.pop(row.slot))

    def _created(self, slot: str) -> Device:
        row = Device(
            cluster=self.seen.row.cluster,
            node=self.seen.row,
            slot=slot,
            first_seen=self.at,
            last_seen=self.at,
        )
        self.created.add(id(row))
        self.changed[id(row)] = row
        return row

    def _revived(self, row: Device) -> Device:
        if row.uuid:
            self.uuids_earlier[board(row.slot)] = row.uuid
        # Which board sits there now is unknown until it says so: the old one may be elsewhere.
        self.assign(row, removed_at=None, last_seen=self.at, node=self.seen.row, uuid="")
        return row

    def _describe(self, gpu: Gpu, row: Device) -> bool:
        """Bring the row up to date with what the device says; True when its weight may be another."""
        is_named_so, is_renamed = row.slot == gpu.slot, False
        if self._is_renamed(gpu, row):
            if board(row.slot) in self.uuids_before:
                self.uuids_before[board(gpu.slot)] = self.uuids_before.pop(board(row.slot))
            self.assign(row, slot=gpu.slot)
            is_named_so = is_renamed = True
        if gpu.uuid and gpu.uuid != row.uuid and (is_named_so or not row.uuid):
            self.assign(row, uuid=storable_text(gpu.uuid, 80))
        if gpu.resource != row.resource:
            self.assign(row, resource=storable_text(gpu.resource, 120))
        model = (gpu.model if gpu.metrics is not None else "") or row.model or gpu.model or ""
        profile = self._profile(gpu)
        if not profile and instance_board(row.slot):
            profile = row.mig_profile
        if model == row.model and profile == row.mig_profile:
            return is_renamed
        self.assign(row, model=storable_text(model, 120), mig_profile=profile)
        return True

    def _forget_other_boards(self) -> None:
        """A place has one board: where one of its devices names it, a silent one is not of the board before."""
        said = {id(row): row for gpu, row in self._pairs() if gpu.uuid and row.uuid and row.slot == gpu.slot}
        uuids = {board(row.slot): row.uuid for row in said.values()}
        for row in self.rows.values():
            if id(row) not in said and row.uuid != uuids.get(board(row.slot), row.uuid):
                self.assign(row, uuid="")

    def _weigh(self, earlier: dict[str, Device]) -> None:
        """Whole boards weigh 1; the instances of a board share it with what none of them uses."""
        cut: dict[str, list[Device]] = defaultdict(list)
        for row in self.rows.values():
            on = instance_board(row.slot)
            if on is not None:
                cut[on].append(row)
            else:
                weight = slices.alone(row.mig_profile, row.model) if row.mig_profile else WHOLE_BOARD
                self._give(row, weight)
        rests: dict[str, Device] = {}
        for on, rows in cut.items():
            # Those that stay come first and keep their slices; a cut in time costs nothing, but why make one.
            rows.sort(key=lambda row: (id(row) in self.created, row.offset, _instance_order(row.slot)))
            weights, left = slices.side_by_side([row.mig_profile for row in rows], rows[0].model)
            for row, weight in zip(rows, weights, strict=True):
                self._give(row, weight)
            if left is not None:
                rests[on] = self._rest(on, rows[0], left, earlier)
        self.rests = rests

    def _rest(self, on: str, beside: Device, weight: Weight, earlier: dict[str, Device]) -> Device:
        slot = f"{on}{REST}"
        row = self.rests.get(on)
        if row is None:
            found = earlier.pop(slot, None)
            row = self._created(slot) if found is None else self._revived(found)
        self.assign(row, model=beside.model)
        self._give(row, weight)
        return row

    def _give(self, row: Device, weight: Weight) -> None:
        self.assign(row, offset=weight.offset, parts=weight.parts, whole=weight.whole)

    def assign(self, row: Device, **values: object) -> None:
        """Give the row these values, and have it written when one is new."""
        if assign(row, values):
            self.changed[id(row)] = row


def _instance_order(slot: str) -> tuple[int, str]:
    """GPU instances are numbered."""
    number = slot.rpartition("/mig-")[2]
    return (int(number) if number.isdecimal() else 0, number)
