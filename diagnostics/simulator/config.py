"""What a simulated cluster is made of."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

FEWEST_NODES = 12
WEEK_NODES = 16


@dataclass(frozen=True)
class WorldConfig:
    """The input of the world besides the time. `WorldConfig()` is a wholly healthy cluster of 96 GPUs."""

    nodes: int = FEWEST_NODES
    gpus_per_node: int = 8
    racks: int = 3
    pods: int | None = None
    """Healthy training pods are added until the cluster has this many pods; None adds none."""
    seed: int = 7
    faults: tuple[str, ...] = ()
    """Slugs of `faults.CATALOGUE` and of `faults.TWINS`."""
    epoch: datetime | None = None
    """Faults began before it, by their own age; everything in the world is dated from it. None: the moment
    that is asked for, so that every fault has just its age. A cluster that lives on needs it set."""
    sm_active: bool = True
    """The exporter also has SM_ACTIVE, which its default list lacks."""
    power_limit: bool = True
    """The exporter also has the enforced power limit, which its default list lacks."""
    hostname_label: str = "Hostname"
    """`hostname` from dcgm-exporter 4.6.0 on."""
    event_ttl: timedelta = timedelta(hours=1)
    schedule: Literal["", "month", "week"] = ""
    """`month`: instead of the usual life and of faults the thirty days of `month` run, from the epoch's midnight
    (UTC) on, which must be set. `week`: a working week with faults that come and go, for ever; what always stands is
    dated from the epoch, before which nobody works on the cluster yet."""

    def __post_init__(self) -> None:
        if self.nodes < FEWEST_NODES:
            raise ValueError(f"the world needs {FEWEST_NODES} nodes at least, not {self.nodes}")
        if not 8 <= self.gpus_per_node <= 16:
            raise ValueError(f"a node has 8 to 16 GPUs, not {self.gpus_per_node}")
        if self.schedule == "week" and self.nodes < WEEK_NODES:
            raise ValueError(f"the week needs {WEEK_NODES} nodes at least, not {self.nodes}")
        if self.racks < 1:
            raise ValueError("the nodes stand in one rack at least")
        if self.schedule and (self.faults or self.pods is not None):
            raise ValueError("a schedule has its own pods and faults")


DEMO = WorldConfig(
    faults=(
        "scattered-job",
        "partial-gang",
        "pending-no-capacity",
        "pending-untolerated-taint",
        "plugin-crash-loop",
        "oom-killed",
        "cuda-oom-fragmentation",
        "cuda-oom-shortage",
        "idle-loaded",
        "idle-empty",
        "xid-95",
        "stuck-terminating",
        # Look-alikes, so that the demo also shows what is left alone.
        "warm-standby",
        "application-xid",
        "standing-xid",
        "liveness-killed",
    )
)

WORKING_WEEK = WorldConfig(nodes=WEEK_NODES, schedule="week")
"""What `gpuhealth up` shows: 128 GPUs, at any moment a dozen faults, and a past with more of them."""
