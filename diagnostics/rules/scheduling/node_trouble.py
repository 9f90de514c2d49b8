"""What speaks against sending a pod to a node, as far as the snapshot shows it; other findings have the details."""

from collections.abc import Iterator

from diagnostics.limits import Limits
from diagnostics.placement import Room
from diagnostics.quantities import span
from diagnostics.rules.scheduling.board import Board, Trouble
from diagnostics.snapshot import Gpu, Node, Pod, Snapshot
from diagnostics.text import counted, printable
from diagnostics.xid import lookup


def trouble_behind(pod: Pod, room: Room, board: Board) -> Trouble | None:
    """What speaks against this pod on this node, and whether enough that is well is left; None: nothing does.

    A device plugin gives out healthy GPUs only; one with a fatal Xid it may still give out.
    """
    node, snapshot = room.node, board.snapshot
    words = node_trouble(node, snapshot, board.limits)
    if not words:
        return None
    if not pod.gpus:
        return Trouble(words)
    name = max(pod.gpus, key=lambda resource: pod.gpus[resource])
    total = board.fitted(node, name) or node.capacity.get(name, 0.0)
    gpus = snapshot.gpus_by_node.get(node.name, [])
    bad = sum(g.is_healthy is False or any(_fatal_xids([g], snapshot, board.limits)) for g in gpus)
    given_out = max(0.0, bad - (total - node.allocatable.get(name, 0.0)))
    healthy = max(0.0, room.free.get(name, 0.0) - given_out)
    is_up = node.is_ready is not False and not node.unschedulable
    return Trouble(
        words,
        f"{healthy:.0f} of {total:.0f} GPUs healthy and free",
        is_up and not given_out and not room.lacks(pod.effective_requests),
    )


def node_trouble(node: Node, snapshot: Snapshot, limits: Limits) -> str:
    """`gpu-12: GPU 7 had Xid 48 6 min ago`; empty for a node of which nothing bad is known."""
    found = [
        *_of_the_node(node, snapshot),
        *_fatal_xids(snapshot.gpus_by_node.get(node.name, []), snapshot, limits),
    ]
    return f"{printable(node.name, 80)}: {', '.join(dict.fromkeys(found))}" if found else ""


def _of_the_node(node: Node, snapshot: Snapshot) -> Iterator[str]:
    if node.is_ready is False:
        yield "it is not Ready"
    if node.unschedulable:
        yield "it is cordoned"
    lost = sum(gpu.is_healthy is False for gpu in snapshot.gpus_by_node.get(node.name, []))
    if lost:
        yield f"{counted(lost, 'GPU')} not healthy or not allocatable"


def _fatal_xids(gpus: list[Gpu], snapshot: Snapshot, limits: Limits) -> Iterator[str]:
    """Xids after which a GPU needs a reset, a reboot or a replacement, within `xid_recent`."""
    for gpu in gpus:
        seen = (*(gpu.window.xids if gpu.window else ()), *snapshot.past.xids.get(gpu.slot, ()))
        for code in sorted({xid.code for xid in seen}):
            row = lookup(code)
            dated = [
                xid.last_at
                for xid in seen
                if xid.code == code and xid.last_at and row is not None and row.is_fatal_with(xid.message)
            ]
            age = snapshot.age(max(dated, default=None))
            if age is not None and age <= limits.site.xid_recent:
                name = f"GPU {gpu.index}" if gpu.index is not None else f"GPU {gpu.pci or gpu.uuid}"
                yield f"{printable(name, 60)} had Xid {code} {span(age)} ago"
