"""How far apart the members of a collective job were placed, how close they could be, and where they would fit now.

P pods, a host takes `per_host` of them when empty: least = hosts needed, most = min(P, hosts that fit),
scatter = (used - least) / max(1, most - least); the same over racks and NVLink domains.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from diagnostics.placement.matching import admits
from diagnostics.placement.room import Room
from diagnostics.snapshot import Node, Pod


class Span(msgspec.Struct, frozen=True):
    """Hosts, racks or domains: how many are used, the least that could be, the most that could be."""

    used: int
    least: int
    most: int

    @property
    def ratio(self) -> float:
        """0 as tight as can be, 1 as wide as can be."""
        return (self.used - self.least) / max(1, self.most - self.least)

    @property
    def is_wide(self) -> bool:
        return self.used > self.least


class Scatter(msgspec.Struct, frozen=True):
    """The spread of one job's placed members."""

    nodes: tuple[Node, ...]
    hosts: Span
    per_host: int
    """Members that the largest host of this kind takes when empty."""
    racks: Span | None = None
    """None where the rack of some node is unknown."""
    domains: Span | None = None
    """NVLink domains over several hosts; None where there are none or some node's is unknown."""

    @property
    def crosses_without_need(self) -> bool:
        """More racks or NVLink domains are used than the job needs."""
        return any(span is not None and span.is_wide for span in (self.racks, self.domains))


def scatter_of(members: Sequence[Pod], given: Mapping[str, Room]) -> Scatter | None:
    """The spread of `members` that are bound to known nodes; None for fewer than two of them.

    Hosts of that kind are nodes with the GPU model of those used that would admit a member. Members of unequal
    size are taken at the largest, so that the least is never too small.
    """
    placed = [pod for pod in members if pod.node in given and not pod.is_finished]
    if len(placed) < 2:
        return None
    nodes = {pod.node: given[pod.node].node for pod in placed if pod.node is not None}
    models = {node.gpu_product for node in nodes.values()}
    requests = _largest(placed)
    takes = {
        name: count
        for name, room in given.items()
        if (name in nodes or (room.node.gpu_product in models and admits(placed[0], room.node)))
        and (count := room.emptied().takes(requests)) > 0
    }
    if not takes:
        return None
    used = sorted(nodes.values(), key=lambda n: n.name)
    return Scatter(
        nodes=tuple(used),
        hosts=_span(len(used), list(takes.values()), len(placed)),
        per_host=max(takes.values()),
        racks=_span_over(used, takes, given, len(placed), lambda node: node.rack),
        domains=_span_over(used, takes, given, len(placed), lambda node: node.nvlink_domain),
    )


def _span(used: int, capacities: list[int], pods: int) -> Span:
    least, left = 0, pods
    for capacity in sorted(capacities, reverse=True):
        if left <= 0:
            break
        least, left = least + 1, left - capacity
    if left > 0:  # what some hosts take is not known: nothing says that fewer would do
        least = used
    return Span(used, min(least, used), max(used, min(pods, len(capacities))))


def _span_over(
    used: list[Node],
    takes: Mapping[str, int],
    given: Mapping[str, Room],
    pods: int,
    place_of: Callable[[Node], str | None],
) -> Span | None:
    places = {place_of(node) for node in used}
    if None in places:
        return None
    capacity: dict[str, int] = defaultdict(int)
    for name, count in takes.items():
        place = place_of(given[name].node)
        if place is not None:
            capacity[place] += count
    return _span(len(places), list(capacity.values()), pods)


def _largest(pods: Iterable[Pod]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pod in pods:
        for name, amount in pod.effective_requests.items():
            found[name] = max(found.get(name, 0.0), amount)
    return found


def possible_placement(members: Sequence[Pod], given: Mapping[str, Room]) -> dict[str, int] | None:
    """Node -> members on it, in the tightest placement that is possible now; None when there is none.

    The members' own GPUs count as free. Fewest hosts first, then fewest racks, then zones. Anti-affinity and spread
    constraints among the members are not applied: this is what would be possible without them.
    """
    if not members:
        return None
    keys, requests = [pod.key for pod in members], _largest(members)
    own = {pod.node for pod in members}
    within: dict[tuple[str, str], list[tuple[Room, int]]] = defaultdict(list)
    for room in given.values():
        if room.node.name not in own and not admits(members[0], room.node):
            continue
        left = room.without(keys) if room.node.name in own else room
        count = left.takes(requests)
        if count <= 0:
            continue
        within["all", ""].append((left, count))
        for scope, place in (("domain", room.node.nvlink_domain), ("rack", room.node.rack)):
            if place is not None:
                within[scope, place].append((left, count))
    packed = [found for group in within.values() if (found := _packed(len(members), group)) is not None]
    return min(packed, key=lambda found: _width(found, given), default=None)


def _width(found: Mapping[str, int], given: Mapping[str, Room]) -> tuple[int, int, int, list[str]]:
    nodes = [given[name].node for name in found]
    racks, zones = {n.rack or n.name for n in nodes}, {n.zone for n in nodes}
    return len(nodes), len(racks), len(zones), sorted(found)


def _packed(pods: int, group: Iterable[tuple[Room, int]]) -> dict[str, int] | None:
    """Greedy: the host that takes most goes first, the fullest of them at a tie."""
    group = list(group)
    if sum(count for _, count in group) < pods:
        return None
    left, found = pods, {}
    ranked = sorted(group, key=lambda pair: (-min(pods, pair[1]), _free(pair[0]), pair[0].node.name))
    for room, takes in ranked:
        count = min(left, takes)
        found[room.node.name] = count
        left -= count
        if left <= 0:
            break
    return found


def _free(room: Room) -> float:
    return sum(amount for name, amount in room.free.items() if "/" in name)
