"""Facts of GPU models that metrics do not carry.

Board power limits: vendor datasheet maxima in watts, as gathered in the DCGM reference; used only where the exporter
does not report an enforced limit.
"""

POWER_LIMIT_W: tuple[tuple[str, float], ...] = (
    ("GB200", 1200.0),
    ("B200", 1000.0),
    ("H200", 700.0),
    ("H100 PCIE", 350.0),
    ("H100", 700.0),
    ("A100-SXM", 400.0),
    ("A100-PCIE-40", 250.0),
    ("A100", 300.0),
    ("V100", 300.0),
    ("L40S", 350.0),
    ("A30", 165.0),
    ("A10G", 150.0),
    ("A10", 150.0),
    ("L4", 72.0),
    ("T4", 70.0),
    ("MI300X", 750.0),
    ("MI250X", 560.0),
    ("MI210", 300.0),
)
"""(part of the model's name, watts), the more specific part first."""


def power_limit_w(model: str | None) -> float | None:
    """Datasheet power limit of a model (`NVIDIA A100-SXM4-80GB`), None for an unknown one."""
    if not model:
        return None
    name = model.upper()
    spaced = name.replace("-", " ")
    return next((watts for part, watts in POWER_LIMIT_W if part in name or part in spaced), None)


MIG_SLICES: tuple[tuple[str, int], ...] = (
    ("A30", 4),
    ("RTX PRO 6000", 4),
    ("RTX PRO 5000", 2),
    ("RTX PRO 4500", 2),
)
"""(part of the model's name, compute slices of a whole board); every other board that can be cut has 7."""


def mig_slices(model: str | None) -> int:
    """Compute slices into which MIG can cut a board.

    Source: NVIDIA MIG user guide, "Supported GPUs" and "Supported MIG Profiles": the largest number of instances.
    """
    name = (model or "").upper().replace("-", " ")
    return next((slices for part, slices in MIG_SLICES if part in name), 7)


_WITHOUT_NVLINK = ("T4", "L4", "L40", "L40S", "L20", "L2", "A2", "A10", "A10G", "A16", "P4", "P40")
"""Boards without an NVLink connector, by the word in the model's name (vendor datasheets)."""


def has_nvlink(model: str | None) -> bool | None:
    """False for boards that have no NVLink at all; None where the model does not decide it (bridges are optional on
    PCIe boards) or is not known.
    """
    words = (model or "").upper().replace("-", " ").split()
    return False if any(word in _WITHOUT_NVLINK for word in words) else None
