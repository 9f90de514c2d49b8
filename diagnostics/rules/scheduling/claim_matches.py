"""Device claims whose class or selector picks none of the devices that drivers publish."""

import re

from diagnostics.findings import Evidence
from diagnostics.placement.supply import Match, Supply
from diagnostics.quantities import gib
from diagnostics.rules.scheduling.board import Reading
from diagnostics.snapshot import Pod
from diagnostics.snapshot.resource_claims import DeviceRequest
from diagnostics.text import counted, listed, printable

_DRIVER = re.compile(r"device\.driver\s*==\s*[\"']([^\"']+)[\"']")
SLICES = "ResourceSlices of the drivers"


def picks_nothing(request: DeviceRequest, pod: Pod, supply: Supply) -> Reading | None:
    """No device at all is picked: driver, class selector, own selector, or memory."""
    options = request.alternatives or (request,)
    matches = [(one, supply.match(one)) for one in options]
    if not all(match.is_known for _, match in matches):
        return None
    one, match = next((pair for pair in matches if pair[1].of_class), matches[0])
    name = printable(one.device_class, 120)
    if not match.of_class:
        return _class_picks_nothing(one, name, pod, supply)
    shown = Evidence(
        "selector", printable(" && ".join(one.selectors), 600), source=f"the claim of pod {pod.key}"
    )
    names = (one.device_class,)
    devices = Evidence("devices of the class", str(len(match.of_class)), "devices", SLICES)
    if match.but_for_memory:
        most = max(_memory(unit.device.capacity) for unit in match.but_for_memory)
        fact = Evidence("most memory of such a device", gib(most), source=SLICES)
        words = (
            f"no device of class {name} has as much memory as its claim asks for; the largest has {gib(most)}"
        )
        return Reading.told(
            "device-memory-too-small", words, shown, devices, fact, is_shortage=True, names=names
        )
    words = f"its claim's selector picks none of the {counted(len(match.of_class), 'device')} of class {name}"
    return Reading.told(
        "claim-selector-matches-no-device", words, shown, devices, *_values(one, match), names=names
    )


def _class_picks_nothing(one: DeviceRequest, name: str, pod: Pod, supply: Supply) -> Reading:
    selectors = supply.dra.class_by_name[one.device_class].selectors
    drivers = sorted({m[1] for text in selectors for m in _DRIVER.finditer(text)})
    published = listed([printable(driver, 80) for driver in sorted(supply.drivers)], 8) or "none"
    facts = (
        Evidence(
            "selector of the class", printable(" && ".join(selectors), 600), source=f"DeviceClass {name}"
        ),
        Evidence("drivers that publish devices", published, source=SLICES),
    )
    if (drivers or not supply.drivers) and not supply.drivers & set(drivers):
        driver = listed([printable(d, 80) for d in drivers]) or "a driver"
        words = f"{driver} publishes no device on any node: the DRA driver of class {name} is not there or does not run"
        return Reading.told(
            "dra-driver-missing", words, *facts, is_shortage=True, names=(one.device_class, *drivers)
        )
    words = f"no published device belongs to the device class {name}"
    return Reading.told("claim-selector-matches-no-device", words, *facts)


def _values(request: DeviceRequest, match: Match) -> tuple[Evidence, ...]:
    """What the devices have of the attributes that the selector names."""
    text = " ".join(request.selectors)
    found: dict[str, set[str]] = {}
    for unit in match.of_class:
        for key, value in unit.device.attributes.items():
            name = key.rpartition("/")[2]
            if re.search(rf"\b{re.escape(name)}\b", text):
                found.setdefault(name, set()).add(str(value))
    return tuple(
        Evidence(
            f"{printable(name, 80)} of these",
            listed([printable(v, 80) for v in sorted(values)], 6),
            source=SLICES,
        )
        for name, values in sorted(found.items())
        if name not in {"uuid", "pciBusID"}
    )[:4]


def _memory(capacity: dict[str, float]) -> float:
    return next((amount for key, amount in capacity.items() if key.rpartition("/")[2] == "memory"), 0.0)
