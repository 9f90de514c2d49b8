"""What tools say of single boards: a handle that is gone, remapped rows, links that are down.

Shapes: `nvidia-smi`, its `-q` and `nvlink --status` output; NVML's error texts.
"""

from diagnostics.signatures.grammar import Signature

_PCI = r"(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
_UNDER = rf"(?:GPU {_PCI}(?:(?!GPU [0-9a-fA-F]{{8}}:)[^|]){{0,6000}}?)?"
"""The heading of a board's part of `nvidia-smi -q`, where it is in the log."""

SIGNATURES = (
    Signature(
        name="gpu-handle-lost",
        needles=("termine the device handle",),
        pattern=rf"[Uu]nable to determine the device handle for (?:[Gg][Pp][Uu] ?)?(?:(?P<gpu_index>\d{{1,3}}): )?"
        rf"(?:{_PCI}: ?)?(?P<why>(?:Unknown Error|GPU is lost|Not Found|Timeout)[^\n]{{0,80}})",
        before=20,
        reach=240,
        example="Unable to determine the device handle for GPU0000:5F:00.0: Unknown Error",
    ),
    Signature(
        name="nvidia-smi-err",
        needles=("ERR!",),
        pattern=rf"{_PCI} (?:On|Off|N/A) ?\|[^:]{{0,200}}?ERR!",
        before=240,
        reach=40,
        example="| 3 NVIDIA A100-SXM4-80GB On | 00000000:47:00.0 Off | ERR! | |ERR! ERR! ERR! ERR! / ERR! | "
        "1MiB / 81920MiB | ERR! Default |",
    ),
    Signature(
        name="no-devices-found",
        needles=("No devices were found", "No devices found!"),
        pattern=r"No devices (?:were )?found(?:!|(?! ?\. Waiting)\.?)",
        is_repeated=True,
        example="No devices were found",
    ),
    Signature(
        name="remapped-rows",
        needles=("Remapped Rows",),
        pattern=_UNDER + r"Remapped Rows",
        fields={
            "correctable": r"(?<![A-Za-z])Correctable Error : (?P<correctable_count>\d{1,6})",
            "uncorrectable": r"Uncorrectable Error : (?P<uncorrectable_count>\d{1,6})",
            "pending": r"Pending : (?P<pending>Yes|No)",
            "failed": r"Remapping Failure Occurred : (?P<failed>Yes|No)",
        },
        before=6200,
        reach=400,
        example="Remapped Rows Correctable Error : 0 Uncorrectable Error : 4 Pending : Yes Remapping Failure "
        "Occurred : No Bank Remap Availability Histogram Max : 636 bank(s)",
    ),
    Signature(
        name="page-retirement",
        needles=("Pending Page Blacklist", "Pending Page Retirement"),
        pattern=_UNDER + r"Pending Page (?:Blacklist|Retirement) : (?P<pending>Yes|No)",
        before=6200,
        reach=60,
        example="Retired Pages Single Bit ECC : 2 Double Bit ECC : 1 Pending Page Blacklist : Yes",
    ),
    Signature(
        name="clock-reasons",
        needles=("Clocks Throttle Reasons", "Clocks Event Reasons"),
        pattern=_UNDER + r"Clocks (?:Throttle|Event) Reasons(?= Idle| GPU Idle)",
        fields={
            "hw_thermal": r"HW Thermal Slowdown : (?P<hw_thermal>Active|Not Active)",
            "power_brake": r"HW Power Brake Slowdown : (?P<power_brake>Active|Not Active)",
            "sw_thermal": r"SW Thermal Slowdown : (?P<sw_thermal>Active|Not Active)",
            "hw_slowdown": r"HW Slowdown : (?P<hw_slowdown>Active|Not Active)",
        },
        before=6200,
        reach=560,
        example="Clocks Event Reasons Idle : Not Active Applications Clocks Setting : Not Active SW Power Cap : Not "
        "Active HW Slowdown : Active HW Thermal Slowdown : Active HW Power Brake Slowdown : Not Active Sync Boost : "
        "Not Active SW Thermal Slowdown : Not Active",
    ),
    Signature(
        name="pcie-link",
        needles=("GPU Link Info",),
        pattern=_UNDER
        + r"GPU Link Info PCIe Generation Max : (?P<gen_max_count>\d) Current : (?P<gen_count>\d)"
        r"(?: [A-Z][a-z]+ [A-Z][a-z]+ : \S{1,8}){0,4} Link Width Max : (?P<width_max_count>\d{1,2})x "
        r"Current : (?P<width_count>\d{1,2})x",
        before=6200,
        reach=320,
        example="GPU Link Info PCIe Generation Max : 4 Current : 4 Device Current : 4 Device Max : 4 Host Max : 4 "
        "Link Width Max : 16x Current : 8x",
    ),
    Signature(
        name="nvlink-active",
        needles=("GB/s",),
        pattern=r"Link \d{1,2}: [\d.]{1,9} GB/s",
        before=24,
        reach=8,
        is_repeated=True,
        example="Link 0: 26.562 GB/s",
    ),
    Signature(
        name="nvlink-inactive",
        needles=("inactive>",),
        pattern=r"Link (?P<link_index>\d{1,2}): <inactive>",
        before=20,
        reach=12,
        example="Link 3: <inactive>",
    ),
)
