"""Where a waiting pod may run: which nodes have such GPUs, which of them admit it, and what is free there."""

from functools import cached_property

import msgspec

from diagnostics.placement.matching import admits, selects
from diagnostics.placement.room import Room, fitted, rooms
from diagnostics.snapshot import Node, Pod, Snapshot


class Reach(msgspec.Struct, frozen=True):
    """The nodes that have the GPUs that a pod asks for."""

    resource: str
    """The one of which it asks for most."""
    offering: tuple[Room, ...]
    """All of them."""
    selected: tuple[Room, ...]
    """Those that its selector and affinity match."""
    admitting: tuple[Room, ...]
    """Of these, those whose taints it tolerates, and that are neither cordoned for it nor down."""

    @property
    def shares(self) -> list[float]:
        """What is free of `resource` on each node that admits it, in their order."""
        return [max(0.0, room.free.get(self.resource, 0.0)) for room in self.admitting]


class NodeRooms:
    """The nodes of one snapshot, looked at for all waiting pods together."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._fitted: dict[tuple[str, str], float | None] = {}

    @cached_property
    def rooms(self) -> dict[str, Room]:
        """Room of each node now; empty where nodes could not be read."""
        return rooms(self.snapshot)

    def fitted(self, node: Node, resource: str) -> float | None:
        """`placement.fitted`, computed once for each node and resource."""
        key = (node.name, resource)
        if key not in self._fitted:
            self._fitted[key] = fitted(node, resource, self.snapshot.past)
        return self._fitted[key]

    def capacity_left(self, pod: Pod, room: Room) -> bool | None:
        """False: the node has none of a GPU resource that the pod asks for. None: some, number unknown."""
        found = [self.fitted(room.node, name) for name in pod.gpus]
        if any(amount == 0 for amount in found):
            return False
        return None if any(amount is None for amount in found) else True

    def reach(self, pod: Pod) -> Reach:
        """Of a pod that asks for GPUs by resource."""
        offering = [room for room in self.rooms.values() if self.capacity_left(pod, room) is not False]
        selected = tuple(room for room in offering if selects(pod, room.node))
        return Reach(
            resource=max(pod.gpus, key=lambda resource: pod.gpus[resource]),
            offering=tuple(offering),
            selected=selected,
            admitting=tuple(room for room in selected if admits(pod, room.node)),
        )
