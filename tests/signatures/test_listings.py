"""Listings in logs: processes on a GPU, MIG devices, memory snapshots."""

import json

import pytest

from diagnostics.signatures import signals_in
from diagnostics.snapshot import LogSignal

MIB = 2.0**20


def read(text: str) -> list[LogSignal]:
    return list(signals_in(text, namespace="a", pod="b", container="c"))


@pytest.mark.parametrize(
    "text",
    [
        "pid, used_gpu_memory [MiB]\n4711, 5144 MiB\n4712, 2070 MiB\nready",
        "nvidia-smi --query-compute-apps=used_memory,pid --format=csv,noheader\n5144 MiB, 4711\n2070 MiB, "
        "4712",
        "pid, process_name, used_gpu_memory [MiB]\n4711, python3 serve.py, 5144 MiB\n4712, python3, 2070 MiB",
        "|    0   N/A  N/A      4711      C   python3                5144MiB |\n|    0   N/A  N/A      4712  "
        "    C   /opt/venv/bin/python   2070MiB |\n+-----+",
    ],
)
def test_reads_who_holds_a_gpu_in_every_form_of_nvidia_smi(text: str) -> None:
    (signal,) = read(text)
    assert signal.numbers["process_4711_bytes"] == 5144 * MIB
    assert signal.numbers["process_4712_bytes"] == 2070 * MIB
    assert signal.numbers["processes_count"] == 2
    assert signal.numbers["used_bytes"] == 7214 * MIB


def test_keeps_the_rows_of_two_gpus_apart() -> None:
    rows = "|    {}   N/A  N/A      {}      C   python3                5144MiB |"
    found = read("\n".join((rows.format(0, 1), rows.format(0, 2), rows.format(1, 3))))
    assert [s.words["gpu"] for s in found] == ["0", "1"]
    assert [s.numbers["processes_count"] for s in found] == [2, 1]


def test_reads_the_size_of_the_gpu_from_the_table_above() -> None:
    text = (
        "| N/A   45C    P0    70W / 70W |  14796MiB / 15360MiB |  0%  Default |\n|    0   N/A  N/A      4711 "
        "     C   python3      14790MiB |"
    )
    assert read(text)[0].numbers["total_bytes"] == 15360 * MIB


def test_takes_a_heading_without_rows_for_nothing() -> None:
    assert read("pid, used_gpu_memory [MiB]\nNo running processes found\n") == []


SEGMENT = {
    "total_size": 1000,
    "active_size": 300,
    "segment_type": "large",
    "blocks": [
        {"size": 200, "state": "active_allocated"},
        {"size": 600, "state": "inactive"},
        {"size": 100, "state": "active_pending_free"},
        {"size": 100, "state": "inactive"},
    ],
}


@pytest.mark.parametrize("form", [repr, json.dumps])
@pytest.mark.parametrize("order", [list(SEGMENT), list(reversed(SEGMENT))])
def test_reads_a_memory_segment_as_python_or_json_in_any_order(form: object, order: list[str]) -> None:
    assert callable(form)
    (signal,) = read(form({key: SEGMENT[key] for key in order}))
    assert signal.numbers == {
        "total_bytes": 1000, "active_bytes": 300, "active_count": 2, "inactive_count": 2,
        "largest_inactive_bytes": 600,
    }  # fmt: skip


def test_reads_each_segment_of_a_snapshot() -> None:
    other = {**SEGMENT, "total_size": 5000}
    assert [s.numbers["total_bytes"] for s in read(repr([SEGMENT, other]))] == [1000, 5000]


def test_reads_a_mig_device() -> None:
    (signal,) = read("  MIG 1g.10gb     Device  3: (UUID: MIG-00000000-0000-0000-0000-00000000000a)")
    assert signal.words == {"profile": "1g.10gb", "slice": "10"}
    assert signal.numbers == {"device_index": 3}
