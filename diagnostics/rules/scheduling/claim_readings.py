"""Why the device claims of a waiting pod are not allocated: from claims, classes and what drivers publish.

The scheduler says the same words, "cannot allocate all claims", for a shortage, for a selector that picks nothing and
for a tainted device; so each is computed, and its words decide only where claims or devices could not be read.
"""

from collections.abc import Mapping, Sequence

import msgspec

from diagnostics.findings import Evidence
from diagnostics.placement import Room, selects
from diagnostics.placement.supply import Supply, choices, untolerated
from diagnostics.rules.scheduling.board import Board, Reading
from diagnostics.rules.scheduling.claim_matches import SLICES, picks_nothing
from diagnostics.rules.scheduling.claim_missing import missing_class, missing_object
from diagnostics.rules.scheduling.places import hurdle, kept_out, no_label_matches
from diagnostics.rules.scheduling.refusals import Refusal, Word
from diagnostics.rules.scheduling.shortages import stranded
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.snapshot.resource_claims import Demand, DeviceRequest
from diagnostics.text import counted, listed, printable


def claims_reading(pod: Pod, board: Board, words: Refusal | None) -> Reading | None:
    """What its claims wait for; None where it has none, or where they are not what it waits for."""
    snapshot = board.snapshot
    served = served_resources(pod, snapshot)
    if not pod.resource_claims and not served:
        return None
    if words is not None and words.past_resources is not None and not words.mentions(Word.CLAIM):
        return None
    reading = missing_object(pod, snapshot, words) or _unmet(pod, board, served)
    return None if reading is None else msgspec.structs.replace(reading, claim_api=_api(snapshot))


def _api(snapshot: Snapshot) -> str:
    """The version in which this cluster serves claims; empty where that is not known."""
    return next((api.api_version for api in snapshot.apis if api.resource == "resourceclaims"), "")


def _unmet(pod: Pod, board: Board, served: Mapping[str, Demand]) -> Reading | None:
    """Claims that are there, and not allocated."""
    snapshot = board.snapshot
    is_readable = snapshot.source(Source.CLAIMS).state.is_usable and not snapshot.dra.unread
    demands = [d for d in (*_demands(pod, snapshot), *served.values()) if d.requests]
    if not is_readable or not demands:
        return None
    return missing_class(demands, pod, snapshot) or _by_devices(pod, demands, board, frozenset(served))


def served_resources(pod: Pod, snapshot: Snapshot) -> dict[str, Demand]:
    """Extended resources that a DeviceClass serves, as the scheduler turns them into a claim, where no device plugin
    offers them on any node."""
    found = {}
    for name, amount in pod.effective_requests.items():
        known = snapshot.dra.class_serving(name) if "/" in name and amount > 0 else None
        if known is not None and not any(node.capacity.get(name) for node in snapshot.nodes):
            request = DeviceRequest(name=name, device_class=known.name, count=int(amount))
            found[name] = Demand(requests=(request,))
    return found


def _demands(pod: Pod, snapshot: Snapshot) -> list[Demand]:
    """Of its claims that are not allocated yet."""
    found = []
    for name in pod.resource_claims:
        claim = snapshot.dra.claim_by_key.get(f"{pod.namespace}/{name}")
        if claim is not None and not claim.is_allocated:
            found.append(claim.demand)
    return found


def _by_devices(pod: Pod, demands: Sequence[Demand], board: Board, served: frozenset[str]) -> Reading | None:
    """Class and claim are there: which devices they pick, and who keeps these."""
    supply = board.supply
    readings = [
        reading
        for demand in demands
        for request in demand.requests
        if not any(supply.match(one).units for one in request.alternatives or (request,))
        and (reading := picks_nothing(request, pod, supply)) is not None
    ]
    if readings:
        return readings[0]
    options = list(choices(demands))
    wanted = [request for choice in options for demand in choice for request in demand.requests]
    if not all(supply.match(request).is_known for request in wanted):
        return Reading(
            "claim-not-allocatable",
            "its device claim cannot be allocated",
            None,
            False,
            facts=_asks(demands, pod),
        )
    facts = (*_asks(demands, pod), *_stock(wanted, supply))
    where = {name for request in wanted for name in supply.match(request).nodes}
    offering = [board.rooms[name] for name in sorted(where) if name in board.rooms]
    if not offering:
        return Reading(
            "claim-not-allocatable", "its device claim cannot be allocated", None, False, facts=facts
        )
    return _among(pod, demands, offering, board, facts, served)


def _among(
    pod: Pod,
    demands: Sequence[Demand],
    offering: list[Room],
    board: Board,
    facts: tuple[Evidence, ...],
    served: frozenset[str],
) -> Reading:
    """The dominant reason among the nodes that have such devices."""
    supply = board.supply
    selected = [room for room in offering if selects(pod, room.node)]
    if not selected:
        return no_label_matches(pod, offering).with_facts(*facts)
    big = [r for r in selected if supply.fits(r.node.name, demands, empty=True, tainted=True)]
    if not big:
        return _larger(demands, selected, supply, facts)
    open_rooms = [room for room in big if not hurdle(pod, room)]
    if not open_rooms:
        return kept_out(pod, big, board).with_facts(*facts)
    requests = {name: n for name, n in pod.effective_requests.items() if name not in served}
    enough = [room for room in open_rooms if supply.fits(room.node.name, demands)]
    lacking = {room.node.name: missing for room in enough if (missing := room.lacks(requests))}
    names = tuple(room.node.name for room in open_rooms)
    if enough and len(lacking) == len(enough):
        return stranded(lacking, facts)
    if enough:
        there = [room.node.name for room in enough if room.node.name not in lacking]
        words = (
            f"the devices that it asks for are free on {listed([printable(n, 80) for n in there], 3)}; its scheduler "
            "has not tried again, or refuses for a reason of its own"
        )
        return Reading("fits-now", words, is_sure=False, facts=facts, places=tuple(there))
    tainted = _tainted(demands, names, supply, facts)
    if tainted is not None:
        return tainted
    pieces = _pieces(demands, names, supply)
    if pieces is not None:
        need, free = pieces
        if sum(amount > 0 for amount in free) > 1 and sum(free) >= need:
            words = f"{counted(sum(free), 'such device')} are free, but in pieces on several nodes"
            return Reading("fragmented", words, True, facts=facts, places=names)
    return Reading(
        "no-capacity", "every device that its claim could get is held", True, facts=facts, places=names
    )


def _larger(
    demands: Sequence[Demand], selected: Sequence[Room], supply: Supply, facts: tuple[Evidence, ...]
) -> Reading:
    request = max(
        (r for choice in choices(demands) for demand in choice for r in demand.requests),
        key=lambda r: r.count,
    )
    most = max(len(supply.available(r.node.name, request, empty=True, tainted=True)) for r in selected)
    words = (
        f"its claim asks for {counted(request.count, 'device')}, and no matching node has more than {most}"
    )
    if most >= request.count:
        words = "no single node could ever meet its claims together with their constraints"
    return Reading(
        "larger-than-any-node",
        words,
        True,
        facts=facts,
        places=tuple(room.node.name for room in selected),
        names=(request.device_class,),
        most=most,
    )


def _tainted(
    demands: Sequence[Demand], names: Sequence[str], supply: Supply, facts: tuple[Evidence, ...]
) -> Reading | None:
    """Devices that are free and tainted would be enough."""
    there = [name for name in names if supply.fits(name, demands, tainted=True)]
    wanted = [r for choice in choices(demands) for demand in choice for r in demand.requests]
    found = {
        unit.key: unit
        for name in there
        for request in wanted
        for unit in supply.available(name, request, tainted=True)
        if untolerated(request, unit.device)
    }
    if not found:
        return None
    shown = [
        f"{printable(unit.pool, 80)}/{printable(unit.device.name, 80)} "
        + listed([printable(f"{t.key}={t.value}:{t.effect}", 120) for t in unit.device.taints])
        for unit in found.values()
    ]
    where = listed([printable(name, 80) for name in there], 3)
    words = f"devices on {where} that would be enough are tainted: {listed(shown, 3)}"
    rows = (*facts, Evidence("tainted devices", listed(shown, 8), source=SLICES))
    return Reading("device-tainted", words, True, facts=rows, places=tuple(there), nodes=tuple(there))


def _pieces(demands: Sequence[Demand], names: Sequence[str], supply: Supply) -> tuple[int, list[int]] | None:
    """(asked for, free on each node) where a single request is all there is."""
    requests = [request for demand in demands for request in demand.requests]
    if len(requests) != 1 or requests[0].alternatives or requests[0].wants_all:
        return None
    return requests[0].count, [len(supply.available(name, requests[0])) for name in names]


def _asks(demands: Sequence[Demand], pod: Pod) -> tuple[Evidence, ...]:
    shown = []
    for demand in demands:
        for request in demand.requests:
            parts = [_spelled(one) for one in request.alternatives or (request,)]
            shown.append(" or ".join(parts))
        shown += [f"all with one {printable(c.attribute, 80)}" for c in demand.alike]
    return (Evidence("its claims ask for", listed(shown, 6), source=f"claims of pod {pod.key}"),)


def _spelled(request: DeviceRequest) -> str:
    number = "all" if request.wants_all else str(request.count)
    chosen = f" with {printable(' && '.join(request.selectors), 200)}" if request.selectors else ""
    return f"{number} of class {printable(request.device_class, 80)}{chosen}"


def _stock(wanted: Sequence[DeviceRequest], supply: Supply) -> tuple[Evidence, ...]:
    """Per node, how many such devices there are and how many of them are free."""
    request = wanted[0]
    match = supply.match(request)
    rows = sorted(
        ((len(supply.available(name, request)), len(match.on(name)), name) for name in match.nodes),
        key=lambda row: (-row[0], row[2]),
    )
    shown = [f"{printable(name, 80)} {free} of {there}" for free, there, name in rows[:6]]
    more = [f"{len(rows) - 6} more nodes"] if len(rows) > 6 else []
    free = sum(row[0] for row in rows)
    return (Evidence("free of such devices", f"{free} ({listed([*shown, *more], 7)})", "devices", SLICES),)
