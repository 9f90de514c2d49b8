"""Who ran where in 13 months of a large cluster: one workload after another in each slot, by arithmetic.

Every place where a workload runs now is a slot in which others ran before: short jobs, long jobs, services.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

from diagnostics.models import STATE_NUMBERS, Cluster, Device, GpuModel, Workload
from diagnostics.snapshot import State
from diagnostics.usage.weights import HOUR_MS

HOURS = 396 * 24
LIVES = (8, 12, 24, 24, 48, 48, 96, 170, 340, 720)
"""Hours that a job runs, by its slot: 900 new ones a day."""
FOR_EVER = 10 * HOURS
FIRST_PK = 1_000_000
STARTING_MS = 600_000

GOOD, POOR, HELD, EMPTY = State.EFFECTIVE, State.INEFFECTIVE, State.IDLE_HELD, State.IDLE_EMPTY
PATTERNS: tuple[tuple[tuple[State, int, int], ...], ...] = (
    ((GOOD, 850, 0), (POOR, 150, 400)),
    ((GOOD, 600, 0), (POOR, 250, 500), (HELD, 150, 1000)),
    ((GOOD, 900, 0), (POOR, 100, 300)),
    ((GOOD, 500, 0), (POOR, 400, 700), (EMPTY, 100, 1000)),
    ((HELD, 900, 1000), (GOOD, 100, 0)),
)
"""How a workload spends its time: (state, thousandths of it, thousandths of that wasted)."""


class Slot(NamedTuple):
    """Where one workload runs after another."""

    number: int
    present: int
    """Primary key of the workload that is there now."""
    gpus: tuple[int, ...]
    """Primary keys of the devices."""
    places: tuple[str, ...]
    """The same on its first node, as an allocation names them."""
    node: int
    model: int
    model_name: str
    life: int
    phase: int
    base: int
    """Primary key of the first that was there."""

    @property
    def last(self) -> int:
        """Generation that is there now."""
        return (HOURS - 1 + self.phase) // self.life

    @property
    def pattern(self) -> tuple[tuple[State, int, int], ...]:
        return PATTERNS[self.number * 7 % len(PATTERNS)]

    @property
    def works(self) -> int:
        """Thousandths of its time in which it is not idle."""
        return sum(part for state, part, _ in self.pattern if state in {GOOD, POOR})

    def lives_in(self, first: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Of the hours from `first` to `end`: (primary key, hours, whether it starts there) of each workload."""
        for g in range((first + self.phase) // self.life, (end - 1 + self.phase) // self.life + 1):
            begin = g * self.life - self.phase
            hours = min(end, begin + self.life) - max(first, begin)
            yield self.present if g >= self.last else self.base + g, hours, begin >= first

    def lines(self, first: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(workload, state, GPU-milliseconds, wasted ones) as the ledger sums them up from `first` to `end`."""
        for pk, hours, starts in self.lives_in(first, end):
            for state, ms, sign, waste in self.kinds():
                each = ms + sign * (pk * 7919 % 997) * 100
                begun = each - len(self.gpus) * STARTING_MS if starts and sign < 0 else each
                of = [begun, *[each] * (hours - 1)]
                yield pk, state, sum(of), sum(one * waste // 1000 for one in of)
            if starts:
                yield pk, STATE_NUMBERS[State.STARTING], len(self.gpus) * STARTING_MS, 0

    def kinds(self) -> list[tuple[int, int, int, int]]:
        """(state, GPU-milliseconds an hour, whether it gives or takes, thousandths wasted)."""
        hour = len(self.gpus) * HOUR_MS
        signs = (-1, 1, 0)
        return [
            (STATE_NUMBERS[state], hour * part // 1000, sign, waste)
            for (state, part, waste), sign in zip(self.pattern, signs, strict=False)
        ]


def slots_of(cluster: Cluster) -> list[Slot]:
    """By who holds what now."""
    holding = cluster.allocations.filter(ended_at=None).values_list("workload", "node", "node__name", "slots")
    devices = {
        slot: (pk, model)
        for slot, pk, model in Device.objects.filter(cluster=cluster).values_list("slot", "pk", "model")
    }
    kinds = dict(Workload.objects.filter(cluster=cluster).values_list("pk", "kind"))
    gpu_models = dict(GpuModel.objects.values_list("name", "pk"))
    held: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for workload, node, name, slots in holding:
        held[workload] += [
            (devices[f"{name}/{slot}"][0], node, slot) for slot in slots if f"{name}/{slot}" in devices
        ]
    model_of = dict(devices.values())
    found: list[Slot] = []
    base = FIRST_PK
    for (workload, some), job_life in zip(sorted(held.items()), cycle(LIVES)):
        if not some:
            continue
        number = len(found)
        life = job_life if kinds[workload] == "Job" else FOR_EVER
        first = some[0][1]
        slot = Slot(
            number=number,
            present=workload,
            gpus=tuple(sorted({pk for pk, _, _ in some})),
            places=tuple(sorted({place for _, node, place in some if node == first})),
            node=first,
            model=gpu_models[model_of[some[0][0]]],
            model_name=model_of[some[0][0]],
            life=life,
            phase=number * 7 % life,
            base=base,
        )
        found.append(slot)
        base += slot.last
    return found
