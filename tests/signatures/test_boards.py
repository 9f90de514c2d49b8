"""What kernel and tools say of single boards, in the wordings of several drivers and log systems."""

import pytest

from diagnostics.signatures import signals_in
from diagnostics.snapshot import LogSignal


def read(text: str) -> dict[str, LogSignal]:
    return {s.signal: s for s in signals_in(text, namespace="a", pod="b", container="c")}


PROBE = "The NVIDIA GPU 0000:b3:00.0\n{0}(PCI ID: 10de:26b5) installed in this system has\n{0}fallen off the bus and is"
LOST = (
    "[ 1843.308145] NVRM: " + PROBE.format("               NVRM: "),
    "[Tue Nov  3 10:11:12 2026] NVRM: " + PROBE.format("[Tue Nov  3 10:11:12 2026] NVRM: "),
    "Nov  3 10:11:12 worker kernel: NVRM: " + PROBE.format("Nov  3 10:11:12 worker kernel: NVRM: "),
    "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
    "NVRM: GPU at PCI:0000:b3:00: GPU has fallen off the bus.",
    "NVRM: GPU at 0000:b3:00.0 has fallen off the bus.",
)


@pytest.mark.parametrize("text", LOST)
def test_reads_which_gpu_fell_off_the_bus(text: str) -> None:
    words = read(text)["gpu-fallen-off-bus"].words
    assert (words.get("pci") or words.get("probed", ""))[5:10] == "b3:00"


@pytest.mark.parametrize(
    ("text", "pci"),
    [
        ("Unable to determine the device handle for GPU0000:5F:00.0: Unknown Error", "0000:5F:00.0"),
        ("Unable to determine the device handle for GPU 0000:5F:00.0: Not Found", "0000:5F:00.0"),
        ("Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error", "0000:5F:00.0"),
        (
            "Unable to determine the device handle for GPU 00000000:5F:00.0: GPU is lost.  Reboot the system to",
            "00000000:5F:00.0",
        ),
        ("Unable to determine the device handle for gpu 0000:5F:00.0: Unknown Error", "0000:5F:00.0"),
    ],
)
def test_reads_a_handle_that_is_gone(text: str, pci: str) -> None:
    assert read(text)["gpu-handle-lost"].words["pci"] == pci


def test_reads_a_gpu_in_error_from_nvidia_smis_table() -> None:
    table = """
|   2  NVIDIA H100 80GB HBM3          On  |   00000000:46:00.0 Off |                    0 |
| N/A   31C    P0             71W /  700W |       4MiB /  81559MiB |      0%      Default |
|   3  NVIDIA H100 80GB HBM3          On  |   00000000:47:00.0 Off |                 ERR! |
| ERR! ERR! ERR!             ERR! / ERR!  |       4MiB /  81559MiB |    ERR!      Default |
"""
    assert read(table)["nvidia-smi-err"].words["pci"] == "00000000:47:00.0"


@pytest.mark.parametrize(("pending", "failed"), [("Yes", "No"), ("No", "Yes"), ("No", "No")])
def test_reads_the_state_of_remapped_rows(pending: str, failed: str) -> None:
    text = f"""
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 4
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
    """
    signal = read(text)["remapped-rows"]
    assert (signal.words["pending"], signal.words["failed"]) == (pending, failed)
    assert (signal.numbers["correctable_count"], signal.numbers["uncorrectable_count"]) == (1, 4)


def test_reads_an_xid_of_a_mig_instance() -> None:
    signal = read("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 43, pid=77, name=python3, Ch 00000008")["xid"]
    assert signal.numbers["xid_code"] == 43
    assert signal.words["mig_instance"] == "05"
    assert signal.words["process"] == "python3"


@pytest.mark.parametrize(
    "text",
    [
        "I1025 02:19:08.002792 1 health.go:151] Skipping non-nvmlEventTypeXidCriticalError event: {EventType:2}",
        "No devices found. Waiting indefinitely.",
        "GPU 0: NVIDIA H100 (UUID: GPU-1) Link 0: 26.562 GB/s",
        "the bus fell off the table",
    ],
)
def test_takes_nothing_else_for_trouble_of_a_board(text: str) -> None:
    assert not {
        "gpu-fallen-off-bus", "gpu-handle-lost", "nvidia-smi-err", "no-devices-found", "nvlink-inactive", "xid",
        "plugin-device-unhealthy",
    } & set(read(text))  # fmt: skip


def test_tells_marked_devices_apart() -> None:
    text = "\n".join(
        f"XidCriticalError: Xid={x} on Device=GPU-{u}; marking device as unhealthy."
        for x, u in ((94, "a"), (48, "b"))
    )
    signals = signals_in(text, namespace="a", pod="b", container="c")
    assert {(s.numbers["xid_code"], s.words["device"]) for s in signals} == {(94, "GPU-a"), (48, "GPU-b")}
