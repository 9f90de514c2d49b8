"""Priority and runtime classes of the simulated cluster."""

PRIORITIES = {
    "batch-low": (-10, "Never"),
    "system-cluster-critical": (2_000_000_000, "PreemptLowerPriority"),
    "system-node-critical": (2_000_001_000, "PreemptLowerPriority"),
    "training-high": (100_000, "PreemptLowerPriority"),
}
"""Name -> (value, preemptionPolicy)."""
RUNTIMES = ("nvidia", "nvidia-cdi")
