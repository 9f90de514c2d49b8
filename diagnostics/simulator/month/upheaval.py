"""What befalls the hardware in the month: reboots, a lost board, a node that comes and one that goes, a MIG split."""

from typing import NamedTuple

from diagnostics.simulator.month.calendar import DAY_S, HOUR_S, NEVER, BoardLife, NodeLife, Slot, Span

MIG_PROFILE, MIG_INSTANCES = "1g.10gb", 7
ALWAYS = Span(-NEVER, NEVER)


def at(day: int, hour: int, minute: int = 0) -> int:
    return day * DAY_S + hour * HOUR_S + minute * 60


class Accident(NamedTuple):
    """Nobody knows of it before. Whoever is there fails; nobody comes until it is over."""

    slots: frozenset[Slot]
    span: Span
    is_silent: bool
    """The node is: its pods hold their GPUs until it is back."""


SICK = Slot("gpu-11", 5)
SPLIT = Slot("gpu-09", 7)
CRASHES = {"gpu-07": Span(at(13, 14, 20), at(13, 15, 2)), "gpu-02": Span(at(21, 3, 11), at(21, 4, 25))}
SICK_FROM, SWAP = at(8, 10, 7), Span(at(9, 9), at(9, 10, 40))
REBOOT = Span(at(6, 3), at(6, 3, 25))
ADDED, DRAINED, REMOVED = at(11, 10, 30), at(18, 8), at(18, 20)
SPLIT_AT = at(15, 6)
UNMEASURED = Span(at(24, 9), at(24, 21))
CROWDED = Span(at(16, 6), at(17, 20))


def node_lives(nodes: int) -> dict[str, NodeLife]:
    """Of a cluster that begins with so many nodes; one more joins it."""
    lives = {f"gpu-{i + 1:02d}": NodeLife(i, ALWAYS) for i in range(nodes)}
    lives |= {name: NodeLife(lives[name].position, ALWAYS, down=(span,)) for name, span in CRASHES.items()}
    lives["gpu-08"] = NodeLife(7, ALWAYS, down=(REBOOT,), cordoned=(Span(at(6, 1), at(6, 4)),))
    lives["gpu-11"] = NodeLife(10, ALWAYS, down=(SWAP,), cordoned=(Span(at(9, 6), at(9, 11)),))
    lives["gpu-04"] = NodeLife(3, Span(-NEVER, REMOVED), cordoned=(Span(DRAINED, NEVER),))
    lives["gpu-01"] = NodeLife(0, ALWAYS, unmeasured=(UNMEASURED,))
    lives["gpu-10"] = NodeLife(9, ALWAYS, crowded=(CROWDED,))
    lives[f"gpu-{nodes + 1:02d}"] = NodeLife(nodes, Span(ADDED, NEVER))
    return lives


def board_lives() -> dict[Slot, BoardLife]:
    return {SICK: BoardLife(Span(SICK_FROM, SWAP.end))}


def accidents(gpus_per_node: int) -> list[Accident]:
    """In order of time."""
    found = [
        Accident(frozenset(Slot(name, i) for i in range(gpus_per_node)), span, is_silent=True)
        for name, span in CRASHES.items()
    ]
    found.append(Accident(frozenset({SICK}), Span(SICK_FROM, SWAP.end), is_silent=False))
    return sorted(found, key=lambda accident: accident.span)


def closed(lives: dict[str, NodeLife]) -> dict[str, list[Span]]:
    """By node: when everybody knows that nobody can be there."""
    found = {}
    for name, life in lives.items():
        spans = [*life.cordoned, *life.crowded, Span(-NEVER, life.exists.start), Span(life.exists.end, NEVER)]
        found[name] = spans + [span for span in life.down if name not in CRASHES]
    return found
