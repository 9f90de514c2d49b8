"""Compute capability of GPU models and of nodes, and the toolkit that first knew each architecture. Pure.

Source: NVIDIA "CUDA GPUs" (compute capability by model); CUDA Toolkit release notes for the first toolkit.
"""

import re

from diagnostics.rules.stack.cuda_compat import Version
from diagnostics.snapshot import Node

_BY_MODEL: tuple[tuple[str, Version], ...] = (
    (r"GB300|B300", (10, 3)),
    (r"GB200|B200|B100", (10, 0)),
    (r"GB10", (12, 1)),
    (r"RTX PRO|RTX 50\d0", (12, 0)),
    (r"GH200|H200|H100|H800|H20", (9, 0)),
    (r"L40S?|L4|L20|L2|RTX 40\d0|RTX \d000 ADA", (8, 9)),
    (r"A10G?|A16|A2|A40|RTX A\d{3,4}|RTX 30\d0", (8, 6)),
    (r"A100|A800|A30", (8, 0)),
    (r"T4G?|RTX 20\d0|QUADRO RTX \d000|GTX 16\d0", (7, 5)),
    (r"V100S?|TITAN V", (7, 0)),
    (r"P4|P40|GTX 10\d0", (6, 1)),
    (r"P100", (6, 0)),
    (r"M60|M40", (5, 2)),
    (r"K80", (3, 7)),
)
_COMPILED = tuple((re.compile(rf"\b(?:{pattern})\b"), found) for pattern, found in _BY_MODEL)

FIRST_TOOLKIT: tuple[tuple[Version, Version], ...] = (
    ((10, 3), (12, 9)),
    ((12, 1), (12, 9)),
    ((10, 0), (12, 8)),
    ((12, 0), (12, 8)),
    ((9, 0), (11, 8)),
    ((8, 9), (11, 8)),
    ((8, 6), (11, 1)),
    ((8, 0), (11, 0)),
    ((7, 5), (10, 0)),
)


def capability_of(model: str | None) -> Version | None:
    """Compute capability of `NVIDIA-A100-SXM4-80GB`; None for an unknown model."""
    name = (model or "").upper().replace("-", " ").replace("_", " ")
    return next((found for pattern, found in _COMPILED if pattern.search(name)), None)


def capability_of_node(node: Node | None) -> Version | None:
    """From feature discovery's labels, else from the model; None where neither tells."""
    if node is None:
        return None
    major, minor = (node.labels.get(f"nvidia.com/gpu.compute.{part}", "") for part in ("major", "minor"))
    if major.isdecimal() and minor.isdecimal() and len(major) < 4 > len(minor):
        return int(major), int(minor)
    return capability_of(node.gpu_product)


def first_toolkit(capability: Version) -> Version | None:
    """The first CUDA toolkit that makes machine code for this capability."""
    return next((cuda for one, cuda in FIRST_TOOLKIT if one == capability), None)


def last_toolkit(capability: Version) -> Version | None:
    """The last CUDA toolkit that does; None while there is no end: CUDA 13 dropped everything below 7.5."""
    return (12, 9) if capability < (7, 5) else None
