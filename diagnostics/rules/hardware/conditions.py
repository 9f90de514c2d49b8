"""Node conditions about GPUs that health agents write: which are bad, and what they are about.

Types: AKS's node-problem-detector (GPUMissing, XIDErrors, NVLinkStatusInactive, …), NVSentinel (GpuXidError,
SysLogsXIDError, GpuThermalWatch, …), EKS's node monitoring agent (AcceleratedHardwareReady), and others by their words.
"""

import re
from typing import NamedTuple

from diagnostics.snapshot import Condition

_ABOUT = re.compile(
    r"gpu|xid|nv-?link|nv-?switch|nvidia|dcgm|accelerat|cuda|infiniband|^ib(?:link|port)|infoROM|^Hgx",
    re.IGNORECASE,
)
_GOOD_WHEN_TRUE = re.compile(
    r"(?:Ready|Healthy|Available|Online|Ok|Passed|Present|Succeeded)$", re.IGNORECASE
)
_WRONG = re.compile(
    r"error|missing|inactive|not ?healthy|unhealthy|problem|fail|lost|fall|xid|throttl|flap|degrad|mismatch|inconsist"
    r"|down|pending|critical|bad|corrupt|ecc|remap|retire|issue|unavailable|not ?ready|violat|exceed|fault|hung|stuck",
    re.IGNORECASE,
)
"""Words of which a condition that is bad when True has one, in its type or reason."""
_FINE = re.compile(r"^No[A-Z]|Is(?:Ready|Healthy)$|Upgrad|Maintenance")
"""Reasons of conditions whose status is written the other way round, and of work that somebody planned."""


class Topic(NamedTuple):
    """What a condition is about. `is_known`: its words say so."""

    cause: str
    words: str
    is_whole_node: bool = False
    is_known: bool = True


_TOPICS: tuple[tuple[str, Topic], ...] = (
    (r"missing|lost|fallen|count|not ?found", Topic("reported-gpu-missing", "that a GPU is missing")),
    (r"s?xid", Topic("reported-xid", "an Xid error of a GPU")),
    (r"nv-?link|nv-?switch|fabric", Topic("reported-nvlink-trouble", "trouble with NVLink", True)),
    (
        r"ecc|remap|double.?bit|retire|memwatch|memory",
        Topic("reported-memory-errors", "memory errors of a GPU"),
    ),
    (r"thermal|throttl|clock|temperature", Topic("reported-slowdown", "a GPU that is slowed down")),
    (r"power", Topic("reported-power-trouble", "trouble with a GPU's power")),
    (r"pcie", Topic("reported-pcie-trouble", "trouble with PCIe")),
    (r"infoROM", Topic("reported-inforom-trouble", "a damaged InfoROM")),
    (r"infiniband|^ib|iblink", Topic("reported-fabric-trouble", "trouble with InfiniBand", True)),
    (
        r"driver|plugin|dcgm|nvml|smi",
        Topic("reported-stack-trouble", "trouble with the GPU driver or its stack", True),
    ),
)
_OTHER = Topic("reported-unhealthy", "trouble with its GPUs", True, False)


def is_bad(condition: Condition) -> bool:
    """It is about GPUs, and not as it should be. Unknown says nothing: the agent may be gone."""
    if not _ABOUT.search(condition.type) or condition.status not in ("True", "False"):
        return False
    if condition.status == "True" and _FINE.search(condition.reason):
        return False
    good = "True" if _GOOD_WHEN_TRUE.search(condition.type) and not _is_negated(condition.type) else "False"
    if condition.status == good:
        return False
    return good == "True" or bool(_WRONG.search(f"{condition.type} {condition.reason}"))


def _is_negated(kind: str) -> bool:
    return bool(re.search(r"(?:Not|Un)(?:Ready|Healthy|Available|Present)$", kind, re.IGNORECASE))


def topic(condition: Condition) -> Topic:
    """By the type, else by the reason and message."""
    for text in (condition.type, f"{condition.reason} {condition.message[:400]}"):
        for pattern, about in _TOPICS:
            if re.search(pattern, text, re.IGNORECASE):
                return about
    return _OTHER
