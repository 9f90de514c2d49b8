"""What logs and messages about nodes say of boards: which node, which board."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from diagnostics.findings import Evidence
from diagnostics.snapshot import Gpu, LogSignal, Snapshot
from diagnostics.snapshot.pci import pci_address
from diagnostics.text import printable

XID = "xid"
LOST = (
    "gpu-fallen-off-bus",
    "gpu-power-missing",
    "gpu-handle-lost",
    "nvidia-smi-err",
    "gpu-init-failed",
    "operator-gpu-lost",
)
"""The plainest words first."""
MARKED = "plugin-device-unhealthy"
REMAPPED, RETIRED = "remapped-rows", "page-retirement"
CLOCKS, PCIE = "clock-reasons", "pcie-link"
LISTED = (REMAPPED, RETIRED, CLOCKS, PCIE)
"""Parts of `nvidia-smi -q`."""
LINK_DOWN = "nvlink-inactive"
LINK_UP = "nvlink-active"
SWITCH = "nvswitch-sxid"
NO_DEVICES = "no-devices-found"
BOARD_SIGNALS = (XID, *LOST, MARKED, *LISTED)


class Told(NamedTuple):
    """One signal about a node. `slot`: the board's slot, where the line names the board."""

    signal: LogSignal
    node: str
    slot: str | None

    def evidence(self, label: str) -> Evidence:
        where = f"log of {self.signal.pod_key}" if self.signal.pod else f"a message about node {self.node}"
        times = f" ({self.signal.count} times)" if self.signal.count > 1 else ""
        return Evidence(label, printable(self.signal.line, 300) + times, source=printable(where, 200))


def told(snapshot: Snapshot, names: Collection[str]) -> Iterator[Told]:
    """Signals of these names whose node is known, in the order of the snapshot."""
    by_node: dict[str, list[Gpu]] = {}
    for signal in snapshot.signals:
        if signal.signal not in names:
            continue
        pod = snapshot.pod_by_key.get(signal.pod_key)
        node = signal.words.get("node") or (pod.node if pod is not None else None)
        if not node:
            continue
        gpus = by_node.setdefault(node, [g for g in snapshot.gpus_by_node.get(node, []) if g.is_named])
        yield Told(signal, node, _slot(signal, node, gpus))


def _slot(signal: LogSignal, node: str, gpus: list[Gpu]) -> str | None:
    pci = pci_address(signal.words.get("pci") or signal.words.get("probed") or "")
    if pci is not None:
        return next((_board(g) for g in gpus if g.pci == pci), f"{node}/{pci}")
    uuid = signal.words.get("device") or signal.words.get("marked")
    index = signal.numbers.get("gpu_index")
    if signal.signal in LISTED:
        return _only(signal, gpus)
    if uuid:
        return next((_board(g) for g in gpus if uuid in (g.uuid, g.slot.rpartition("/")[2])), None)
    if index is not None:
        return next((_board(g) for g in gpus if g.index == index), None)
    return None


def _only(signal: LogSignal, gpus: list[Gpu]) -> str | None:
    """A listing without a heading is of its pod's board, where that holds one only."""
    held = {_board(gpu) for gpu in gpus if signal.pod_key in gpu.holders}
    return held.pop() if len(held) == 1 else None


def _board(gpu: Gpu) -> str:
    return gpu.slot.partition("/mig-")[0]
