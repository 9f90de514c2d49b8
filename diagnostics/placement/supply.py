"""Devices that claims could be given (dynamic resource allocation), in the scheduler's arithmetic.

A request is met by devices that its class and its own selectors pick, that no claim holds, whose taints it tolerates,
and whose counters still allow them beside what is held (API reference, resource.k8s.io/v1). Requests are tried in turn
without going back, which is what the scheduler finds in all but contrived cases.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product

import msgspec

from diagnostics.placement.selectors import Selectors
from diagnostics.snapshot import Allocation
from diagnostics.snapshot.resource_claims import Attribute, Demand, Device, DeviceRequest

MOST_CHOICES = 16
"""Combinations of alternatives (`firstAvailable`) that are tried."""
SHUTS_OUT = frozenset({"NoSchedule", "NoExecute"})

Counter = tuple[str, str, str, str]
"""Driver, pool, counter set, counter."""


class Unit(msgspec.Struct, frozen=True):
    """One device and where it is."""

    driver: str
    pool: str
    node: str
    """Empty where every node, or some nodes, reach it."""
    device: Device

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.driver, self.pool, self.device.name)

    @property
    def counters(self) -> Iterator[tuple[Counter, float]]:
        for name, counters in self.device.counters.items():
            for counter, amount in counters.items():
                yield (self.driver, self.pool, name, counter), amount


class Match(msgspec.Struct, frozen=True, dict=True):
    """The devices that one request could get, whoever holds them."""

    of_class: tuple[Unit, ...] = ()
    units: tuple[Unit, ...] = ()
    """Those of the class that the request's own selectors pick too."""
    but_for_memory: tuple[Unit, ...] = ()
    """Those that it would pick if they had more memory; looked for only where it picks none."""
    is_known: bool = True
    """False where a selector could not be evaluated here: then nothing of this is certain."""

    @cached_property
    def _by_node(self) -> dict[str, list[Unit]]:
        found: dict[str, list[Unit]] = defaultdict(list)
        for unit in self.units:
            found[unit.node].append(unit)
        return found

    @cached_property
    def nodes(self) -> frozenset[str]:
        """Names of the nodes that have such devices of their own."""
        return frozenset(name for name in self._by_node if name)

    def on(self, node: str) -> list[Unit]:
        """Those that the node has, or reaches."""
        return [*self._by_node.get(node, ()), *self._by_node.get("", ())]


class Supply:
    """All that drivers publish, and what is left of it."""

    def __init__(self, dra: Allocation) -> None:
        self.dra = dra
        self._selectors = Selectors()
        self._matches: dict[tuple[str, tuple[str, ...]], Match] = {}

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        return tuple(
            Unit(one.driver, one.pool, device.node or one.node, device)
            for one in self.dra.current
            for device in one.devices
        )

    @cached_property
    def drivers(self) -> frozenset[str]:
        """Drivers that publish any device."""
        return frozenset(unit.driver for unit in self.units)

    @cached_property
    def held(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(self.dra.claims_on)

    @cached_property
    def totals(self) -> dict[Counter, float]:
        return {
            (one.driver, one.pool, name, counter): amount
            for one in self.dra.current
            for name, counters in one.counters.items()
            for counter, amount in counters.items()
        }

    @cached_property
    def left(self) -> dict[Counter, float]:
        """What is left of the counters beside the devices that are held."""
        found = dict(self.totals)
        for unit in self.units:
            if unit.key in self.held:
                for counter, amount in unit.counters:
                    found[counter] = found.get(counter, 0.0) - amount
        return found

    def match(self, request: DeviceRequest) -> Match:
        """The devices for a request without alternatives. A class that is not there picks none."""
        key = (request.device_class, request.selectors)
        if key not in self._matches:
            self._matches[key] = self._match(request)
        return self._matches[key]

    def _match(self, request: DeviceRequest) -> Match:
        known = self.dra.class_by_name.get(request.device_class)
        if known is None:
            return Match()
        of_class, sure = self._picked(self.units, known.selectors)
        units, also_sure = self._picked(of_class, request.selectors)
        larger: tuple[Unit, ...] = ()
        if not units and of_class:
            larger, _ = self._picked(of_class, request.selectors, has_memory=True)
        return Match(of_class, units, larger, sure and also_sure)

    def _picked(
        self, units: Sequence[Unit], expressions: Sequence[str], *, has_memory: bool = False
    ) -> tuple[tuple[Unit, ...], bool]:
        kept, is_known = [], True
        for unit in units:
            answers = [
                self._selectors.meets(one, unit.driver, unit.device, has_memory=has_memory)
                for one in expressions
            ]
            if all(answers):
                kept.append(unit)
            elif all(answer is not False for answer in answers):
                is_known = False
        return tuple(kept), is_known

    def fits(
        self, node: str, demands: Sequence[Demand], *, empty: bool = False, tainted: bool = False
    ) -> bool:
        """Whether all demands can be met on the node now. `empty`: as if no claim held anything; `tainted`: as if no
        device had a taint.
        """
        for choice in choices(demands):
            taken: set[tuple[str, str, str]] = set()
            there = [
                u for demand in choice for request in demand.requests for u in self.match(request).on(node)
            ]
            known = self.totals if empty else self.left
            left = {counter: known.get(counter, 0.0) for unit in there for counter, _ in unit.counters}
            if all(self._take(node, one, taken, left, empty=empty, tainted=tainted) for one in choice):
                return True
        return False

    def available(
        self, node: str, request: DeviceRequest, *, empty: bool = False, tainted: bool = False
    ) -> list[Unit]:
        """Devices on the node that the request could get, each by itself."""
        left = self.totals if empty else self.left
        return [
            unit
            for unit in self.match(request).on(node)
            if (empty or unit.key not in self.held)
            and (tainted or not untolerated(request, unit.device))
            and all(left.get(counter, 0.0) >= amount for counter, amount in unit.counters)
        ]

    def _take(
        self,
        node: str,
        demand: Demand,
        taken: set[tuple[str, str, str]],
        left: dict[Counter, float],
        *,
        empty: bool,
        tainted: bool,
    ) -> bool:
        for request in demand.requests:
            if request.is_admin:
                continue
            there = self.match(request).on(node)
            free = [
                u for u in self.available(node, request, empty=empty, tainted=tainted) if u.key not in taken
            ]
            if request.wants_all and (not there or len(free) < len(there)):
                return False
            need = len(there) if request.wants_all else request.count
            groups = _alike(free, demand, request)
            if not any(_from(group, need, taken, left) for group in groups):
                return False
        return True


def _alike(free: list[Unit], demand: Demand, request: DeviceRequest) -> list[list[Unit]]:
    """The free devices in groups within which the constraints hold, the largest group first."""
    wanted = [c.attribute for c in demand.alike if not c.requests or request.name in c.requests]
    if not wanted:
        return [free]
    groups: dict[tuple[Attribute | None, ...], list[Unit]] = defaultdict(list)
    for unit in free:
        values = tuple(unit.device.attributes.get(name) for name in wanted)
        if None not in values:
            groups[values].append(unit)
    return sorted(groups.values(), key=len, reverse=True)


def _from(
    group: Sequence[Unit], need: int, taken: set[tuple[str, str, str]], left: dict[Counter, float]
) -> bool:
    """Take `need` devices of the group, if its counters allow so many; else take none."""
    after = dict(left)
    chosen: list[tuple[str, str, str]] = []
    for unit in group:
        if len(chosen) == need:
            break
        amounts = list(unit.counters)
        if all(after.get(counter, 0.0) >= amount for counter, amount in amounts):
            for counter, amount in amounts:
                after[counter] -= amount
            chosen.append(unit.key)
    if len(chosen) < need:
        return False
    taken.update(chosen)
    left.update(after)
    return True


def choices(demands: Sequence[Demand]) -> Iterator[list[Demand]]:
    """The demands with one alternative chosen for each request, the preferred ones first."""
    requests = [(demand, request) for demand in demands for request in demand.requests]
    options = [request.alternatives or (request,) for _, request in requests]
    for number, chosen in enumerate(product(*options)):
        if number == MOST_CHOICES:
            return
        picked = iter(chosen)
        yield [
            msgspec.structs.replace(
                demand,
                requests=tuple(
                    msgspec.structs.replace(next(picked), name=request.name) for request in demand.requests
                ),
            )
            for demand in demands
        ]


def untolerated(request: DeviceRequest, device: Device) -> bool:
    """Whether a taint keeps the device from this request."""
    return any(
        taint.effect in SHUTS_OUT and not any(t.tolerates(taint) for t in request.tolerations)
        for taint in device.taints
    )
