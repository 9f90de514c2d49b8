"""What the tests of collect share: a recorded cluster, and a target that points at it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from diagnostics.collect.target import Target
from tests.fakes.replay import Replay, replaying


@pytest.fixture
def replay() -> Iterator[Callable[[str], Replay]]:
    """Starts servers of recorded scenarios, by name."""
    with ExitStack() as stack:
        yield lambda scenario: stack.enter_context(replaying(scenario))


@pytest.fixture
def target(tmp_path: Path) -> Callable[..., Target]:
    """A target for a served recording, with the bounds that a test names."""

    def make(served: Replay, **bounds: Any) -> Target:
        return Target(name="lab", kubeconfig=served.kubeconfig(tmp_path / "kubeconfig"), **bounds)

    return make
