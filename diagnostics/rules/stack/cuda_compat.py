"""Which driver a CUDA toolkit needs: the published tables, and the rule that compares the two. Pure.

Sources: CUDA Toolkit Release Notes, table "CUDA Toolkit and Corresponding Driver Versions" (Linux x86_64); NVIDIA "CUDA
Compatibility" guide, pages on minor version and forward compatibility. Comparing the two CUDA numbers alone is wrong:
from 11 on a toolkit runs on every driver that serves its major version, and a newer driver runs every older toolkit.
"""

import re
from enum import StrEnum
from typing import NamedTuple

Version = tuple[int, ...]

PAIRED_DRIVER: dict[tuple[int, int], Version] = {
    (13, 4): (615,),
    (13, 3): (610, 43, 2),
    (13, 2): (595, 45, 4),
    (13, 1): (590, 44, 1),
    (13, 0): (580, 65, 6),
    (12, 9): (575, 51, 3),
    (12, 8): (570, 26),
    (12, 7): (565,),
    (12, 6): (560, 28, 3),
    (12, 5): (555, 42, 2),
    (12, 4): (550, 54, 14),
    (12, 3): (545, 23, 6),
    (12, 2): (535, 54, 3),
    (12, 1): (530, 30, 2),
    (12, 0): (525, 60, 13),
    (11, 8): (520, 61, 5),
    (11, 7): (515, 43, 4),
    (11, 6): (510, 39, 1),
    (11, 5): (495, 29, 5),
    (11, 4): (470, 42, 1),
    (11, 3): (465, 19, 1),
    (11, 2): (460, 27, 3),
    (11, 1): (455, 23),
    (11, 0): (450, 36, 6),
    (10, 2): (440, 33),
    (10, 1): (418, 39),
    (10, 0): (410, 48),
}
"""Toolkit -> the first driver that is at least as new: from it on every feature works. 12.7 is no toolkit, but what
nvidia-smi prints for branch 565."""

FLOOR: dict[int, Version] = {13: (580, 65, 6), 12: (525, 60, 13), 11: (450, 80, 2)}
"""Major version -> the driver from which every toolkit of it runs, with limits (minor version compatibility)."""

_DATA_CENTER = re.compile(
    r"\b(?:A100|A800|A30|A10G?|A16|A2|A40|B100|B200|B300|GB200|GB300|GH200|H100|H200|H20|H800|L4|L40S?|L20|L2|P4|P40"
    r"|P100|T4G?|V100S?|K80|M60|TESLA|HGX|DGX)\b"
)
_DESKTOP = re.compile(r"\b(?:GEFORCE|RTX|GTX|TITAN|QUADRO)\b")


class Verdict(StrEnum):
    """What becomes of an image with a toolkit on a node with a driver."""

    FITS = "fits"
    LIMITED = "limited"
    """Runs by minor version compatibility; PTX of the newer toolkit and features of a newer driver do not."""
    NEEDS_COMPAT = "needs-compat-package"
    """Runs only with the forward compatibility package of its toolkit, which this GPU can use."""
    TOO_NEW = "too-new"
    """Does not run: a newer major version, on a GPU that cannot use the forward compatibility package."""


class Judged(NamedTuple):
    """A verdict with the numbers that it rests on."""

    verdict: Verdict
    needed: Version
    """The oldest driver on which the toolkit runs without the forward compatibility package."""


def version(text: str | None) -> Version | None:
    """`550.54.15`, `12.4`, `470.82.01-beta` as numbers; None where there are none."""
    match = re.match(r"\s*v?(\d{1,5}(?:\.\d{1,5}){0,3})", text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else None


def toolkit(text: str | None) -> tuple[int, int] | None:
    """`12.4.1` or `12.4` as (12, 4); None for what is no CUDA version, such as a bare major one."""
    found = version(text)
    return (found[0], found[1]) if found and len(found) > 1 and 7 <= found[0] < 30 else None


def written(numbers: Version) -> str:
    """A driver version as NVIDIA writes it, two digits a part after the first: `525.60.13`, `580.65.06`."""
    return ".".join(str(n) if i == 0 else f"{n:02d}" for i, n in enumerate(numbers))


def newest_cuda(driver: Version) -> tuple[int, int] | None:
    """The newest toolkit that this driver serves in full, as nvidia-smi prints it; None below the table."""
    return next((cuda for cuda, oldest in PAIRED_DRIVER.items() if driver >= _branch(oldest)), None)


def _branch(driver: Version) -> Version:
    """nvidia-smi's number is the same over a whole branch, also for its first builds."""
    return driver[:1]


def can_use_compat(product: str | None) -> bool | None:
    """Whether the forward compatibility package works on this model: data-center boards; None where unknown.

    NVIDIA also names some RTX boards by certification; server editions are unknown, the others count as not able.
    """
    name = (product or "").upper().replace("-", " ").replace("_", " ")
    if _DESKTOP.search(name):
        return None if "SERVER" in name else False
    return True if _DATA_CENTER.search(name) else None


def needed_driver(cuda: tuple[int, int]) -> Version | None:
    """The oldest driver on which this toolkit runs; None for one that is not in the tables."""
    if cuda[0] in FLOOR:
        # 11.0 came before minor version compatibility and has a floor of its own.
        return min(FLOOR[cuda[0]], PAIRED_DRIVER[cuda]) if cuda == (11, 0) else FLOOR[cuda[0]]
    return PAIRED_DRIVER.get(cuda)


def judged(cuda: tuple[int, int], driver: Version, product: str | None = None) -> Judged | None:
    """The verdict for a toolkit on a driver; None where the tables do not know the toolkit."""
    needed = needed_driver(cuda)
    if needed is None:
        return None
    served = newest_cuda(driver)
    if served is not None and served >= cuda:
        return Judged(Verdict.FITS, needed)
    if driver >= needed:
        return Judged(Verdict.LIMITED, needed)
    able = can_use_compat(product)
    return Judged(Verdict.TOO_NEW if able is False else Verdict.NEEDS_COMPAT, needed)
