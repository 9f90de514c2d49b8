"""Dynamic resource allocation: what is claimed, from which template, and which devices were given."""

from dataclasses import dataclass, field

from diagnostics.simulator.devices import Device, SimNode
from diagnostics.simulator.workloads import Json

DRIVER = "gpu.nvidia.com"
IS_GPU = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"


@dataclass(frozen=True)
class SimDeviceClaim:
    """A claim, or a template (`is_template`) that claims are made from."""

    namespace: str
    name: str
    request: Json
    """What stands under `exactly`."""
    is_template: bool = False
    given: tuple[Device, ...] = ()
    pod: str = ""
    """Name of the pod that it is kept for."""
    pod_uid: str = ""


@dataclass
class Dra:
    """All of it in one cluster."""

    nodes: set[str] = field(default_factory=set)
    """Nodes whose GPUs a DRA driver gives out; no device plugin runs there."""
    is_driver_up: bool = True
    classes: dict[str, Json] = field(default_factory=dict)
    """Name -> spec."""
    claims: list[SimDeviceClaim] = field(default_factory=list)
    taints: dict[str, Json] = field(default_factory=dict)
    """By UUID of the device."""

    def take_over(self, node: SimNode) -> None:
        """The driver gives out the GPUs of this node from now on."""
        self.nodes.add(node.name)
        self.classes.setdefault(DRIVER, {"selectors": [{"cel": {"expression": IS_GPU}}]})
        node.is_claimed = True
        node.labels["nvidia.com/gpu.deploy.device-plugin"] = "false"


def exactly(count: int = 1, device_class: str = DRIVER, *selectors: str) -> Json:
    """A request for so many devices."""
    chosen = {"selectors": [{"cel": {"expression": one}} for one in selectors]} if selectors else {}
    return {"deviceClassName": device_class, **chosen, "allocationMode": "ExactCount", "count": count}
