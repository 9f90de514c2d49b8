"""Which GPUs a filter leaves."""

from collections.abc import Callable

from diagnostics.picture import Devices, GpuCell, NodeLine
from diagnostics.views.maps.asked import NOT_EVALUATED, Asked

Matcher = Callable[[NodeLine], tuple[bool, ...]]
"""Of each GPU of a node: it matches."""


def matcher_of(asked: Asked, devices: Devices) -> Matcher:
    """A GPU matches when all that is asked of its node, its state and its holders is true of it."""
    owners = _owners(asked, devices)
    words = tuple(asked.q.lower().split())
    texts = [f"{o.kind} {o.namespace}/{o.name}".lower() for o in devices.owners] if words else []

    def matches(cell: GpuCell, words: list[str]) -> bool:
        if asked.state and (cell.state.value if cell.state else NOT_EVALUATED) != asked.state:
            return False
        if owners is not None and owners.isdisjoint(cell.owners):
            return False
        if not words:
            return True
        text = "\n".join((*(texts[owner] for owner in cell.owners), *cell.holders)).lower()
        return all(word in text for word in words)

    def of_node(node: NodeLine) -> tuple[bool, ...]:
        if not asked.is_filtered:
            return (True,) * len(node.gpus)
        if asked.model and node.model != asked.model:
            return (False,) * len(node.gpus)
        # A word may be true of the node; the others must be of the GPU's holders.
        left = [word for word in words if word not in _text(node)] if words else []
        return tuple([matches(cell, left) for cell in node.gpus])

    return of_node


def _owners(asked: Asked, devices: Devices) -> frozenset[int] | None:
    """Places of the owners that are asked for; None: of all, and of nobody."""
    if not asked.namespace and not asked.workload:
        return None
    wanted = asked.owner if asked.workload else None
    return frozenset(
        place
        for place, owner in enumerate(devices.owners)
        if (not asked.namespace or owner.namespace == asked.namespace)
        and (not asked.workload or owner == wanted)
    )


def _text(node: NodeLine) -> str:
    facts = (node.name, node.rack, node.zone, node.nvlink_domain, node.model, *node.troubles)
    return "\n".join(fact for fact in facts if fact).lower()
