"""What speaks against sending a pod to a node, as far as the snapshot shows it; other findings have the details."""

from collections.abc import Iterator

from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.snapshot import Gpu, Node, Snapshot
from diagnostics.text import counted, printable
from diagnostics.xid import lookup


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
