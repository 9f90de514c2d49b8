"""What a GPU measures at an instant, by what its holder does: a function of the board and the time."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from diagnostics.simulator.devices import POWER_LIMIT_W, Device
from diagnostics.simulator.identity import noise

COLLECT_S = 30
"""dcgm-exporter reads the GPUs every 30 s; scrapes in between repeat the values."""
IDLE_W = 72.0
NOTEBOOK_CYCLE_S, NOTEBOOK_BUSY_S = 1200, 300


@dataclass(frozen=True, slots=True)
class Reading:
    """Ratios are 0 to 1."""

    utilization: float = 0.0
    graphics: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    memory_mib: float = 0.0
    power_w: float = IDLE_W
    sm_clock_mhz: int = 345
    pcie_tx_bytes: float = 0.0
    pcie_rx_bytes: float = 0.0
    nvlink_mb: float = 0.0
    mean_power_w: float = IDLE_W
    """Over a long time, which the energy counter follows."""


@dataclass(frozen=True, slots=True)
class Instant:
    """When a profile is asked: seconds since the epoch, since the holder's start, and 32 numbers 0 to 1."""

    epoch_s: float
    age_s: float
    noise: tuple[float, ...]

    def near(self, middle: float, spread: float, which: int) -> float:
        return middle + spread * (2 * self.noise[which] - 1)


def sampled_at(now: datetime) -> datetime:
    """When the exporter last read the GPUs."""
    return now - timedelta(seconds=now.timestamp() % COLLECT_S)


def reading(profile: str, device: Device, moment: datetime, epoch: datetime, started: datetime) -> Reading:
    """Of a board whose holder began at `started`; `profile` is a key of PROFILES."""
    at = Instant(
        (moment - epoch).total_seconds(),
        max(0.0, (moment - started).total_seconds()),
        noise(device.uuid, device.mig_id, int(moment.timestamp()) // COLLECT_S),
    )
    value = PROFILES[profile](at)
    power = value.power_w + 3 * (noise(device.uuid)[0] - 0.5)
    return replace(value, power_w=min(power, POWER_LIMIT_W + 4))


def _training(at: Instant) -> Reading:
    return Reading(
        utilization=min(1.0, at.near(0.97, 0.03, 0)),
        graphics=min(1.0, at.near(0.96, 0.03, 1)),
        sm=at.near(0.74, 0.08, 2),
        tensor=at.near(0.38, 0.08, 3),
        dram=at.near(0.46, 0.08, 4),
        memory_mib=71_342,
        power_w=at.near(585, 45, 5),
        sm_clock_mhz=int(at.near(1755, 45, 6)),
        pcie_tx_bytes=at.near(1.4e9, 6e8, 7),
        pcie_rx_bytes=at.near(1.1e9, 5e8, 8),
        nvlink_mb=at.near(180_000, 60_000, 9),
        mean_power_w=585,
    )


def _inference(at: Instant) -> Reading:
    """Requests come in waves, and never stop for long."""
    load = 0.55 + 0.2 * math.sin(at.epoch_s / 2400) + 0.2 * (at.noise[0] - 0.5)
    return Reading(
        utilization=min(1.0, 0.3 + load * 0.7),
        graphics=min(1.0, 0.28 + load * 0.7),
        sm=0.15 + 0.6 * load,
        tensor=0.05 + 0.2 * load,
        dram=0.2 + 0.5 * load,
        memory_mib=73_204,
        power_w=180 + 330 * load,
        sm_clock_mhz=1980,
        pcie_tx_bytes=2.1e7 * load,
        pcie_rx_bytes=3.4e7 * load,
        nvlink_mb=9_000 * load,
        mean_power_w=360,
    )


def _notebook(at: Instant) -> Reading:
    """Somebody runs a cell for five minutes, then thinks for a quarter of an hour. At the epoch the last cell
    ended ten minutes ago."""
    if (at.epoch_s + 900) % NOTEBOOK_CYCLE_S < NOTEBOOK_BUSY_S:
        return replace(
            _training(at), memory_mib=21_870, power_w=at.near(390, 40, 5), nvlink_mb=0, mean_power_w=200
        )
    return replace(_resident(21_870, 118)(at), mean_power_w=200)


def _resident(memory_mib: float, power_w: float) -> Callable[[Instant], Reading]:
    """A context is bound and memory resident, and nothing runs."""

    def profile(at: Instant) -> Reading:
        power = at.near(power_w, 1.5, 5)
        return Reading(memory_mib=memory_mib, power_w=power, sm_clock_mhz=1980, mean_power_w=power_w)

    return profile


def _starved(at: Instant) -> Reading:
    """Training that waits for its data most of the time."""
    return replace(
        _training(at),
        utilization=at.near(0.42, 0.1, 0),
        graphics=at.near(0.4, 0.1, 1),
        sm=at.near(0.24, 0.05, 2),
        tensor=at.near(0.1, 0.03, 3),
        dram=at.near(0.16, 0.03, 4),
        power_w=at.near(260, 20, 5),
        mean_power_w=260,
    )


def _cell(at: Instant) -> Reading:
    """A cell of a notebook runs."""
    return replace(
        _training(at), memory_mib=21_870, power_w=at.near(390, 40, 5), nvlink_mb=0, mean_power_w=390
    )


def _called(percent: int) -> Callable[[Instant], Reading]:
    """A server that answers so many percent of the requests that it could."""

    def profile(at: Instant) -> Reading:
        load = at.near(percent / 100, 0.05, 0)
        return Reading(
            utilization=min(1.0, 0.3 + load * 0.7),
            graphics=min(1.0, 0.28 + load * 0.7),
            sm=0.15 + 0.6 * load,
            tensor=0.05 + 0.2 * load,
            dram=0.2 + 0.5 * load,
            memory_mib=73_204,
            power_w=180 + 330 * load,
            sm_clock_mhz=1980,
            pcie_tx_bytes=2.1e7 * load,
            pcie_rx_bytes=3.4e7 * load,
            nvlink_mb=9_000 * load,
            mean_power_w=180 + 3.3 * percent,
        )

    return profile


def _nothing(at: Instant) -> Reading:
    return Reading(power_w=at.near(IDLE_W, 1.0, 5))


def _loading(at: Instant) -> Reading:
    """Weights stream in from storage."""
    memory = min(60_000.0, 600 + 45 * at.age_s)
    return Reading(
        memory_mib=memory,
        power_w=at.near(122, 4, 5),
        sm_clock_mhz=1980,
        pcie_rx_bytes=4.7e7,
        mean_power_w=122,
    )


def _hung(at: Instant) -> Reading:
    """Every rank waits for one that does not come: kernels spin."""
    return Reading(
        utilization=1.0,
        graphics=1.0,
        sm=0.06,
        dram=0.004,
        memory_mib=71_342,
        power_w=at.near(182, 1.0, 5),
        sm_clock_mhz=1980,
        mean_power_w=182,
    )


def _leaking(at: Instant) -> Reading:
    """Each request leaves something behind."""
    memory = min(79_000.0, 20_000 + 7_500 * at.age_s / 3600)
    return replace(_called(60)(at), memory_mib=memory)


def _peaking(at: Instant) -> Reading:
    """Batches of very different length: every twenty minutes one nearly fills the memory for five."""
    return replace(
        _called(60)(at), memory_mib=79_900 if at.epoch_s % 1200 < 300 else 58_000 + 4_000 * at.noise[9]
    )


PROFILES: dict[str, Callable[[Instant], Reading]] = {
    "training": _training,
    "inference": _inference,
    "notebook": _notebook,
    "loaded-idle": _resident(38_114, 118),
    "empty": _nothing,
    "loading": _loading,
    "rendezvous": _resident(528, 96),
    "hung": _hung,
    "starved": _starved,
    "leaking": _leaking,
    "peaking": _peaking,
    "reserved": lambda at: replace(_called(60)(at), memory_mib=79_900),
    "cell": _cell,
    "thinking": _resident(21_870, 118),
    "load-0": _resident(73_204, 118),
    **{f"load-{percent}": _called(percent) for percent in (15, 25, 60, 75, 90)},
    "none": _nothing,
}
"""By what the holder does; `none` is also a GPU that nobody holds or whose holder does not run."""
