"""One job on the map: where its GPUs are, which links they have between them, and what is wrong with it."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from diagnostics.picture import Devices, NodeLine, Owner
from diagnostics.views.maps.crossing import Link, links_of
from diagnostics.views.maps.names import natural
from diagnostics.views.open_findings import FindingLine
from diagnostics.views.page import node_url

NODES_SHOWN = 12
FINDINGS_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node that the job has GPUs on."""

    name: str
    url: str
    gpus: int


@dataclass(frozen=True, kw_only=True)
class Selection:
    owner: Owner
    url: str
    """Of its page; empty where its name allows none."""
    gpus: int
    shared: int
    """Of these, GPUs that others hold too."""
    places: tuple[Place, ...]
    more_places: int
    nodes: int
    spread: tuple[tuple[str, int | None], ...]
    """(noun, number) of racks, NVLink domains and zones; None where a label is missing. Domains over several nodes are
    rare: they are left out where no node has one."""
    links: tuple[Link, ...]
    collective: str | None
    """The evidence that its pods talk to each other; empty where there is none, None where that is not known."""
    findings: tuple[FindingLine, ...]
    more_findings: int
    findings_url: str


def selection_of(
    slug: str, owner: Owner, devices: Devices, findings: Iterable[FindingLine], collective: str | None
) -> Selection:
    """Of a job that may hold nothing (any more)."""
    place = next((at for at, other in enumerate(devices.owners) if other == owner), None)
    held = [
        (node, mine)
        for node in sorted(devices.nodes, key=lambda node: natural(node.name))
        if place is not None and (mine := [cell for cell in node.gpus if place in cell.owners])
    ]
    counted = [(node, len(mine)) for node, mine in held]
    about = [finding for finding in findings if finding.owner == owner]
    return Selection(
        owner=owner,
        url=_url(slug, owner),
        gpus=sum(number for _, number in counted),
        shared=sum(len(set(cell.owners)) > 1 for _, mine in held for cell in mine),
        places=tuple(
            Place(name=node.name, url=node_url(slug, node.name), gpus=number)
            for node, number in counted[:NODES_SHOWN]
        ),
        more_places=max(0, len(counted) - NODES_SHOWN),
        nodes=len(counted),
        spread=_spread([node for node, _ in counted]),
        links=links_of(counted),
        collective=collective,
        findings=tuple(about[:FINDINGS_SHOWN]),
        more_findings=max(0, len(about) - FINDINGS_SHOWN),
        findings_url=f"{reverse('finding_list', args=[slug])}?"
        + urlencode({"namespace": owner.namespace, "q": owner.name}),
    )


def _spread(nodes: list[NodeLine]) -> tuple[tuple[str, int | None], ...]:
    labels = (
        ("rack", [node.rack for node in nodes]),
        ("NVLink domain", [node.nvlink_domain for node in nodes]),
        ("zone", [node.zone for node in nodes]),
    )
    return tuple(
        (noun, len(set(names)) if all(names) else None)
        for noun, names in labels
        if any(names) or noun != "NVLink domain"
    )


def _url(slug: str, owner: Owner) -> str:
    try:
        return reverse("workload_detail", args=[slug, owner.kind, owner.namespace, owner.name])
    except NoReverseMatch:
        return ""  # whatever metrics call a pod, an address may not hold
