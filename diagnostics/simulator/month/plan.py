"""The month's plan: a scheduler gives everybody who asks GPUs for as long as they need them, accidents permitting."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from diagnostics.simulator.config import WorldConfig
from diagnostics.simulator.month import people, upheaval
from diagnostics.simulator.month.calendar import LINGERS_S, NEVER, Month, Run, Slot, Span, Stay
from diagnostics.simulator.month.demand import Demand

PATIENCE_S, STEP_S = 10 * 3600, 1200
"""Who finds no room comes again every 20 minutes, for ten hours."""


def start_of(config: WorldConfig) -> datetime:
    """The month's first midnight. Raises ValueError where the config has no epoch."""
    if config.epoch is None:
        raise ValueError("a month needs a config with an epoch")
    return config.epoch.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def second_of(config: WorldConfig, moment: datetime) -> int:
    return (moment - start_of(config)) // timedelta(seconds=1)


@lru_cache(maxsize=4)
def month_of(config: WorldConfig) -> Month:
    """The plan, the same for the same config. Raises ValueError where the config has no epoch."""
    lives = upheaval.node_lives(config.nodes)
    room = _Room(config.gpus_per_node, upheaval.closed(lives))
    added = f"gpu-{config.nodes + 1:02d}"
    found: dict[tuple[str, str], Run] = {}
    for demand in sorted(people.demands(config.seed, start_of(config), added), key=lambda d: (d.at, d.path)):
        run = room.run(demand)
        if run is not None:
            key = (run.kind, run.path)
            found[key] = _continued(found[key], run) if key in found else run
    return Month(tuple(found.values()), lives, upheaval.board_lives(), {upheaval.SPLIT: upheaval.SPLIT_AT})


def _continued(before: Run, run: Run) -> Run:
    """The same workload, with the pods of another round."""
    doings = tuple(sorted({*before.doings, *run.doings}))
    return replace(before, stays=before.stays + run.stays, doings=doings)


@dataclass
class _Room:
    """Which slots are free from when on."""

    gpus: int
    closed: dict[str, list[Span]]
    free_from: dict[Slot, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.accidents = upheaval.accidents(self.gpus)

    def run(self, demand: Demand) -> Run | None:
        """With its place and time; None: there was no room for hours, and it went away."""
        for start in range(demand.at, demand.at + PATIENCE_S, STEP_S):
            chosen = self._places(demand, start)
            if chosen is not None:
                return self._booked(demand, start, chosen)
        return None

    def _places(self, demand: Demand, start: int) -> list[tuple[Slot, ...]] | None:
        end, taken = start + demand.length, set[Slot]()
        found = []
        for number in range(demand.pods):
            bound = start + (demand.late_by if number >= demand.pods - demand.late else 0)
            slots = next(self._choices(demand, Span(bound, end), taken), None)
            if slots is None:
                return None
            taken.update(slots)
            found.append(slots)
        return found

    def _choices(self, demand: Demand, span: Span, taken: set[Slot]) -> Iterator[tuple[Slot, ...]]:
        for node in demand.nodes:
            if any(one.meets(*span) for one in self.closed[node]):
                continue
            slots = [Slot(node, i) for i in range(self.gpus)]
            if demand.instance >= 0:
                slots = [upheaval.SPLIT._replace(instance=demand.instance)]
            free = [slot for slot in slots if slot not in taken and self._is_free(slot, span)]
            if len(free) >= demand.gpus:
                yield tuple(free[: demand.gpus])

    def _is_free(self, slot: Slot, span: Span) -> bool:
        if self.free_from.get(slot, -NEVER) > span.start:
            return False
        board = Slot(slot.node, slot.board)
        if board == upheaval.SPLIT:
            is_time = span.start >= upheaval.SPLIT_AT if slot.instance >= 0 else span.end <= upheaval.SPLIT_AT
            if not is_time:
                return False
        return not any(
            board in accident.slots and accident.span.has(span.start) for accident in self.accidents
        )

    def _booked(self, demand: Demand, start: int, places: list[tuple[Slot, ...]]) -> Run:
        end, accident = start + demand.length, None
        boards = {Slot(slot.node, slot.board) for slots in places for slot in slots}
        for one in self.accidents:
            if one.slots & boards and start < one.span.start < end:
                end, accident = one.span.start, one
                break
        stays = []
        for number, slots in enumerate(places):
            is_late = number >= demand.pods - demand.late
            bound = start + (demand.late_by if is_late else 0)
            is_held = accident is not None and accident.is_silent and bool(accident.slots & set(slots))
            ended = accident.span.end if accident is not None and is_held else end
            stays.append(
                Stay(
                    key=f"{number}" if demand.kind in ("StatefulSet", "Job") else f"{demand.round}-{number}",
                    slots=slots,
                    created=start,
                    bound=bound,
                    ready=bound + demand.ready_after,
                    ended=ended,
                    gone=ended + (LINGERS_S if demand.kind == "Job" else 0),
                    is_failed=accident is not None,
                    trouble=demand.trouble,
                    deleted=ended - demand.deleted_before_end if demand.deleted_before_end else NEVER,
                    incarnation=demand.round,
                )
            )
            self.free_from |= dict.fromkeys(slots, ended)
        return Run(
            demand.kind,
            demand.path,
            demand.template,
            tuple(stays),
            demand.doings(start, end),
            demand.pods,
            service_port=demand.service_port,
            is_gang=demand.is_gang,
        )
