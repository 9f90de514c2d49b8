"""MIG profiles by GPU model: what a layout can be made of, and how often on one GPU. A pure data table.

Sources: NVIDIA MIG User Guide, "Supported MIG Profiles"; mig-parted's default configurations.
"""

import re
from collections.abc import Mapping

_SEVENTHS = (("1g", 7), ("1g", 4), ("2g", 3), ("3g", 2), ("4g", 1), ("7g", 1))
"""Sizes of a GPU with seven compute slices, with the most instances of each; the second 1g has a wider memory."""
_FOURTHS = (("1g", 4), ("2g", 2), ("4g", 1))


def _cut(sizes: tuple[tuple[str, int], ...], *gib: int) -> dict[str, int]:
    """Profile -> most instances on one GPU, from the memory of each size."""
    return {f"{size}.{memory}gb": most for (size, most), memory in zip(sizes, gib, strict=True)}


_FORTY = _cut(_SEVENTHS, 5, 10, 10, 20, 20, 40)
_EIGHTY = _cut(_SEVENTHS, 10, 20, 20, 40, 40, 80)
_NINETY_SIX = _cut(_SEVENTHS, 12, 24, 24, 48, 48, 96)
_GB200 = _cut(_SEVENTHS, 23, 47, 47, 93, 93, 186) | {"1g.24gb": 7, "3g.95gb": 2, "4g.95gb": 1, "7g.189gb": 1}

_BY_PRODUCT: tuple[tuple[str, Mapping[str, int]], ...] = (
    (r"A30\b", _cut(_FOURTHS, 6, 12, 24)),
    (r"A[18]00\b.*80GB", _EIGHTY),
    (r"A[18]00\b.*40GB|A100-PCIE-40|A100-SXM4-40", _FORTY),
    (r"H[18]00\b.*NVL|H[18]00-NVL|H100.*94GB", _cut(_SEVENTHS, 12, 24, 24, 47, 47, 94)),
    (r"H[18]00\b.*80GB", _EIGHTY),
    (r"H100.*96GB|GH200.*(?:96GB|480GB)|H20\b", _NINETY_SIX),
    (r"GH200.*144", _cut(_SEVENTHS, 18, 36, 36, 72, 72, 144)),
    (r"H200", _cut(_SEVENTHS, 18, 35, 35, 71, 71, 141)),
    (r"GB300", _cut(_SEVENTHS, 35, 70, 70, 139, 139, 278)),
    (r"B300", _cut(_SEVENTHS, 34, 67, 67, 135, 135, 269)),
    (r"GB200", _GB200),
    (r"B200", _cut(_SEVENTHS, 23, 45, 45, 90, 90, 180)),
    (r"RTX-PRO-6000", _cut(_FOURTHS, 24, 48, 96)),
)
_COMPILED = tuple((re.compile(pattern), profiles) for pattern, profiles in _BY_PRODUCT)
_NO_MIG = re.compile(
    r"(?:^|[-\s])(?:T4|V100|P100|P40|K80|L4|L40S?|A10G?|A16|A2|A40|RTX-A\d+|GeForce)(?:$|[-\s])"
)
_PROFILE = re.compile(r"\b(\d+g\.\d+gb)")


def supported(product: str) -> Mapping[str, int] | None:
    """Profiles of a GPU model as feature discovery names it, each with the most instances on one GPU.

    Without attributes such as `+me`; empty for a model without MIG, None for one that is not known here.
    """
    if _NO_MIG.search(product):
        return {}
    return next((profiles for pattern, profiles in _COMPILED if pattern.search(product)), None)


def profile_in(config: str) -> str | None:
    """The profile that the name of a layout or a resource promises: `all-1g.10gb` -> `1g.10gb`."""
    found = _PROFILE.search(config)
    return found[1] if found else None


def memory_gb(profile: str) -> int:
    """The memory in a profile's name, in the vendor's rounded GB: 10 for `1g.10gb`."""
    return int(profile.partition(".")[2].removesuffix("gb"))


def larger(product: str, profile: str) -> tuple[str, ...]:
    """Profiles of the model with more memory than `profile` has, the smallest first."""
    own = memory_gb(profile)
    known = supported(product) or {}
    return tuple(sorted((p for p in known if memory_gb(p) > own), key=lambda p: (memory_gb(p), p)))


def smallest_for(product: str, need_gb: float) -> str | None:
    """The profile with the least memory that still exceeds `need_gb`; of two, the one that fits more often."""
    known = supported(product) or {}
    enough = [p for p in known if memory_gb(p) > need_gb]
    return min(enough, key=lambda p: (memory_gb(p), -known[p]), default=None)
