"""One spelling for the PCI addresses of boards, which kernel, DCGM and NVML all write differently."""

import re

_PCI = re.compile(r"(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


def pci_address(text: str) -> str | None:
    """`00000000:0f:00.0` from any spelling (`0F:00.0`, `0000:0f:00`, `PCI:0000:0F:00`); else None."""
    found = _PCI.fullmatch(text.strip())
    if found is None:
        return None
    domain, bus, device, function = found.groups()
    return f"{domain or '0':0>8}:{bus}:{device}.{function or '0'}".lower()
