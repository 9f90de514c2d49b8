"""From what an operator's container said to the cause that it names. Pure."""

import re
from collections.abc import Iterable

from diagnostics.snapshot import LogSignal

NOT_USED = "nvidia-runtime-not-used"
NOT_INJECTED = "nvidia-runtime-injects-no-driver"
NO_LIBRARY = {NOT_USED, NOT_INJECTED}
"""A container runs and has no library of the driver: it was started without NVIDIA's runtime, or by it and for
nothing."""
NO_HEADERS = "driver-build-no-headers-for-kernel"
RESET_BLOCKED = "mig-mode-change-reset-blocked"

CAUSES: dict[str, str] = {
    "driver-secure-boot": "secure-boot-rejects-driver",
    "driver-nouveau-loaded": "nouveau-loaded",
    "driver-wrong-module-type": "driver-needs-open-kernel-modules",
    "driver-gpu-unsupported": "gpu-not-supported-by-driver",
    "driver-does-not-build": "driver-release-incompatible-with-kernel",
    "driver-no-entitlement": "driver-build-no-entitlement",
    "driver-kernel-headers-missing": NO_HEADERS,
    "driver-eviction-blocked": "driver-upgrade-eviction-blocked",
    "driver-in-use": "driver-in-use",
    "driver-already-running": "driver-already-running",
    "driver-library-mismatch": "driver-library-mismatch",
    "inforom-corrupted": "inforom-corrupted",
    "operator-gpu-lost": "gpu-lost",
    "driver-not-responding": "driver-not-responding",
    "host-driver-missing": "driver-not-loaded",
    "driver-module-not-loaded": "driver-module-not-loaded",
    "driver-peermem-not-loaded": "peermem-module-not-loaded",
    "fabric-manager-failed": "fabric-manager-not-running",
    "fabric-manager-mismatch": "fabric-manager-not-running",
    "fabric-manager-not-running": "fabric-manager-not-running",
    "driver-too-old": "driver-too-old-for-validation",
    "toolkit-cannot-configure-runtime": "toolkit-cannot-configure-runtime",
    "toolkit-binary-missing": "toolkit-binaries-missing",
    "cdi-spec-not-made": "cdi-spec-not-made",
    "device-symlinks-failed": "device-symlinks-failed",
    "runtime-not-configured": "nvidia-runtime-not-configured",
    "mig-reset-blocked": RESET_BLOCKED,
    "mig-config-unknown": "mig-config-unknown",
    "mig-profile-unsupported": "mig-profile-not-supported",
    "mig-mode-pending": "mig-mode-needs-reset",
    "plugin-mig-strategy": "mig-strategy-mismatch",
    "plugin-config-invalid": "device-plugin-config-invalid",
    "nvml-library-not-found": NOT_USED,
    "nvidia-smi-not-injected": NOT_USED,
    "plugin-cannot-register": "device-plugin-cannot-register",
    "port-in-use": "port-already-in-use",
    "waiting-for-ofed": "network-driver-not-ready",
    "leader-election-lost": "api-server-slow-for-operator",
    "watchers-exhausted": "inotify-limit-reached",
    "disk-full": "disk-full",
    "dcgm-engine-unreachable": "dcgm-host-engine-unreachable",
    "dcgm-profiling-failed": "dcgm-profiling-failed",
    "operator-rights-missing": "operator-rights-missing",
    "operator-crd-missing": "operator-crd-missing",
    "driver-packages-unreachable": "driver-build-packages-unreachable",
    "validation-no-gpu-resource": "gpus-not-discovered",
    "plugin-found-no-devices": "plugin-found-no-devices",
}
"""Signature, or words of `_WORDS`, -> cause; the one that explains the others first: a log often holds several."""

_WORDS = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("driver-library-mismatch", r"driver/library version mismatch|API mismatch|NVML/RM version mismatch"),
        ("fabric-manager-not-running", r"system not yet initialized"),
        ("driver-too-old", r"driver version is insufficient|unsatisfied condition: cuda"),
        (
            "runtime-not-configured",
            r"no runtime for \W{0,2}\S{1,60}? is configured|find runtime handler|unknown runtime spec",
        ),
        ("disk-full", r"no space left on device"),
    )
)
"""Words of the driver and of container runtimes, in messages of the kubelet and in lines that other signatures keep."""

_ORDER = {signal: number for number, signal in enumerate(CAUSES)}


def cause_of(signals: Iterable[LogSignal], message: str = "") -> tuple[str | None, str]:
    """(cause, the line that says it) of log signals and of a status message; (None, "") where nothing is known.

    A source of packages that cannot be reached explains why no headers were found in it.
    """
    found = [(s.signal, s.line) for s in signals if s.signal in CAUSES]
    lines = [message, *(s.line for s in signals if s.signal not in CAUSES)]
    found += [(name, line) for line in lines for name, words in _WORDS if words.search(line)]
    found.sort(key=lambda pair: _ORDER[pair[0]])
    if not found:
        return None, ""
    name, line = found[0]
    if CAUSES[name] == NO_HEADERS:
        name, line = next((f for f in found if f[0] == "driver-packages-unreachable"), (name, line))
    return CAUSES[name], line
