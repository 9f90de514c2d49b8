"""What tools say of single boards: a handle that is gone, remapped rows, links that are down.

Shapes: `nvidia-smi`, its `-q` and `nvlink --status` output; NVML's error texts.
"""

from diagnostics.signatures.grammar import Signature

_PCI = r"(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"

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
        pattern=rf"(?:GPU {_PCI}(?:(?!GPU [0-9a-fA-F]{{8}}:)[^|]){{0,5000}}?)?Remapped Rows",
        fields={
            "correctable": r"(?<![A-Za-z])Correctable Error : (?P<correctable_count>\d{1,6})",
            "uncorrectable": r"Uncorrectable Error : (?P<uncorrectable_count>\d{1,6})",
            "pending": r"Pending : (?P<pending>Yes|No)",
            "failed": r"Remapping Failure Occurred : (?P<failed>Yes|No)",
        },
        before=5000,
        reach=400,
        example="Remapped Rows Correctable Error : 0 Uncorrectable Error : 4 Pending : Yes Remapping Failure "
        "Occurred : No Bank Remap Availability Histogram Max : 636 bank(s)",
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
