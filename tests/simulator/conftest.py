"""Simulated clusters at a fixed moment."""

from collections.abc import Iterator

import pytest

from diagnostics.simulator.config import DEMO, WorldConfig
from diagnostics.simulator.server import SimulatedCluster
from tests.simulator.simulated import NOW


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """Wholly healthy."""
    with SimulatedCluster(WorldConfig(), lambda: NOW) as running:
        yield running


@pytest.fixture
def demo() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(DEMO, lambda: NOW) as running:
        yield running
