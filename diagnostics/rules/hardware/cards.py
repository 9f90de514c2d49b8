"""Physical GPUs: MIG instances of one board are one card, and so is a board that only a kernel line names."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from diagnostics.findings import Evidence, Subject
from diagnostics.quantities import span
from diagnostics.rules.hardware.told import BOARD_SIGNALS, XID, Told, told
from diagnostics.snapshot import Gpu, Metrics, Snapshot, XidSeen
from diagnostics.text import listed, printable


@dataclass(frozen=True)
class Card:
    """One board: `gpus` are the schedulable devices on it. `is_measured`: metrics or pod status know it."""

    slot: str
    gpus: tuple[Gpu, ...]
    told: tuple[Told, ...] = ()
    """What logs and node messages say of it, oldest first."""
    is_measured: bool = True

    @property
    def gpu(self) -> Gpu:
        return self.gpus[0]

    @property
    def node(self) -> str:
        return self.gpu.node

    @property
    def name(self) -> str:
        """`GPU 3`, or by its PCI address."""
        index = next((g.index for g in self.gpus if g.index is not None), None)
        return (
            f"GPU {index}"
            if index is not None
            else f"GPU {printable(self.gpu.pci or self.gpu.uuid or '?', 60)}"
        )

    @property
    def subject(self) -> Subject:
        return Subject(kind="GPU", name=self.slot, uid=self.gpu.uuid or "")

    @property
    def holders(self) -> tuple[str, ...]:
        """Keys of the pods that hold it or a part of it."""
        return tuple(sorted({h for g in self.gpus for h in g.holders}))

    def metric(self, field: str) -> Any:
        """The largest value of a field of `Metrics` over its devices, which repeat their board's; None: unknown."""
        values = [
            v for g in self.gpus if g.metrics is not None and (v := getattr(g.metrics, field)) is not None
        ]
        return max(values, default=None)

    def grown(self, counter: str) -> float | None:
        """By how much a counter rose over the window; None: unknown."""
        field = f"{counter}_grown"
        values = [
            v for g in self.gpus if g.window is not None and (v := getattr(g.window, field)) is not None
        ]
        return max(values, default=None)

    @property
    def span(self) -> timedelta | None:
        """Of its window."""
        return next((g.window.span for g in self.gpus if g.window is not None), None)

    def listing(self, name: str) -> Told | None:
        """The newest part of `nvidia-smi -q` of this name that a log has of it."""
        return next((line for line in reversed(self.told) if line.signal.signal == name), None)

    @property
    def answers(self) -> bool:
        """Some measurement came back; the Xid gauge alone is DCGM's memory."""
        memory = {"sampled_at", "xid"}
        return any(
            getattr(g.metrics, field) is not None
            for g in self.gpus
            if g.metrics is not None
            for field in Metrics.__struct_fields__
            if field not in memory
        )

    def is_busy(self, least: float) -> bool:
        """It works at this moment: an idle GPU lowers links and clocks to save power."""
        ratios = (
            self.metric("utilization_ratio"),
            self.metric("gr_engine_ratio"),
            self.metric("sm_active_ratio"),
        )
        return any(ratio is not None and ratio >= least for ratio in ratios)

    def identity(self) -> Iterator[Evidence]:
        """Which board it is, and who holds it."""
        board = " ".join(filter(None, (self.gpu.uuid, self.gpu.model)))
        if board:
            yield Evidence("board", printable(board, 120), source="metric labels or pod status")
        held = listed([printable(h, 120) for h in self.holders]) if self.holders else "nobody"
        yield Evidence("held by", held, source=self.gpu.holder_source or "holders")


def card_slot(gpu: Gpu) -> str:
    """The physical GPU's slot: without the MIG instance."""
    return gpu.slot.partition("/mig-")[0]


def cards(snapshot: Snapshot) -> list[Card]:
    """Every named board, and those that only a log or a message about the node names."""
    found: dict[str, list[Gpu]] = {}
    for gpu in snapshot.gpus:
        if gpu.is_named:
            found.setdefault(card_slot(gpu), []).append(gpu)
    said: dict[str, list[Told]] = {}
    for line in told(snapshot, BOARD_SIGNALS):
        if line.slot is not None:
            said.setdefault(line.slot, []).append(line)
    known = [Card(slot, tuple(gpus), tuple(said.pop(slot, ()))) for slot, gpus in found.items()]
    return known + [
        Card(slot, (Gpu(slot=slot, node=lines[0].node, pci=slot.partition("/")[2]),), tuple(lines), False)
        for slot, lines in said.items()
    ]


def xids_of(snapshot: Snapshot, card: Card) -> list[XidSeen]:
    """Each code once, with the newest time at which it was seen to happen and the kernel's words where known.

    A kernel line without a time was in the tail of a log that was read now: it counts as of now.
    """
    newest: dict[int, XidSeen] = {}
    slots = {card.slot, *(g.slot for g in card.gpus)}
    seen = [x for g in card.gpus if g.window for x in g.window.xids]
    seen += [x for s in sorted(slots) for x in snapshot.past.xids.get(s, ())]
    lines = [xid for line in card.told if (xid := _of_line(snapshot, line)) is not None]
    printed: dict[int, int] = defaultdict(int)
    for xid in lines:
        printed[xid.code] += xid.count or 1
    for xid in seen + lines:
        known = newest.get(xid.code)
        if known is None:
            newest[xid.code] = xid
            continue
        last = max(known, xid, key=_when)
        newest[xid.code] = msgspec.structs.replace(last, message=last.message or known.message or xid.message)
    return [
        msgspec.structs.replace(xid, count=max(xid.count or 0, printed[code])) if code in printed else xid
        for code, xid in newest.items()
    ]


def _of_line(snapshot: Snapshot, line: Told) -> XidSeen | None:
    code = line.signal.numbers.get("xid_code")
    if line.signal.signal != XID or code is None:
        return None
    return XidSeen(
        code=int(code),
        last_at=min(line.signal.at or snapshot.taken_at, snapshot.taken_at),
        count=line.signal.count,
        message=line.signal.words.get("message", ""),
    )


def _when(xid: XidSeen) -> float:
    return xid.last_at.timestamp() if xid.last_at else float("-inf")


def ago(snapshot: Snapshot, line: Told) -> str:
    """`12 min ago`, or that the line has no time."""
    return (
        f"{span(snapshot.age(line.signal.at))} ago"
        if line.signal.at
        else "at a time that the line does not say"
    )
