"""Reads the names of slots: whose board it is, how well it is named, and which profile an instance has. Pure."""

import re

from diagnostics.snapshot import Gpu, Node

REST = "/mig-rest"
"""Ends the slot of the slices of a board that no instance uses."""
_INSTANCE = re.compile(r"(?s)(.+/[^/#]+)/mig-[^/#]+\Z")
_PRODUCT_PROFILE = re.compile(r"-MIG-(\d+g\.\d+gb[^-]*)")

UNNAMED, BY_INDEX, BY_UUID, BY_ADDRESS = range(4)


def instance_board(slot: str) -> str | None:
    """Slot of the board on which a named MIG instance lies; None for everything else."""
    if "/mig-" not in slot:
        return None
    found = _INSTANCE.match(slot)
    return found[1] if found else None


def board(slot: str) -> str:
    """Slot of the board: its own, or that of the board on which the instance lies."""
    return instance_board(slot) or slot


def naming(slot: str) -> int:
    """How well the place is named: not at all, by the exporter's index, by the board's UUID, by its PCI address."""
    name = board(slot).rpartition("/")[2]
    if "#" in name:
        return UNNAMED
    if name.startswith(("GPU-", "MIG-")):
        return BY_UUID
    return BY_INDEX if re.fullmatch(r"gpu\w*", name) else BY_ADDRESS


def profile_of(gpu: Gpu, node: Node | None) -> str:
    """MIG profile as resource names spell it (`1g.10gb.me`), empty for a whole GPU or where nothing says.

    From the metrics, the resource (strategy mixed), or the product label (strategy single, where every GPU of the
    node is an instance of one profile).
    """
    if gpu.mig_profile:
        return gpu.mig_profile.replace("+", ".")
    if "/mig-" in gpu.resource:
        return gpu.resource.partition("/mig-")[2].removesuffix(".shared")
    if gpu.metrics is None and node is not None:
        found = _PRODUCT_PROFILE.search(node.labels.get("nvidia.com/gpu.product", ""))
        return found[1] if found else ""
    return ""


def family(resource: str) -> str:
    """The resource whether or not it is shared: `nvidia.com/gpu.shared` is `nvidia.com/gpu`."""
    return resource.removesuffix(".shared")
