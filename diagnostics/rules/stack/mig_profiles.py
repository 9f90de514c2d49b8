"""MIG profiles by GPU model: what a layout can be made of. A pure data table.

Sources: NVIDIA MIG User Guide, "Supported MIG Profiles"; mig-parted's default configurations.
"""

import re

_SEVENTHS = ("1g", "1g wide", "2g", "3g", "4g", "7g")


def _sevenths(*gib: int) -> frozenset[str]:
    """Profiles of a GPU with seven compute slices, from the memory of each size."""
    return frozenset(f"{size.split()[0]}.{memory}gb" for size, memory in zip(_SEVENTHS, gib, strict=True))


_FORTY = _sevenths(5, 10, 10, 20, 20, 40)
_EIGHTY = _sevenths(10, 20, 20, 40, 40, 80)
_NINETY_SIX = _sevenths(12, 24, 24, 48, 48, 96)

_BY_PRODUCT: tuple[tuple[str, frozenset[str]], ...] = (
    (r"A30\b", frozenset({"1g.6gb", "2g.12gb", "4g.24gb"})),
    (r"A[18]00\b.*80GB", _EIGHTY),
    (r"A[18]00\b.*40GB|A100-PCIE-40|A100-SXM4-40", _FORTY),
    (r"H[18]00\b.*NVL|H[18]00-NVL|H100.*94GB", _sevenths(12, 24, 24, 47, 47, 94)),
    (r"H[18]00\b.*80GB", _EIGHTY),
    (r"H100.*96GB|GH200.*(?:96GB|480GB)|H20\b", _NINETY_SIX),
    (r"H200", _sevenths(18, 35, 35, 71, 71, 141)),
    (r"GH200.*144", _sevenths(18, 36, 36, 72, 72, 144)),
    (r"GB300", _sevenths(35, 70, 70, 139, 139, 278)),
    (r"B300", _sevenths(34, 67, 67, 135, 135, 269)),
    (r"GB200", _sevenths(23, 47, 47, 93, 93, 186) | {"1g.24gb", "3g.95gb", "4g.95gb", "7g.189gb"}),
    (r"B200", _sevenths(23, 45, 45, 90, 90, 180)),
    (r"RTX-PRO-6000", frozenset({"1g.24gb", "2g.48gb", "4g.96gb"})),
)
_COMPILED = tuple((re.compile(pattern), profiles) for pattern, profiles in _BY_PRODUCT)
_NO_MIG = re.compile(
    r"(?:^|[-\s])(?:T4|V100|P100|P40|K80|L4|L40S?|A10G?|A16|A2|A40|RTX-A\d+|GeForce)(?:$|[-\s])"
)
_PROFILE = re.compile(r"\b(\d+g\.\d+gb)")


def supported(product: str) -> frozenset[str] | None:
    """Profiles of a GPU model as feature discovery names it, without attributes such as `+me`; an empty set for a
    model without MIG, None for one that is not known here."""
    if _NO_MIG.search(product):
        return frozenset()
    return next((profiles for pattern, profiles in _COMPILED if pattern.search(product)), None)


def profile_in(config: str) -> str | None:
    """The profile that the name of a default configuration promises: `all-1g.10gb` -> `1g.10gb`."""
    found = _PROFILE.search(config)
    return found[1] if found else None
