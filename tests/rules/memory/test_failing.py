"""Which containers count as failing: the pause between two crashes is no recovery."""

from datetime import timedelta

import pytest

from diagnostics.limits import Limits
from diagnostics.rules.memory.failing import failures
from tests.builders import NOW, container, node, pod, snapshot
from tests.rules.memory.failing_pods import ended


@pytest.mark.parametrize(
    ("restarts", "minutes", "recovered"),
    [(1, 1, True), (9, 1, False), (9, 9, False), (9, 11, True)],
)
def test_a_crash_loop_has_recovered_when_the_kubelet_forgets_its_back_off(
    restarts: int, minutes: int, recovered: bool
) -> None:
    running = container(
        restarts=restarts, running_since=NOW - timedelta(minutes=minutes), last_terminated=ended()
    )
    (failure,) = failures(snapshot(node(), pod(containers=(running,))), Limits())
    assert failure.runs_again is recovered
