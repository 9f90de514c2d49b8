"""Which links the GPUs of one job have between them, as far as the labels of their nodes tell."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.picture import NodeLine
from diagnostics.text import counted, listed, printable


@dataclass(frozen=True, kw_only=True)
class Link:
    """One kind of link, nearest first."""

    kind: str
    words: str
    is_unknown: bool = False
    is_slowest: bool = False
    """Whatever all its GPUs exchange passes this one."""


def links_of(places: Sequence[tuple[NodeLine, int]]) -> tuple[Link, ...]:
    """Of a job that has this many GPUs on each of these nodes. Empty for fewer than two GPUs.

    A link counts where two of the GPUs have nothing nearer between them. Where a label is missing the way between
    nodes is unknown, unless one NVLink domain spans them.
    """
    found = []
    inside = [node for node, number in places if number > 1]
    if inside:
        is_sxm = all("SXM" in (node.model or "").upper() for node in inside)
        words = "NVLink inside a node" if is_sxm else "NVLink or PCIe inside a node"
        found.append(Link(kind="node", words=f"{words}, on {counted(len(inside), 'node')}"))
    nodes = [node for node, _ in places]
    found += _domains(nodes) + _racks(nodes)
    if found:
        slowest = found[-1]
        found[-1] = Link(
            kind=slowest.kind, words=slowest.words, is_unknown=slowest.is_unknown, is_slowest=True
        )
    return tuple(found)


def _domains(nodes: Sequence[NodeLine]) -> list[Link]:
    shared = {name for name, members in _by(nodes, "nvlink_domain").items() if name and len(members) > 1}
    if not shared:
        return []
    return [Link(kind="nvlink", words=f"NVLink across the nodes of {_named('domain', shared)}")]


def _racks(nodes: Sequence[NodeLine]) -> list[Link]:
    domains = _by(nodes, "nvlink_domain")
    if len(domains) == 1 and None not in domains:
        return []  # one domain spans them, or it is one node
    if len(nodes) < 2:
        return []
    found = []
    racks, zones = _by(nodes, "rack"), _by(nodes, "zone")
    unlabelled = racks.pop(None, [])
    zones.pop(None, None)
    inside = {name for name, members in racks.items() if name and _needs_network(members)}
    if inside:
        found.append(Link(kind="rack", words=f"network inside {_named('rack', inside)}"))
    if unlabelled:
        words = f"network between hosts; which racks, is unknown: {counted(len(unlabelled), 'node')} without a label"
        found.append(Link(kind="unknown", words=words, is_unknown=True))
    if len(racks) > 1:
        found.append(Link(kind="racks", words=f"network between {_named('rack', set(racks))}"))
    if len(zones) > 1:
        found.append(Link(kind="zones", words=f"network between {_named('zone', set(zones))}"))
    return found


def _needs_network(members: Sequence[NodeLine]) -> bool:
    """Some two of them have no NVLink between them."""
    domains = {node.nvlink_domain for node in members}
    return len(members) > 1 and (len(domains) > 1 or None in domains)


def _by(nodes: Sequence[NodeLine], label: str) -> dict[str | None, list[NodeLine]]:
    found: dict[str | None, list[NodeLine]] = defaultdict(list)
    for node in nodes:
        found[getattr(node, label) or None].append(node)
    return dict(found)


def _named(noun: str, names: "set[str] | set[str | None]") -> str:
    words = listed(sorted(printable(name, 80) for name in names if name), 4)
    return f"{noun} {words}" if len(names) == 1 else f"{noun}s {words}"
