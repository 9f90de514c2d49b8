"""Racks, NVLink domains or zones, each with its nodes."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from diagnostics.picture import Devices, NodeLine
from diagnostics.views.maps.names import natural

LABELS: dict[str, tuple[str, Callable[[NodeLine], str | None]]] = {
    "rack": ("rack", lambda node: node.rack),
    "nvlink": ("NVLink domain", lambda node: node.nvlink_domain),
    "zone": ("zone", lambda node: node.zone),
}
"""Word of an address -> noun, and what a node's label says."""


@dataclass(frozen=True, kw_only=True)
class Group:
    name: str | None
    """None: of nodes whose label is missing."""
    nodes: tuple[NodeLine, ...]


def chosen(group: str, devices: Devices) -> str:
    """What to group by: what is asked for, else the first of rack, NVLink domain and zone that any node has."""
    if group:
        return group
    return next(
        (word for word, (_, of) in LABELS.items() if any(of(node) for node in devices.nodes)),
        "none",
    )


def groups_of(group: str, devices: Devices) -> tuple[Group, ...]:
    """In the order in which people count; nodes without the label last."""
    if group not in LABELS:
        return (Group(name=None, nodes=_sorted(list(devices.nodes))),) if devices.nodes else ()
    of = LABELS[group][1]
    found: dict[str | None, list[NodeLine]] = defaultdict(list)
    for node in devices.nodes:
        found[of(node) or None].append(node)
    names = sorted((name for name in found if name), key=natural)
    missing = [None] if None in found else []
    return tuple(Group(name=name, nodes=_sorted(found[name])) for name in (*names, *missing))


def _sorted(nodes: list[NodeLine]) -> tuple[NodeLine, ...]:
    return tuple(sorted(nodes, key=lambda node: natural(node.name)))
