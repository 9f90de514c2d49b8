"""GPU108: a node that fails far more often than its neighbours."""

import pytest

from diagnostics.snapshot import Past
from tests.builders import gpu, node
from tests.rules.hardware.boards import found

NODES = tuple(node(f"gpu-{n}") for n in range(1, 6))
GPUS = tuple(gpu(0, f"gpu-{n}") for n in range(1, 6))


def test_names_the_repeat_offender() -> None:
    (finding,) = found("lemon-node", *NODES, *GPUS, past=Past(incidents={"gpu-3": 6, "gpu-1": 1}))
    assert (finding.subject.name, finding.cause) == ("gpu-3", "repeat-offender")
    assert "On 6 occasions" in finding.summary


@pytest.mark.parametrize(
    "incidents",
    [
        {},
        {"gpu-3": 3},
        {f"gpu-{n}": 5 for n in range(1, 6)},
        {"gpu-3": 8} | dict.fromkeys(("gpu-1", "gpu-2", "gpu-4"), 3),
        {"cpu-1": 30},
    ],
)
def test_is_silent_about_few_incidents_and_what_all_nodes_have(incidents: dict[str, int]) -> None:
    assert found("lemon-node", *NODES, *GPUS, node("cpu-1", gpus=0), past=Past(incidents=incidents)) == []


def test_is_silent_without_history() -> None:
    assert found("lemon-node", *NODES, *GPUS) == []
